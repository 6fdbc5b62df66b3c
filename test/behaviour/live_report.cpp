// SPDX-License-Identifier: BSL-1.0
// The tracked build reports who holds what.

#undef POOLED_TRACKED
#define POOLED_TRACKED 1

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct packet {
    char bytes[72];
};

template <class Pool>
std::string report_of(Pool const& pool) {
    std::ostringstream out;
    pool.live_report(out);
    return out.str();
}
// The line that contains the text, or nothing.
std::string line_with(std::string const& report, std::string const& text) {
    std::istringstream in(report);
    for (std::string line; std::getline(in, line);)
        if (line.find(text) != std::string::npos) return line;
    return "";
}

// One place, however the loops around it are compiled. Clang would end it with a jump, so that its caller were the place.
[[gnu::noinline]] std::shared_ptr<packet> make_packet(pooled::pool& pool) {
    auto made = pool.make_shared<packet>();
    asm volatile("" : : "r"(&made) : "memory");
    return made;
}

TEST(live_report, names_type_count_bytes_and_place) {
    pooled::pool pool{{.name = "packets"}};
    std::vector<std::shared_ptr<packet>> all;
    for (int i = 0; i < 3; ++i)
        all.push_back(make_packet(pool));
    auto const other = pool.make_shared<packet>();  // another place
    void* const raw = pool.allocate(100);
    int const line_of_raw = __LINE__ - 1;
    std::string const report = report_of(pool);
    EXPECT_NE(report.find("pool 'packets': 5 blocks in use"), std::string::npos) << report;
    EXPECT_NE(line_with(report, "  3 of ").find("packet, "), std::string::npos) << report;
    EXPECT_NE(line_with(report, "  1 of (anonymous").size() + line_with(report, "  1 of {anonymous").size(),
              0U)
        << report;
    std::string const place = "live_report.cpp:" + std::to_string(line_of_raw);
    EXPECT_NE(line_with(report, place).find("1 of raw memory, 100 bytes"), std::string::npos) << report;
    pool.deallocate(raw, 100);
    EXPECT_EQ(line_with(report_of(pool), place), "");
}

TEST(live_report, names_type_and_place_whichever_function_makes_an_object) {
    pooled::pool pool{{.name = "packets"}};
    auto const expect_one = [&pool](auto const& made, char const* type) {
        ASSERT_TRUE(made);
        std::string const report = report_of(pool);
        EXPECT_NE(line_with(report, type), "") << report;
        EXPECT_EQ(report.find("raw memory"), std::string::npos) << report;
    };
    expect_one(pool.make_shared<packet[]>(2), "packet");
    expect_one(pool.make_shared<packet[]>(2, packet()), "packet");
    expect_one(pool.make_shared_for_overwrite<packet>(), "packet, ");
    expect_one(pool.make_shared_for_overwrite<packet[]>(2), "packet");
    expect_one(pool.try_make_shared<packet>(), "packet, ");
    expect_one(pool.try_make_shared<packet[]>(2), "packet");
    expect_one(pool.try_make_shared_for_overwrite<packet>(), "packet, ");
    expect_one(pool.try_make_shared_for_overwrite<packet[]>(2), "packet");
    expect_one(pool.make_unique<packet[]>(2), "packet");
    expect_one(pool.make_unique_for_overwrite<packet>(), "packet, ");
    expect_one(pool.make_unique_for_overwrite<packet[]>(2), "packet");
    expect_one(pool.try_make_unique<packet>(), "packet, ");
    expect_one(pool.try_make_unique<packet[]>(2), "packet");
    expect_one(pool.try_make_unique_for_overwrite<packet>(), "packet, ");
    expect_one(pool.try_make_unique_for_overwrite<packet[]>(2), "packet");
    expect_one(pool.make_rc<packet[]>(2), "packet");
    expect_one(pool.make_rc<packet[2]>(), "packet");
    expect_one(pool.make_local_rc<packet>(), "packet, ");
    expect_one(pool.make_local_rc<packet[]>(2), "packet");
    expect_one(pool.make_rc_for_overwrite<packet>(), "packet, ");
    expect_one(pool.make_rc_for_overwrite<packet[]>(2), "packet");
    expect_one(pool.try_make_rc<packet>(), "packet, ");
    expect_one(pool.try_make_rc<packet[]>(2), "packet");
    expect_one(pool.try_make_rc_for_overwrite<packet>(), "packet, ");
    expect_one(pool.try_make_rc_for_overwrite<packet[]>(2), "packet");
    EXPECT_EQ(report_of(pool), "pool 'packets': 0 blocks in use, 0 bytes\n");
}

TEST(live_report, names_the_callers_place_also_where_functions_of_the_library_call_each_other) {
    pooled::pool pool{{.name = "packets"}};
    auto const a = pooled::allocate_shared<packet>(pool);
    auto const b = pooled::allocate_shared<packet>(pool);
    EXPECT_EQ(line_with(report_of(pool), "  2 of "), "") << "they are two places";
}

TEST(live_report, says_how_old_the_youngest_and_the_oldest_are) {
    pooled::pool pool{{.name = "packets"}};
    std::vector<std::shared_ptr<packet>> all;
    for (int i = 0; i < 2; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        all.push_back(make_packet(pool));
    }
    std::string const line = line_with(report_of(pool), "  2 of ");
    std::istringstream ages(line.substr(std::min(line.find("bytes, "), line.size() - 7) + 7));
    double youngest = 0;
    double oldest = 0;
    std::string to;
    ages >> youngest >> to >> oldest;
    EXPECT_GT(oldest, youngest) << line;
}

TEST(live_report, names_an_array_as_one) {
    pooled::pool pool{{.name = "packets"}};
    auto const made = pool.make_unique<int[]>(2);
    std::string const report = report_of(pool);
    EXPECT_NE(line_with(report, "int []").size() + line_with(report, "int[]").size(), 0U) << report;
}

TEST(live_report, names_what_a_container_allocates) {
    pooled::pool pool{{.name = "packets"}};
    std::vector<packet, pooled::pool_allocator<packet>> const all(3, packet(), pool);
    EXPECT_NE(line_with(report_of(pool), "packet, 216 bytes"), "") << report_of(pool);
}

template <class Owner>
void expect_marked(auto const& pool, Owner made) {
    typename Owner::weak_type const observer = made;
    EXPECT_EQ(report_of(pool).find("weak"), std::string::npos) << report_of(pool);
    made.reset();
    EXPECT_NE(report_of(pool).find("1 kept only by weak pointers"), std::string::npos) << report_of(pool);
}

TEST(live_report, marks_what_only_weak_pointers_keep_whichever_function_made_it) {
    if (POOLED_SANITIZE != 0) GTEST_SKIP() << "the counts lie elsewhere";
    pooled::pool pool{{.name = "packets"}};
    expect_marked(pool, pool.try_make_shared<packet>());
    expect_marked(pool, pool.make_shared_for_overwrite<packet>());
    expect_marked(pool, pool.try_make_rc<packet>());
    expect_marked(pool, pool.make_rc_for_overwrite<packet>());
    expect_marked(pool, pool.make_local_rc<packet>());
    std::weak_ptr<packet> const of_shared = pool.make_shared<packet>();
    pooled::weak_rc_ptr<packet> const of_counted = pool.make_rc<packet>();
    std::string const report = report_of(pool);
    EXPECT_NE(report.find("weak"), report.rfind("weak")) << "both\n" << report;
}

TEST(live_report, forgets_what_was_returned_on_any_thread) {
    pooled::pool pool{{.name = "packets"}};
    auto a = pool.make_shared<packet>();
    auto b = pool.make_rc<packet>();
    auto c = pool.make_unique<packet>();
    void* const large = pool.allocate(100'000);
    std::thread([&] {
        a.reset();
        b.reset();
        c.reset();
        pool.deallocate(large, 100'000);
    }).join();
    EXPECT_EQ(report_of(pool), "pool 'packets': 0 blocks in use, 0 bytes\n");
}

TEST(live_report, names_what_is_acquired_while_upstream_is_a_pool_itself) {
    pooled::pool pages{{.name = "pages"}};
    pooled::pool pool{{.name = "packets", .upstream = pages.resource()}};
    auto const first = pool.make_unique<packet>();  // takes a chunk of `pages` first
    std::string const report = report_of(pool);
    EXPECT_NE(line_with(report, "packet, "), "") << report;
    EXPECT_EQ(report.find("raw memory"), std::string::npos) << report;
    std::string const of_pages = report_of(pages);
    EXPECT_EQ(of_pages.find("packet, "), std::string::npos) << of_pages;
    void* const large = pool.allocate(100'000);  // takes a region of `pages` first
    std::string const with_large = report_of(pool);
    EXPECT_NE(line_with(with_large, "1 of raw memory, 100000 bytes").find("live_report.cpp:"),
              std::string::npos)
        << with_large;
    pool.deallocate(large, 100'000);
}

TEST(live_report, may_be_asked_for_by_a_hook_and_names_what_is_acquired_after_one_has_used_the_pool) {
    constexpr std::size_t k_bytes = sizeof(packet) + 8;  // the size class of make_unique's blocks
    struct context {
        pooled::pool* pool = nullptr;
        std::vector<void*> blocks = {};
        bool was_called = false;
        std::string report = {};
    } used;
    pooled::pool pool{{.name = "packets",
                       .max_bytes = 65536,
                       .on_exhausted = {.call =
                                            [](std::size_t, void* c) noexcept {
                                                auto& s = *static_cast<context*>(c);
                                                s.was_called = true;
                                                s.report = report_of(*s.pool);
                                                for (int i = 0; i < 2; ++i) {
                                                    s.pool->deallocate(s.blocks.back(), k_bytes);
                                                    s.blocks.pop_back();
                                                }
                                                s.blocks.push_back(s.pool->allocate(k_bytes));
                                            },
                                        .context = &used}}};
    used.pool = &pool;
    while (!used.was_called)
        used.blocks.push_back(pool.allocate(k_bytes));
    EXPECT_NE(used.report.find("blocks in use"), std::string::npos) << "the pool was exhausted";
    used.was_called = false;
    auto const object = pool.make_unique<packet>();
    EXPECT_TRUE(used.was_called);
    EXPECT_NE(line_with(report_of(pool), "packet, "), "") << report_of(pool);
    for (void* const p : used.blocks)
        pool.deallocate(p, k_bytes);
}

TEST(live_report, names_the_place_that_uses_a_memory_resource) {
    pooled::pool pool{{.name = "packets"}};
    std::pmr::memory_resource* const volatile from = pool.resource();
    std::pmr::memory_resource* const resource = from;  // its class is not known to the compiler
    void* const a = resource->allocate(48);
    void* const b = resource->allocate(48);
    std::string const report = report_of(pool);
    EXPECT_NE(report.find("pool 'packets': 2 blocks in use"), std::string::npos) << report;
    EXPECT_EQ(line_with(report, "  2 of "), "") << "they are two places";
    resource->deallocate(a, 48);
    resource->deallocate(b, 48);
}

struct reporting {
    std::string report;
    explicit reporting(pooled::pool& pool) : report(report_of(pool)) {}
};

TEST(live_report, marks_no_object_whose_constructor_runs) {
    pooled::pool pool{{.name = "packets"}};
    constexpr std::size_t k_bytes = sizeof(reporting) + 8;  // make_rc's
    void* const raw = pool.allocate(k_bytes);
    std::memset(raw, 0, k_bytes);  // counts of 0
    pool.deallocate(raw, k_bytes);
    auto const one = pool.make_rc<reporting>(pool);
    EXPECT_NE(line_with(one->report, "reporting"), "") << one->report;
    EXPECT_EQ(one->report.find("weak"), std::string::npos) << one->report;
}

TEST(live_report, is_of_one_pool) {
    pooled::pool pool{{.name = "packets"}};
    pooled::pool other{{.name = "other"}};
    auto const object = other.make_unique<packet>();
    EXPECT_EQ(report_of(pool), "pool 'packets': 0 blocks in use, 0 bytes\n");
    pooled::local_pool local{{.name = "local"}};
    auto const mine = local.make_unique<packet>();
    EXPECT_NE(line_with(report_of(local), "packet, "), "");
}

TEST(live_report, may_be_made_while_other_threads_use_the_pool) {
    struct owned : packet {};
    struct observed : packet {};
    pooled::pool pool{{.name = "packets"}};
    auto const owner = pool.make_shared<owned>();
    std::weak_ptr<observed> const observer = pool.make_shared<observed>();
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; ++i)
                auto const object = pool.make_shared<packet>();
        });
    for (int i = 0; i < 20; ++i) {
        std::string const report = report_of(pool);
        EXPECT_EQ(line_with(report, "owned, ").find("weak"), std::string::npos) << report;
        EXPECT_NE(line_with(report, "observed, ").find("1 kept only by weak pointers"), std::string::npos)
            << report;
#if !defined(_LIBCPP_VERSION)  // whose counts are the same when an object is being freed
        EXPECT_EQ(line_with(report, " packet, ").find("weak"), std::string::npos) << report;
        EXPECT_EQ(line_with(report, "::packet, ").find("weak"), std::string::npos) << report;
#endif
    }
    for (std::thread& each : threads)
        each.join();
    std::string const report = report_of(pool);
    EXPECT_EQ(report.find("pool 'packets': 2 blocks in use"), 0U) << report;
    EXPECT_EQ(report.find("kept only by"), report.rfind("kept only by")) << report;
}

// Which of several ways to acquire.
struct connection {
    int number = 0;
};
using connections = pooled::object_pool<connection>;
// Two places: GCC at -O2 merges functions with the same code, and Clang would end them with a jump.
[[gnu::noinline]] std::shared_ptr<connection> for_query(connections& pool) {
    auto acquired = pool.acquire();
    asm volatile("" : : "r"(&acquired) : "memory");
    return acquired;
}
[[gnu::noinline]] std::shared_ptr<connection> for_update(connections& pool) {
    asm volatile("" : : "r"(&pool));
    auto acquired = pool.acquire();
    asm volatile("" : : "r"(&acquired) : "memory");
    return acquired;
}

TEST(live_report_of_objects, says_where_those_in_use_were_acquired) {
    connections pool{{.name = "connections", .initial_objects = 5, .growth = 4}};
    std::vector<std::shared_ptr<connection>> queries;
    for (int i = 0; i < 3; ++i)
        queries.push_back(for_query(pool));
    auto const update = for_update(pool);
    std::string report = report_of(pool);
    EXPECT_EQ(report.find("object_pool 'connections': 4 objects in use, 1 idle\n"), 0U) << report;
    EXPECT_NE(line_with(report, "  3 of ").find("connection, "), std::string::npos) << report;
    EXPECT_NE(line_with(report, "  1 of ").find("connection, "), std::string::npos) << report;
    EXPECT_EQ(report.find("raw memory"), std::string::npos) << report;
    queries.clear();
    report = report_of(pool);
    EXPECT_EQ(line_with(report, "  3 of "), "") << report;
    EXPECT_NE(line_with(report, "  1 of "), "") << report;
}

TEST(live_report_of_objects, names_the_place_of_the_last_acquisition_not_that_of_the_first) {
    connections pool{{.name = "connections"}};
    std::string const of_query = [&] {
        auto const one = for_query(pool);
        return line_with(report_of(pool), "  1 of ")
            .substr(line_with(report_of(pool), "  1 of ").find("from "));
    }();
    auto const again = for_update(pool);
    EXPECT_EQ(pool.stats().built, 1U) << "it is the same object";
    EXPECT_EQ(report_of(pool).find(of_query), std::string::npos) << report_of(pool);
}

TEST(live_report_of_objects, lists_them_whichever_function_acquired_them) {
    using namespace std::chrono_literals;
    connections pool{{.name = "connections"}};
    auto const expect_one = [&pool](auto const& owner) {
        ASSERT_TRUE(owner);
        std::string const report = report_of(pool);
        EXPECT_NE(line_with(report, "  1 of ").find("connection, "), std::string::npos) << report;
        EXPECT_EQ(report.find("weak"), std::string::npos) << report;
    };
    auto const soon = std::chrono::steady_clock::now() + 1h;
    expect_one(pool.acquire());
    expect_one(pool.acquire_unique());
    expect_one(pool.acquire_rc());
    expect_one(pool.try_acquire());
    expect_one(pool.try_acquire_unique());
    expect_one(pool.try_acquire_rc());
    expect_one(pool.acquire_for(1h));
    expect_one(pool.acquire_unique_for(1h));
    expect_one(pool.acquire_rc_for(1h));
    expect_one(pool.acquire_until(soon));
    expect_one(pool.acquire_unique_until(soon));
    expect_one(pool.acquire_rc_until(soon));
#if POOLED_HAS_STOP_TOKEN
    expect_one(pool.acquire(std::stop_token()));
    expect_one(pool.acquire_unique(std::stop_token()));
    expect_one(pool.acquire_rc(std::stop_token()));
#endif
    EXPECT_EQ(report_of(pool), "object_pool 'connections': 0 objects in use, 1 idle\n");
    pooled::local_object_pool<connection> local{{.name = "local"}};
    auto const mine = local.acquire();
    EXPECT_NE(line_with(report_of(local), "connection, "), "");
}

TEST(live_report_of_objects, marks_those_that_only_weak_pointers_keep) {
    connections pool{{.name = "connections"}};
    expect_marked(pool, pool.acquire());
    expect_marked(pool, pool.acquire_rc());
}

TEST(live_report_of_objects, is_without_what_on_acquire_refused) {
    struct refusing {
        void on_acquire(connection&) { throw std::runtime_error("refused"); }
    };
    pooled::object_pool<connection, refusing> pool{{.name = "connections"}};
    EXPECT_THROW(static_cast<void>(pool.acquire()), std::runtime_error);
    EXPECT_EQ(report_of(pool), "object_pool 'connections': 0 objects in use, 1 idle\n");
}

TEST(live_report_of_objects, leaves_what_lifecycles_acquire_elsewhere_to_the_other_pool) {
    struct with_packet {
        pooled::pool* packets;
        std::vector<void*>* taken;
        void on_acquire(connection&) { taken->push_back(packets->allocate(100)); }
    };
    pooled::pool packets{{.name = "packets"}};
    std::vector<void*> taken;
    pooled::object_pool<connection, with_packet> pool{{.name = "connections"}, {&packets, &taken}};
    auto const one = pool.acquire();
    EXPECT_NE(line_with(report_of(pool), "connection, "), "") << report_of(pool);
    EXPECT_NE(line_with(report_of(packets), "raw memory, 100 bytes"), "") << report_of(packets);
    packets.deallocate(taken.at(0), 100);
}

TEST(live_report, is_printed_when_a_pool_is_destroyed_with_objects_out_if_asked) {
    std::vector<std::shared_ptr<void>> out;
    auto const printed_at_the_end = [&out] {
        testing::internal::CaptureStderr();
        {
            pooled::pool pool{{.name = "packets"}};
            connections objects{{.name = "connections"}};
            out = {pool.make_shared<packet>(), objects.acquire()};
        }
        return testing::internal::GetCapturedStderr();
    };
    EXPECT_EQ(printed_at_the_end(), "");
    ::setenv("POOLED_LIVE_REPORT", "1", 1);
    std::string const printed = printed_at_the_end();
    ::unsetenv("POOLED_LIVE_REPORT");
    for (char const* const part :
         {"pool 'packets': 1 blocks in use", "object_pool 'connections': 1 objects in use", "connection, "})
        EXPECT_NE(printed.find(part), std::string::npos) << printed;
}

}  // namespace
