// SPDX-License-Identifier: BSL-1.0

// pool::live_report(): what one pool holds, by type.

#include "pooled/pooled.hpp"

#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/no_metadata.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#if !defined(_WIN32)
#include <sys/resource.h>
#endif

namespace drawn {
struct square {
    int side = 0;
    ~square() { side = 0; }
};
}  // namespace drawn

namespace untyped {
std::string report();  // support/without_rtti.cpp
}

namespace {

struct packet {
    char bytes[100];
};
struct shape {
    virtual ~shape() = default;
    int number = 0;
};
struct circle : shape {
    std::string name;
};
template <class T>
struct named {
    std::string name;
};

template <class Pool>
std::string report_of(Pool const& pool) {
    std::ostringstream out;
    pool.live_report(out);
    return out.str();
}
TEST(live_report_of_each_build, names_the_types_of_shared_counted_and_virtual_objects) {
    pooled::pool pool;
    auto const shared = pool.make_shared<packet>();
    auto const counted = pool.make_rc<named<int>>();
    pooled::unique_ptr<shape> const virtual_one = pool.make_unique<circle>();
    std::string const report = report_of(pool);
    for (char const* const name : {"packet, ", "named<int>, ", "circle, "})
        EXPECT_NE(report.find(name), std::string::npos) << report;
}

class live_report : public testing::Test {
protected:
    void SetUp() override {
        if (POOLED_SANITIZE) GTEST_SKIP() << "objects lie in blocks of malloc, of other sizes";
    }
};

TEST_F(live_report, names_the_types_of_what_is_in_use_and_their_bytes) {
    pooled::pool pool{{.name = "packets"}};
    std::vector<std::shared_ptr<packet>> packets;
    for (int i = 0; i < 300; ++i)
        packets.push_back(pool.make_shared<packet>());
    auto const one = pool.make_rc<named<std::pair<int, char>>>();
    auto const two = pool.make_unique<named<std::pair<int, char>>>();
    auto const array = pool.make_rc<named<int>[]>(3);
    pooled::unique_ptr<shape> const virtual_one = pool.make_unique<circle>();
    void* const raw = pool.allocate(3000);
    std::string const report = report_of(pool);
    EXPECT_NE(report.find("pool 'packets': 305 blocks in use"), std::string::npos) << report;
    EXPECT_NE(report.find("\n  300 of "), std::string::npos) << report;
    EXPECT_NE(report.find("named<std::pair<int, char>"), std::string::npos) << report;
    EXPECT_NE(report.find("circle, "), std::string::npos) << report;
    EXPECT_NE(report.find("named<int>"), std::string::npos) << report;
    EXPECT_NE(report.find(" bytes that name no type"), std::string::npos) << report;
    EXPECT_LT(report.find("packet, "), report.find("bytes that name no type"));
    pool.deallocate(raw, 3000);
}

// A small number, a pair of them, a floating-point number, or an address, whose lowest bits are a type's number.
TEST_F(live_report, takes_no_ordinary_first_word_for_the_header_of_a_counted_object) {
    using pooled::detail::count_header;
    pooled::pool pool{{.name = "numbers"}};
    auto const one = pool.make_rc<named<short>>();
    std::uint64_t const header = (reinterpret_cast<count_header const*>(one.get()) - 1)->word.load();
    std::uint64_t const number = header - count_header::k_sole;
    ASSERT_LT(number, pooled::detail::k_type_numbers);
    auto const ratio = (std::bit_cast<std::uint64_t>(1.5) & ~(pooled::detail::k_type_numbers - 1)) +
                       2 * count_header::k_weak_one + number;
    for (std::uint64_t const word :
         {number, count_header::k_weak_one + number, std::uint64_t{3} << 32 | number, ratio,
          ratio | std::uint64_t{1} << 63}) {
        auto* const block = static_cast<std::uint64_t*>(pool.allocate(sizeof(named<short>) + 8));
        block[0] = block[1] = word;
        std::string const report = report_of(pool);
        EXPECT_NE(report.find(" 1 of unit_live_report::"), std::string::npos) << report;
        pool.deallocate(block, sizeof(named<short>) + 8);
    }
}

// As far as symbols name vtables, which are read on Linux, and by the name of the template's function for others.
TEST_F(live_report, names_types_that_have_no_type_information) {
#if defined(POOLED_TEST_SANITIZER_ADDRESS)
    GTEST_SKIP() << "UndefinedBehaviorSanitizer reads the type information that these objects lack";
#endif
    std::string const report = untyped::report();
    EXPECT_NE(report.find("3 blocks in use"), std::string::npos) << report;
    EXPECT_NE(report.find("untyped::counted, "), std::string::npos) << report;
#if defined(__linux__) && !defined(POOLED_TEST_EMULATED)
    EXPECT_NE(report.find(" 1 of untyped::ticket, "), std::string::npos) << report;
    EXPECT_NE(report.find(" 1 of untyped::seat, "), std::string::npos) << report;
#endif
}

TEST_F(live_report, is_exact_after_objects_were_dropped_on_any_thread) {
    pooled::pool pool{{.name = "dropped"}};
    std::vector<std::shared_ptr<packet>> packets;
    for (int i = 0; i < 5000; ++i)
        packets.push_back(pool.make_shared<packet>());
    packets.resize(3000);
    std::thread([&] { packets.resize(1234); }).join();
    std::string const report = report_of(pool);
    EXPECT_NE(report.find(": 1234 blocks in use"), std::string::npos) << report;
    EXPECT_EQ(report.find("uncertain"), std::string::npos) << report;
    packets.clear();
    EXPECT_EQ(report_of(pool), "pool 'dropped': 0 blocks in use, 0 bytes\n");
}

TEST_F(live_report, of_the_default_pool_has_what_make_shared_made) {
    auto const one = pooled::make_shared<named<long>>();
    EXPECT_NE(report_of(pooled::default_pool()).find("named<long>, "), std::string::npos);
}

TEST_F(live_report, may_be_asked_for_by_a_hook_when_the_pool_is_exhausted) {
    struct state {
        pooled::pool* pool = nullptr;
        std::string report;
    } asked;
    auto const ask = [](std::size_t, void* context) noexcept {
        auto& it = *static_cast<state*>(context);
        it.report = report_of(*it.pool);
    };
    pooled::pool pool{
        {.name = "bounded", .max_bytes = 64 << 10, .on_exhausted = {.call = ask, .context = &asked}}};
    asked.pool = &pool;
    std::vector<std::shared_ptr<packet>> packets;
    while (auto one = pool.try_make_shared<packet>())
        packets.push_back(std::move(one));
    EXPECT_NE(asked.report.find(": " + std::to_string(packets.size()) + " blocks in use"), std::string::npos)
        << asked.report;
    EXPECT_NE(asked.report.find("packet, "), std::string::npos) << asked.report;
}

TEST_F(live_report, waits_for_no_lock_of_the_pool) {
    pooled::pool pool{{.name = "locked"}};
    auto const one = pool.make_shared<packet>();
    auto& caches = test::core_of(pool).caches();
    std::atomic<int> step{0};
    std::thread holder([&] {
        caches.lock();
        while (!caches.try_lock_classes()) {}
        step = 1;
        step.notify_all();
        step.wait(1);
        caches.unlock_classes();
        caches.unlock();
    });
    step.wait(0);
    EXPECT_NE(report_of(pool).find(": 1 blocks in use"), std::string::npos);
    step = 2;
    step.notify_all();
    holder.join();
}

TEST_F(live_report, may_be_made_while_other_threads_use_the_pool) {
    pooled::pool pool{{.name = "busy", .release_unused_after = std::chrono::milliseconds(1)}};
    std::vector<std::shared_ptr<packet>> kept;
    for (int i = 0; i < 2000; ++i)
        kept.push_back(pool.make_shared<packet>());
    std::atomic<bool> is_over{false};
    std::vector<std::thread> users;
    for (int t = 0; t < 2; ++t)
        users.emplace_back([&] {
            std::vector<std::shared_ptr<packet>> mine;
            while (!is_over) {
                for (int i = 0; i < 3000; ++i)
                    mine.push_back(pool.make_shared<packet>());
                void* const large = pool.allocate(300'000);
                mine.clear();
                pool.deallocate(large, 300'000);
                pool.trim();
            }
        });
    for (int i = 0; i < 20; ++i) {
        std::string const report = report_of(pool);
        EXPECT_GE(std::stoul(report.substr(report.find(':') + 2)), 2000U) << report;
    }
    is_over = true;
    for (std::thread& one : users)
        one.join();
    EXPECT_NE(report_of(pool).find(": 2000 blocks in use"), std::string::npos);
}

TEST_F(live_report, has_one_line_for_a_type_whichever_pointers_own_its_objects) {
    pooled::pool pool{{.name = "kinds"}};
    auto const shared = pool.make_shared<drawn::square>();
    auto const counted = pool.make_rc<drawn::square>();
    auto const unique = pool.make_unique<drawn::square>();
    std::shared_ptr<drawn::square> const elsewhere(new drawn::square, std::default_delete<drawn::square>(),
                                                   pooled::pool_allocator<drawn::square>(pool));
    std::string const report = report_of(pool);
    EXPECT_NE(report.find("\n  3 of "), std::string::npos) << report;
    EXPECT_NE(report.find("\n  1 of counts of "), std::string::npos) << report;
}

TEST_F(live_report, of_an_object_pool_counts_what_is_in_use) {
    pooled::object_pool<std::string> pool{{.name = "texts", .initial_objects = 3}};
    auto const one = pool.acquire();
    EXPECT_EQ(report_of(pool), "object_pool 'texts': 1 objects in use, 2 idle\n");
}

#if !defined(_WIN32)

struct untouched {};
// What a compiler writes for a class: a table of functions, behind the type information with the name that it mangled.
struct made_class {
    std::string name;
    std::array<void const*, 2> info{};
    std::array<void const*, 3> table{};

    explicit made_class(std::string const& readable) : name(std::to_string(readable.size()) + readable) {
        std::memcpy(info.data(), static_cast<void const*>(&typeid(untouched)), sizeof(void*));
        info[1] = name.c_str();
        table[1] = info.data();
    }
};

// A stream that needs no memory.
struct fixed_buffer : std::streambuf {
    std::array<char, std::size_t{1} << 20> text{};
    fixed_buffer() { setp(text.data(), text.data() + text.size() - 1); }
};

// Whether no line has a name that nobody has, or more objects of a type than there are: type 7 has 1 + 7 % 3.
bool is_true_in_part(char const* line) {
    unsigned objects = 0, type = 0, bytes = 0;
    bool is_true = true;
    for (; (line = std::strstr(line, "\n  ")) != nullptr; line += 3) {
        int end = 0;
        bool const is_named = std::sscanf(line, "\n  %u of a_type", &objects) == 1 &&
                              std::strncmp(std::strstr(line, "of "), "of a_type", 9) == 0;
        if (!is_named) continue;
        std::sscanf(line,
                    "\n  %u of "
                    "a_type_whose_name_is_so_long_that_those_of_a_thousand_need_more_than_a_first_array_%u, "
                    "%u bytes%n",
                    &objects, &type, &bytes, &end);
        is_true = is_true && end != 0 && objects <= 1 + type % 3;
    }
    return is_true;
}

TEST_F(live_report, counts_no_object_for_another_type_wherever_memory_ends) {
    if (!test::can_end_metadata()) GTEST_SKIP() << "a limit of the address space does not hold here";
    constexpr unsigned k_types = 1300;
    pooled::pool pool{{.name = "many"}};
    std::vector<std::unique_ptr<made_class>> types;
    for (unsigned i = 0; i < k_types; ++i) {
        char number[8];
        std::snprintf(number, sizeof(number), "%06u", i);
        types.push_back(std::make_unique<made_class>(
            "a_type_whose_name_is_so_long_that_those_of_a_thousand_need_more_than_a_first_array_" +
            std::string(number)));
        for (unsigned n = 0; n < 1 + i % 3; ++n)
            *static_cast<void const**>(pool.allocate(32)) = types.back()->table.data() + 2;
    }
    auto const out = std::make_unique<fixed_buffer>();
    auto const report_with = [&](rlim_t more) {
        std::size_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        rlimit limit{};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = pages * 4096 + more;
        if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
        std::ostream stream(out.get());
        pool.live_report(stream);
        return is_true_in_part(out->text.data());
    };
    for (rlim_t more = 0; more < 640 * 1024; more += 32768)
        EXPECT_EQ(test::in_child([&] { return report_with(more); }), 0) << more;
    EXPECT_EQ(test::in_child([&] {
                  return report_with(rlim_t{1} << 24) &&
                         std::strstr(out->text.data(), "uncertain") == nullptr &&
                         std::strstr(out->text.data(), "array_001299,") != nullptr;
              }),
              0);
}

#endif

}  // namespace
