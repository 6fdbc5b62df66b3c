// SPDX-License-Identifier: BSL-1.0
// The tracked build says who holds what.

#undef POOLED_TRACKED
#define POOLED_TRACKED 1

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct packet {
    char bytes[72];
};
struct session {
    explicit session(pooled::pool& from) : own(from.make_shared<packet>()) {}
    std::shared_ptr<packet> own;
};

template <class Pool>
std::string report_of(Pool const& pool) {
    std::ostringstream out;
    pool.live_report(out);
    return out.str();
}
// The line that has the text, or nothing.
std::string line_with(std::string const& report, std::string const& text) {
    std::istringstream in(report);
    for (std::string line; std::getline(in, line);)
        if (line.find(text) != std::string::npos) return line;
    return "";
}

// One place, however the loops around it are compiled.
[[gnu::noinline]] std::shared_ptr<packet> make_packet(pooled::pool& pool) {
    return pool.make_shared<packet>();
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

TEST(live_report, marks_what_only_weak_pointers_keep_whichever_function_made_it) {
    if (POOLED_SANITIZE != 0) GTEST_SKIP() << "the counts lie elsewhere";
    pooled::pool pool{{.name = "packets"}};
    auto const expect_marked = [&pool](auto made, auto observer) {
        observer = made;
        EXPECT_EQ(report_of(pool).find("weak"), std::string::npos) << report_of(pool);
        made.reset();
        EXPECT_NE(report_of(pool).find("1 kept only by weak pointers"), std::string::npos) << report_of(pool);
    };
    expect_marked(pool.try_make_shared<packet>(), std::weak_ptr<packet>());
    expect_marked(pool.make_shared_for_overwrite<packet>(), std::weak_ptr<packet>());
    expect_marked(pool.try_make_rc<packet>(), pooled::weak_rc_ptr<packet>());
    expect_marked(pool.make_rc_for_overwrite<packet>(), pooled::weak_rc_ptr<packet>());
    expect_marked(pool.make_local_rc<packet>(), pooled::weak_local_rc_ptr<packet>());
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

TEST(live_report, marks_blocks_that_only_weak_pointers_keep) {
    if (POOLED_SANITIZE != 0) GTEST_SKIP() << "the counts lie elsewhere";
    pooled::pool pool{{.name = "packets"}};
    auto shared = pool.make_shared<packet>();
    std::weak_ptr<packet> const weak = shared;
    auto counted = pool.make_rc<packet>();
    pooled::weak_rc_ptr<packet> const weak_counted = counted;
    EXPECT_EQ(report_of(pool).find("weak"), std::string::npos) << report_of(pool);
    shared.reset();
    EXPECT_NE(report_of(pool).find("1 kept only by weak pointers"), std::string::npos);
    counted.reset();
    std::string const report = report_of(pool);
    EXPECT_NE(report.find("weak"), report.rfind("weak")) << report;
}

TEST(live_report, lists_what_a_constructor_acquires_by_itself) {
    pooled::pool pool{{.name = "packets"}};
    auto const object = pool.make_unique<session>(pool);
    std::string const report = report_of(pool);
    EXPECT_NE(line_with(report, "session"), "") << report;
    EXPECT_NE(line_with(report, "packet, "), "") << report;
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
    pooled::pool pool{{.name = "packets"}};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; ++i)
                auto const object = pool.make_shared<packet>();
        });
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(report_of(pool).find("weak"), std::string::npos);
    for (std::thread& each : threads)
        each.join();
}

TEST(live_report, may_be_asked_for_when_the_pool_is_exhausted) {
    struct context {
        pooled::pool* pool = nullptr;
        std::string report;
    } seen;
    pooled::pool pool{{.name = "packets",
                       .max_bytes = 65536,
                       .on_exhausted = {.call =
                                            [](std::size_t, void* c) noexcept {
                                                auto& s = *static_cast<context*>(c);
                                                s.report = report_of(*s.pool);
                                            },
                                        .context = &seen}}};
    seen.pool = &pool;
    std::vector<std::shared_ptr<packet>> all;
    while (auto one = pool.try_make_shared<packet>())
        all.push_back(std::move(one));
    EXPECT_NE(seen.report.find("blocks in use"), std::string::npos);
}

TEST(live_report, is_printed_when_a_pool_is_destroyed_with_objects_out_if_asked) {
    std::shared_ptr<packet> out;
    auto const destroy = [&out] {
        pooled::pool pool{{.name = "packets"}};
        out = pool.make_shared<packet>();
    };
    testing::internal::CaptureStderr();
    destroy();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    ::setenv("POOLED_LIVE_REPORT", "1", 1);
    testing::internal::CaptureStderr();
    destroy();
    ::unsetenv("POOLED_LIVE_REPORT");
    EXPECT_NE(testing::internal::GetCapturedStderr().find("pool 'packets': 1 blocks in use"),
              std::string::npos);
}

}  // namespace
