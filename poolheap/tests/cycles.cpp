// SPDX-License-Identifier: BSL-1.0
// Cycles that an unedited program plants under the preload: each kind is found with its members, nothing that is reachable is reported.
#include "naming.hpp"
#include "programs.hpp"
#include "report.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace poolheap::test {
namespace {

using poolheap_tests::toolchain;

class Cycles : public testing::TestWithParam<toolchain> {};

std::string preload() { return POOLHEAP_TEST_PRELOAD; }

report leaks_of(std::unique_ptr<image> from) {
    heap const blocks = read_heap(*from);
    auto const names = names_of(*from, blocks);
    graph g(*from, blocks, *names);
    return make_report(g, {true, true, true});
}

struct expected {
    std::vector<std::string> steps;  // without "app::"; a rotation of them
    std::size_t times;
};

std::string step(json const& s) { return place(s["type"], s["offset"], s["member"]); }

std::string text_of(json const& g) {
    std::string text;
    for (json const& s : g["cycle"])
        text += step(s) + ' ';
    return text;
}

std::size_t times_of(report const& r, expected const& e) {
    std::size_t times = 0;
    for (json const& g : r.all["leaks"]["groups"]) {
        // libc++ keeps a function's lambda in an object of its own, which takes part.
        std::vector<std::string> steps;
        for (json const& s : g["cycle"])
            if (step(s).starts_with("app::")) steps.push_back(step(s));
        if (!g["is_cycle"] || steps.size() != e.steps.size()) continue;
        for (std::size_t first = 0; first < steps.size(); ++first) {
            bool is_same = true;
            for (std::size_t i = 0; i < steps.size() && is_same; ++i)
                is_same = steps[(first + i) % steps.size()] == "app::" + e.steps[i];
            if (!is_same) continue;
            times += g["times"].get<std::size_t>();
            break;
        }
    }
    return times;
}

std::vector<expected> planted() {
    auto const ring = [](int length) {
        return std::vector<std::string>(static_cast<std::size_t>(length),
                                        "ring_node<" + std::to_string(length) + ">::next");
    };
    return {{{"session::conn", "connection::owner"}, 100},
            {ring(2), 100},
            {ring(3), 100},
            {ring(7), 100},
            {ring(100), 10},
            {{"parent::children", "child::up"}, 100},
            {{"room::guests", "guest::stays_in"}, 100},
            {{"job_queue::jobs", "job::queue"}, 100},
            {{"team::players", "player::plays_for"}, 100},
            {{"country::cities", "city::in"}, 100},
            {{"button::on_click"}, 100},
            {{"reader::m_on_data"}, 100},
            {{"device::driven_by", "driver::drives"}, 100}};
}

void expect_planted(report const& r) {
    // A stale word may keep one in a hundred of all; threads work while the image is taken, so which ones differs.
    std::size_t all_times = 0, all_found = 0;
    for (expected const& e : planted()) {
        std::size_t const times = times_of(r, e);
        EXPECT_GE(times, e.times * 9 / 10) << e.steps[0];
        EXPECT_LE(times, e.times) << e.steps[0];
        all_times += e.times;
        all_found += times;
    }
    EXPECT_GE(all_found * 100, all_times * 99);
    for (json const& g : r.all["leaks"]["groups"]) {
        std::string const text = text_of(g);
        for (char const* reachable : {"kept_by", "tree", "leaf"})
            EXPECT_EQ(text.find(reachable), std::string::npos) << text << " is reported but reachable";
    }
    if (testing::Test::HasFailure()) {
        std::ostringstream all;
        print_leaks(all, r);
        ADD_FAILURE() << all.str();
    }
}

TEST_P(Cycles, OfEachShapeAreFoundWithTheirMembersAndNothingElseIs) {
    poolheap_tests::running_program const program(poolheap_tests::compile("cycles", GetParam(), "-g"),
                                                  {"LD_PRELOAD=" + preload()});
    expect_planted(leaks_of(open_process(program.pid())));
}

INSTANTIATE_TEST_SUITE_P(Toolchains, Cycles, testing::ValuesIn(poolheap_tests::toolchains()),
                         [](auto const& info) {
                             std::string name = info.param.name;
                             std::erase_if(
                                 name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                             return name;
                         });

TEST(CyclesOfOneImage, AForkedCopyAndACoreFileGiveTheSameAnswersAsTheProcess) {
    poolheap_tests::running_program program(
        poolheap_tests::compile("cycles", poolheap_tests::default_toolchain(), "-g"),
        {"LD_PRELOAD=" + preload()});
    {
        SCOPED_TRACE("forked");
        auto copy = open_process(program.pid());
        EXPECT_LT(copy->stopped_seconds(), 1);
        expect_planted(leaks_of(std::move(copy)));
    }
    EXPECT_TRUE(program.is_running());
    std::string const core = program.core();
    if (core.empty()) GTEST_SKIP() << "there is no gdb";
    SCOPED_TRACE("core");
    expect_planted(leaks_of(open_image(core)));
}

// The handler lies in memory of std::aligned_alloc, so malloc's is the pool's here.
TEST(CyclesOfOneImage, ThroughAHandlerOfAnAsioTimerAreFoundAndOneOfAContextThatLivesIsNone) {
    std::string const malloc = POOLHEAP_TEST_MALLOC;
    if (malloc.empty() || !std::filesystem::exists("/usr/include/boost/asio.hpp"))
        GTEST_SKIP() << "there is no Boost.Asio, or no libpooled-malloc.so";
    poolheap_tests::running_program const program(
        poolheap_tests::compile("asio", poolheap_tests::default_toolchain(), "-g"), {"LD_PRELOAD=" + malloc});
    report const r = leaks_of(open_process(program.pid()));
    std::size_t times = 0;
    for (json const& g : r.all["leaks"]["groups"]) {
        std::string const text = text_of(g);
        EXPECT_EQ(text.find("live_session"), std::string::npos) << text;
        if (g["is_cycle"] && text.find("app::session::deadline.") != std::string::npos)
            times += g["times"].get<std::size_t>();
    }
    EXPECT_GE(times, 297U);
    EXPECT_LE(times, 300U);
    if (HasFailure()) {
        std::ostringstream all;
        print_leaks(all, r);
        ADD_FAILURE() << all.str();
    }
}

TEST(CyclesOfOneImage, WithoutSymbolsTheSameCyclesAreFoundByOffsets) {
    std::string const path = poolheap_tests::stripped(
        poolheap_tests::compile("cycles", poolheap_tests::default_toolchain(), "-g"));
    poolheap_tests::running_program const program(path, {"LD_PRELOAD=" + preload()});
    report const r = leaks_of(open_process(program.pid()));
    EXPECT_GE(times_of(r, {{"session+24", "connection+8"}, 100}), 99u);
    EXPECT_GE(times_of(r, {{"device+40", "driver+8"}, 100}), 99u);
}

}  // namespace
}  // namespace poolheap::test
