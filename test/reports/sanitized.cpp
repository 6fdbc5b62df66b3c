// SPDX-License-Identifier: BSL-1.0
// Programs with one mistake each, for a tool that watches malloc: built with POOLED_SANITIZE, each must end with that tool's
// report; the one called `correct` without any. test/reports/CMakeLists.txt says which report, tools/expect_report.py looks for it.
//
// Without GoogleTest and with little of the standard library: MemorySanitizer takes what an uninstrumented one writes for
// uninitialised.

#include "pooled/pooled.hpp"

#include "support/internals.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

static_assert(POOLED_SANITIZE != 0,
              "these programs are built with -DPOOLED_SANITIZE=1, or under a sanitizer that implies it");

namespace {

struct packet {
    char bytes[40];
};
struct owner {
    void* memory = std::malloc(100);
    owner() = default;
    owner(owner const&) = delete;
    owner& operator=(owner const&) = delete;
    ~owner() { std::free(memory); }
};
struct node {
    node() {}  // NOLINT: not defaulted, for then all of it would be zeroed
    std::shared_ptr<node> next;
    pooled::unique_ptr<owner> owned;
    char never_written[24];
};
struct base {
    virtual ~base() = default;
    int value = 1;
};
struct other_base {
    virtual ~other_base() = default;
};
struct derived : other_base, base {
    owner owned;
};

// The compiler would see the mistakes, and warn.
template <class T>
T* hidden(T* p) {
    asm volatile("" : "+r"(p)::"memory");
    return p;
}

pooled::pool& immortal() {
    static auto* const made = new pooled::pool{{.name = "packets"}};
    return *made;
}

void read_after_free_of_a_block() {
    auto* const p = hidden(static_cast<char*>(immortal().allocate(48)));
    p[0] = 1;
    immortal().deallocate(p, 48);
    std::exit(*hidden(p));
}
void read_after_drop_of_a_shared_ptr() {
    auto p = pooled::make_shared<packet>();
    packet const* const seen = hidden(p.get());
    p.reset();
    std::exit(*hidden(seen->bytes));
}
void read_after_drop_of_a_unique_ptr() {
    auto p = immortal().make_unique<packet>();
    packet const* const seen = hidden(p.get());
    p.reset();
    std::exit(*hidden(seen->bytes));
}
void second_drop_of_a_unique_ptr() {
    auto p = pooled::make_unique<packet>();
    pooled::unique_ptr<packet> const q(hidden(p.get()));
    p.reset();
}
// The block is one of 112 bytes, the caller asked for 101.
void write_behind_a_block() {
    auto* const p = hidden(static_cast<char*>(immortal().allocate(101)));
    hidden(p)[101] = 1;
    immortal().deallocate(p, 101);
}
void write_behind_a_shared_ptr() {
    auto const p = pooled::make_shared<packet>();
    hidden(p->bytes)[40] = 1;
}
void write_behind_a_large_block() {
    auto* const p = hidden(static_cast<char*>(immortal().allocate(100'001)));
    hidden(p)[100'001] = 1;
    immortal().deallocate(p, 100'001);
}
void write_in_front_of_a_block() {
    auto* const p = hidden(static_cast<char*>(immortal().allocate(48)));
    hidden(p)[-1] = 1;
    immortal().deallocate(p, 48);
}
void deallocate_twice() {
    void* const p = hidden(immortal().allocate(48));
    immortal().deallocate(p, 48);
    immortal().deallocate(hidden(p), 48);
}
void deallocate_inside() {
    auto* const p = hidden(static_cast<char*>(immortal().allocate(48)));
    immortal().deallocate(p + 8, 48);
}
void deallocate_into_another_pool() {
    pooled::pool other;
    immortal().deallocate(other.allocate(48), 48);
}
void deallocate_with_another_size() { immortal().deallocate(immortal().allocate(48), 47); }

// What a program forgot may still stand in the frames of functions that have returned.
[[gnu::noinline]] void overwrite_stack() {
    char volatile area[16384];
    for (char volatile& c : area)
        c = 0;
}
[[gnu::noinline]] void leak_a_block() { std::memset(immortal().allocate(12'345), 0, 12'345); }
[[gnu::noinline]] void leak_an_object() { static_cast<void>(immortal().make_unique<owner>().release()); }

std::uint64_t sum_of(unsigned char const* p, std::size_t bytes) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < bytes; ++i)
        sum += p[i];
    return sum;
}
void read_uninitialised() {
    auto* const p = hidden(static_cast<unsigned char*>(immortal().allocate(48)));
    if (sum_of(p, 48) == 100) std::exit(0);
    immortal().deallocate(p, 48);
}
// For the pool, the memory was written by its previous owner.
void read_what_the_last_owner_wrote() {
    auto* p = hidden(static_cast<unsigned char*>(immortal().allocate(48)));
    std::memset(p, 1, 48);
    immortal().deallocate(p, 48);
    p = hidden(static_cast<unsigned char*>(immortal().allocate(48)));
    if (sum_of(p, 48) == 100) std::exit(0);
    immortal().deallocate(p, 48);
}

template <class Pool>
void build_and_drop(Pool& pool, int count) {
    std::shared_ptr<node> head;
    for (int i = 0; i < count; ++i) {
        auto n = pool.template make_shared<node>();
        n->next = std::move(head);
        n->owned = pool.template make_unique<owner>();
        head = std::move(n);
    }
}

// What a tool must not report: reached only from pooled objects, from handles of any kind, from idle and from deferred
// objects; in pools that are closed while blocks are in use, on an upstream of malloc and on another pool.
template <class Pool>
void use(Pool& pool) {
    build_and_drop(pool, 20'000);  // deeper than the stack allows: some are deferred
    auto array = pool.template make_shared<int[]>(100, 1);
    auto large = pool.template make_unique<char[]>(100'000);
    auto weak = std::weak_ptr<packet>(pool.template make_shared<packet>());
    auto counted = pool.template make_rc<derived>();
    pooled::detail::rc_ptr_of<base, pooled::detail::counting_of<pooled::detail::pool_access::k_sharing<Pool>>>
        second = counted;
    counted.reset();
    if (array[99] != 1 || large[99'999] != 0 || !weak.expired() || second->value != 1) std::abort();
    for (std::size_t align = 1; align <= 65536; align *= 2) {
        void* const p = pool.allocate(align + 3, align);
        if (reinterpret_cast<std::uintptr_t>(p) % align != 0 || !pool.owns(p) || pool.owns(&pool))
            std::abort();
        if (!pool.owns(static_cast<char*>(p) + align + 2)) std::abort();
        std::memset(p, 0, align + 3);
        pool.deallocate(p, align + 3, align);
    }
    void* const empty = pool.allocate(0, 1);
    pool.deallocate(empty, 0, 1);
    if (!test::is_valid(pool) || pool.stats().in_use != 4) std::abort();
}

void exhaust() {
    pooled::pool bounded{{.max_bytes = 65536}};
    void* all[2000];
    int count = 0;
    while (void* const p = bounded.try_allocate(48))
        all[count++] = p;
    if (count != 16384 / 48 * 4 || bounded.stats().in_use != static_cast<std::uint64_t>(count)) std::abort();
    while (count != 0)
        bounded.deallocate(all[--count], 48);
}

std::shared_ptr<node>& static_owner() {
    static std::shared_ptr<node> owner;
    return owner;
}

void correct() {
    use(pooled::default_pool());
    use(immortal());
    {
        pooled::local_pool local;
        use(local);
        pooled::pool on_malloc{{.upstream = std::pmr::new_delete_resource()}};
        use(on_malloc);
        pooled::pool on_pool{{.upstream = immortal().resource()}};
        use(on_pool);
        pooled::pool unordered{{.teardown = pooled::teardown::unordered}};
        use(unordered);
        pooled::reclaim_scope const scope;
        build_and_drop(immortal(), 1000);
    }
    exhaust();
    static_owner() = pooled::make_shared<node>();
    {
        pooled::pool closed;
        static_owner()->next = closed.make_shared<node>();
        static_owner()->next->owned = closed.make_unique<owner>();
    }
    static auto* const on_malloc = new pooled::pool{{.upstream = std::pmr::new_delete_resource()}};
    static auto const kept = on_malloc->make_unique<owner>().release();
    static_cast<void>(kept);
    static auto* const idle = new pooled::pool{{.upstream = std::pmr::new_delete_resource()}};
    idle->deallocate(idle->allocate(48), 48);  // only the pool knows the chunk
    static auto* const incremental = new pooled::pool{{.teardown = pooled::teardown::incremental}};
    build_and_drop(*incremental, 1000);
    static auto* const recycled = new pooled::object_pool<owner>({.initial_objects = 100});
    static auto const acquired = recycled->acquire();
    static auto* const single = new pooled::object_pool<owner>({.growth = 1});
    single->acquire_unique().reset();  // idle in this thread's cache
    static pooled::rc_ptr<base> const upcast = immortal().make_rc<derived>();
}

struct scenario {
    char const* name;
    void (*run)();
};
constexpr scenario k_scenarios[] = {
    {"correct", correct},
    {"deallocate_inside", deallocate_inside},
    {"deallocate_into_another_pool", deallocate_into_another_pool},
    {"deallocate_twice", deallocate_twice},
    {"deallocate_with_another_size", deallocate_with_another_size},
    {"leak_a_block", leak_a_block},
    {"leak_an_object", leak_an_object},
    {"read_after_drop_of_a_shared_ptr", read_after_drop_of_a_shared_ptr},
    {"read_after_drop_of_a_unique_ptr", read_after_drop_of_a_unique_ptr},
    {"read_after_free_of_a_block", read_after_free_of_a_block},
    {"read_uninitialised", read_uninitialised},
    {"read_what_the_last_owner_wrote", read_what_the_last_owner_wrote},
    {"second_drop_of_a_unique_ptr", second_drop_of_a_unique_ptr},
    {"write_behind_a_block", write_behind_a_block},
    {"write_behind_a_large_block", write_behind_a_large_block},
    {"write_behind_a_shared_ptr", write_behind_a_shared_ptr},
    {"write_in_front_of_a_block", write_in_front_of_a_block},
};

}  // namespace

int main(int argc, char** argv) {
    for (scenario const& each : k_scenarios)
        if (argc == 2 && std::strcmp(argv[1], each.name) == 0) {
            each.run();
            overwrite_stack();
            return 0;
        }
    return 2;
}
