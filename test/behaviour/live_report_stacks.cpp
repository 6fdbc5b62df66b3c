// SPDX-License-Identifier: BSL-1.0
// The tracked build with the callers of each acquisition.

#undef POOLED_TRACKED
#define POOLED_TRACKED 1
#undef POOLED_TRACKED_STACKS
#define POOLED_TRACKED_STACKS 4

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct packet {
    char bytes[72];
};

// Not a tail call: the frame stays on the stack.
template <class Result>
[[gnu::noinline]] Result kept(Result&& result) {
    asm volatile("" ::: "memory");
    return std::forward<Result>(result);
}

// One place of acquisition, with two callers.
[[gnu::noinline]] std::shared_ptr<packet> make_packet(pooled::pool& pool) {
    return kept(pool.make_shared<packet>());
}
[[gnu::noinline]] std::shared_ptr<packet> for_reader(pooled::pool& pool) { return kept(make_packet(pool)); }
[[gnu::noinline]] std::shared_ptr<packet> for_writer(pooled::pool& pool) { return kept(make_packet(pool)); }

template <class Pool>
std::vector<std::string> lines_of(Pool const& pool) {
    std::ostringstream out;
    pool.live_report(out);
    std::istringstream in(out.str());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}
std::size_t count_with(std::vector<std::string> const& lines, std::string const& text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        lines, [&](std::string const& line) { return line.find(text) != std::string::npos; }));
}

TEST(live_report_with_stacks, lists_the_callers_under_each_place) {
    pooled::pool pool{{.name = "packets"}};
    auto const one = for_reader(pool);
    auto const lines = lines_of(pool);
    ASSERT_EQ(lines.size(), 6U) << "a line for the pool, one for the place, and four callers";
    EXPECT_NE(lines[1].find("  1 of "), std::string::npos) << lines[1];
    for (std::size_t i = 2; i < 6; ++i)
        EXPECT_EQ(lines[i].find("    called from "), 0U) << lines[i];
}

TEST(live_report_with_stacks, separates_what_one_place_made_for_different_callers) {
    pooled::pool pool{{.name = "packets"}};
    std::vector<std::shared_ptr<packet>> all;
    int volatile three = 3;  // volatile: the compiler copies no call
    int volatile two = 2;
    for (int i = 0; i < three; ++i)
        all.push_back(for_reader(pool));
    for (int i = 0; i < two; ++i)
        all.push_back(for_writer(pool));
    auto const lines = lines_of(pool);
    EXPECT_EQ(count_with(lines, "  3 of "), 1U);
    EXPECT_EQ(count_with(lines, "  2 of "), 1U);
}

TEST(live_report_with_stacks, has_them_for_allocate_and_for_memory_resources) {
    pooled::pool pool{{.name = "packets"}};
    void* const raw = pool.allocate(100);
    EXPECT_EQ(count_with(lines_of(pool), "live_report_stacks.cpp:"), 1U);
    EXPECT_EQ(count_with(lines_of(pool), "called from"), 4U);
    pool.deallocate(raw, 100);
    std::pmr::vector<packet> const of_container(3, pool.resource());
    EXPECT_EQ(count_with(lines_of(pool), "called from"), 4U);
}

TEST(live_report_with_stacks, has_them_for_objects_of_an_object_pool) {
    pooled::object_pool<packet> pool{{.name = "connections"}};
    auto const one = pool.acquire();
    auto const lines = lines_of(pool);
    EXPECT_EQ(count_with(lines, "  1 of "), 1U);
    EXPECT_EQ(count_with(lines, "called from"), 4U);
}

}  // namespace
