// SPDX-License-Identifier: BSL-1.0
// Every public name of the library in one small program, which is compiled in many ways: see CMakeLists.txt here. Exit status
// 0 is success, otherwise the line of the check that failed.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if !defined(__cpp_exceptions)
// The hook: what would throw ends the program here, with a message that names the pool and the request. The last thing that main() does.
namespace {
[[noreturn]] void ends(char const* message) {
    bool const says_who = std::strstr(message, "pool 'bounded' is exhausted: ") != nullptr ||
                          std::strstr(message, "pool 'unbounded' cannot reserve ") != nullptr;
    std::_Exit(says_who && std::strstr(message, " bytes") != nullptr ? 0 : 250);
}
}  // namespace
#define POOLED_THROW(exception) ends((exception).what())
#endif

#include <pooled/pooled.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <memory_resource>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

#define REQUIRE(condition) \
    if (!(condition)) return __LINE__ % 250

struct base {
    base() = default;
    base(base const&) = delete;
    base& operator=(base const&) = delete;
    virtual ~base() = default;
};
struct object : base {
    explicit object(int v = 1) : value(v) {}
    int value;
};
struct knows_itself : pooled::enable_rc_from_this<knows_itself> {};
struct guard {
    int value = 0;
};

struct strings : pooled::default_lifecycle<std::string> {
    void on_release(std::string& s) { s.clear(); }
};

template <class Pool>
int use(Pool& pool) {
    void* const raw = pool.allocate(100, 64);
    pool.deallocate(raw, 100, 64);
    void* const large = pool.try_allocate(100'000);
    REQUIRE(large != nullptr && pool.owns(large));
    pool.deallocate(large, 100'000);
    REQUIRE(pool.try_allocate(~std::size_t{0} / 2) == nullptr);
    auto const shared = pool.template make_shared<object>(2);
    std::weak_ptr<object> const weak = shared;
    pooled::unique_ptr<base> const unique = pool.template make_unique<object>(3);
    auto const counted = pool.template make_rc<object>(4);
    auto const local = pool.template make_local_rc<int>(5);
    auto const tried = pool.template try_make_shared<std::string>("six");
    auto const tried_array = pool.template try_make_shared<std::string[]>(7);
    REQUIRE(pool.template try_make_shared<std::string[]>(2, "two")[1] == "two");
    REQUIRE(pool.template try_make_shared<std::string const[2]>("two")[1] == "two");
    REQUIRE(pool.template try_make_shared<std::string[2]>()[1].empty());
    REQUIRE(pool.template try_make_shared_for_overwrite<std::string>()->empty());
    REQUIRE(pool.template try_make_shared_for_overwrite<int[2]>() != nullptr);
    REQUIRE(pool.template try_make_shared_for_overwrite<int[]>(2) != nullptr);
    auto const tried_unique = pool.template try_make_unique<int[]>(8);
    auto const tried_counted = pool.template try_make_rc<object>(9);
    auto const array = pool.template make_shared<int[]>(10, 11);
    auto const overwritten = pool.template make_shared_for_overwrite<int[]>(12);
    REQUIRE(weak.lock() == shared && shared->value == 2 && unique != nullptr && counted->value == 4);
    REQUIRE(*local == 5 && *tried == "six" && array[9] == 11);
    tried_array[6] = "seven, and too long for the string itself";
    tried_unique[7] = 8;
    REQUIRE(tried_counted->value == 9 && overwritten != nullptr);
    pool.template reserve<object>(100);
    pool.reserve_bytes(10, 100);
    std::map<int, int, std::less<>, pooled::pool_allocator<std::pair<int const, int>, Pool>> numbers{pool};
    numbers[1] = 2;
    for (std::size_t count = 1; count < 500;
         ++count) {  // the standard library says their lengths at the end, too
        auto const of_pool = std::allocate_shared<int[]>(pooled::pool_allocator<int, Pool>(pool), count, 3);
        auto const other = std::allocate_shared<int[]>(pooled::allocator<int>(), count, 4);
        auto const bounded = std::allocate_shared<int[5]>(pooled::pool_allocator<int, Pool>(pool), 5);
        REQUIRE(of_pool.get()[count - 1] == 3 && other.get()[count - 1] == 4 && bounded[4] == 5);
    }
    std::pmr::vector<int> vector{pool.resource()};
    vector.resize(1000);
    pooled::pool_stats const stats = pool.stats();
    std::ostringstream out;
    out << stats;
    REQUIRE(stats.in_use > 10 && !stats.to_json().empty() && !out.str().empty());
    static_cast<void>(pool.drain());
    static_cast<void>(pool.trim());
    return 0;
}

int use_objects() {
    pooled::object_pool<std::string, strings> pool{{.name = "strings", .max_objects = 2}};
    auto const a = pool.acquire();
    auto b = pool.acquire_unique();
    REQUIRE(pool.try_acquire() == nullptr);
    REQUIRE(pool.acquire_for(std::chrono::milliseconds(1)) == nullptr);
    REQUIRE(pool.capacity() == 2 && pool.in_use() == 2 && pool.idle() == 0 && pool.high_water() == 2);
    b.reset();
    auto const c = pool.try_acquire_rc();
    REQUIRE(c != nullptr && c->empty());
    pooled::local_object_pool<int> numbers{{.name = "numbers"}};
    REQUIRE(numbers.acquire() != nullptr);
    return 0;
}

int use_modes() {
    pooled::pool incremental{{.name = "later", .teardown = pooled::teardown::incremental}};
    static_cast<void>(incremental.make_shared<object>());
    static_cast<void>(incremental.try_make_shared<object>());
    pooled::pending pending = incremental.take_pending();
    static_cast<void>(pending);
    pooled::reclaim_scope const scope;
    pooled::pool unordered{{.name = "unordered", .teardown = pooled::teardown::unordered}};
    static_cast<void>(unordered.make_shared<object>());
    return 0;
}

int run_dry() {
    pooled::pool bounded{{.name = "bounded", .max_bytes = 1U << 20}};
    std::vector<std::shared_ptr<object>> all;
    while (auto one = bounded.try_make_shared<object>())
        all.push_back(std::move(one));
    REQUIRE(all.size() > 1000);
    REQUIRE(bounded.try_make_shared<char[]>(1U << 20) == nullptr);
    REQUIRE(bounded.try_make_unique<object>() == nullptr && bounded.try_make_rc<object>() == nullptr);
#if defined(__cpp_exceptions)
    try {
        static_cast<void>(bounded.make_shared<object>());
    } catch (pooled::exhausted const& e) {
        return std::strstr(e.what(), "is exhausted") != nullptr ? 0 : __LINE__ % 250;
    }
#else
    static_cast<void>(bounded.make_shared<object>());
#endif
    return __LINE__ % 250;
}

// Its memory, but for less than a slab, is on its way to upstream.
struct slow_upstream : std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        return upstream->allocate(bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        is_inside = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        upstream->deallocate(p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
        return this == &other;
    }
    std::pmr::memory_resource* upstream = std::pmr::new_delete_resource();
    std::atomic<bool> is_inside{false};
};
template <class Use>
int wait_for_trim(Use use) {
    slow_upstream slow;
    pooled::pool waiting{
        {.name = "waiting", .max_bytes = 40U << 10, .chunk_bytes = 32U << 10, .upstream = &slow}};
    waiting.deallocate(waiting.allocate(30'000), 30'000);
    REQUIRE(waiting.stats().upstream_bytes == 32U << 10);
    std::thread other([&] { waiting.trim(); });
    while (!slow.is_inside) {}
    bool const is_served = use(waiting);
    other.join();
    return is_served ? 0 : __LINE__ % 250;
}

// In a process whose address space ends soon. The alarm stops a loop that never ends. `last` ends the process by the hook.
int run_out_of_memory(void (*last)(pooled::pool&) = nullptr) {
    pid_t const child = fork();
    if (child == 0) {
        alarm(60);
        rlimit const little{std::size_t{256} << 20, std::size_t{256} << 20};
        if (setrlimit(RLIMIT_AS, &little) != 0) _exit(1);
        pooled::pool pool{{.name = "unbounded"}};
        std::array<std::shared_ptr<char[]>, 20'000> small;
        std::array<std::shared_ptr<char[]>, 300> large;
        auto const is_refused = [&pool](auto& all, std::size_t bytes) {
            for (auto& each : all)
                if ((each = pool.try_make_shared<char[]>(bytes)) == nullptr) return true;
            return false;
        };
        bool const are_refused = is_refused(large, 1U << 20) && is_refused(small, 30'000);
        if (last != nullptr && are_refused) last(pool);
        large.fill(nullptr);
        _exit(are_refused && pool.try_make_shared<char[]>(1U << 20) != nullptr ? 0 : 2);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status == 0 ? 0 : __LINE__ % 250;
}

}  // namespace

template <>
inline constexpr bool pooled::destroy_in_place<guard> = true;

int main() {
    int status = use(pooled::default_pool());
    pooled::pool pool{{.name = "pool"}};
    pooled::local_pool local{{.name = "local"}};
    int of_thread = 0;
    std::thread([&] { of_thread = use(pool); }).join();
    for (int const each : {of_thread, use(pool), use(local), use_objects(), use_modes()})
        status = status != 0 ? status : each;
    auto const shared = pooled::make_shared<guard>();
    auto const unique = pooled::make_unique<object>();
    pooled::rc_ptr<object> const counted = pooled::make_rc<object>();
    pooled::weak_rc_ptr<object> const weak = counted;
    auto const itself = pooled::make_rc<knows_itself>();
    if (itself->rc_from_this() != itself) status = __LINE__ % 250;
    std::vector<int, pooled::allocator<int>> const vector(100);
    if (shared->value != 0 || unique->value != 1 || weak.lock() != counted || vector.size() != 100)
        status = __LINE__ % 250;
    if (status == 0) status = run_out_of_memory();
#if !defined(__cpp_exceptions)
    if (status == 0)
        status = run_out_of_memory([](pooled::pool& p) { static_cast<void>(p.allocate(100'000'000)); });
    if (status == 0) status = run_out_of_memory([](pooled::pool& p) { p.reserve_bytes(10'000, 20'000); });
#endif
    if (status == 0) status = wait_for_trim([](pooled::pool& p) { return p.reserve_bytes(1, 100), true; });
    if (status == 0)
        status = wait_for_trim([](pooled::pool& p) {
            void* const one = p.try_allocate(100);
            p.deallocate(one, 100);
            return one != nullptr;
        });
    if (status == 0) status = run_dry();
    if (status != 0) std::printf("line %d (modulo 250)\n", status);
    return status;
}
