// SPDX-License-Identifier: BSL-1.0
// The deferred queue alone: it works without memory, and gives back what it took. What is lost or kept by numbers and by
// destructors: reclaim_scope.cpp and incremental.cpp. The objects are numbers, which are recorded when they are destroyed.

#include "pooled/impl/teardown/deferred_queue.hpp"

#include "support/death_tests.hpp"
#include "support/no_metadata.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

namespace {

using namespace pooled::detail;

constexpr std::size_t k_window = 16;

struct object {
    std::uint64_t header = 0;  // the queue's to write
    int number = 0;
};

std::vector<int> g_finished;
std::vector<int> g_finished_observed;

void finish(void* p) noexcept { g_finished.push_back(static_cast<object*>(p)->number); }
void finish_observed(void* p) noexcept { g_finished_observed.push_back(static_cast<object*>(p)->number); }

constexpr block_type k_type{.retire = nullptr,
                            .retire_observed = nullptr,
                            .finish = finish,
                            .finish_observed = finish_observed,
                            .free = nullptr,
                            .object_offset = offsetof(object, number),
                            .object_bytes = sizeof(int)};

class deferred_queue_test : public testing::Test {
protected:
    explicit deferred_queue_test(std::size_t count = 5000) : objects(count) {
        g_finished.clear();
        g_finished_observed.clear();
        for (std::size_t i = 0; i < count; ++i)
            objects[i].number = static_cast<int>(i);
    }
    [[nodiscard]] bool push(std::size_t i, bool is_observed = false) {
        return queue.push(deferred(&objects[i], tag_of<k_type>(), is_observed), &objects[i].number,
                          sizeof(int));
    }
    void push_all(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            ASSERT_TRUE(push(i));
    }
    void finish_all() {
        queue.finish();
        EXPECT_TRUE(queue.empty());
    }
    [[nodiscard]] static std::vector<int> numbers(std::size_t count) {
        std::vector<int> all(count);
        std::iota(all.begin(), all.end(), 0);
        return all;
    }

    std::vector<object> objects;
    deferred_queue queue;
};

TEST_F(deferred_queue_test, writes_into_no_object_while_there_is_memory) {
    push_all(objects.size());
    for (object const& o : objects)
        ASSERT_EQ(o.header, 0U);
    finish_all();
}

TEST_F(deferred_queue_test, gives_the_memory_of_what_was_behind_the_window_back) {
    constexpr std::size_t k_segment = 4096;
    void* const next = g_metadata.allocate(k_segment);
    g_metadata.deallocate(next, k_segment);
    push_all(k_window + 100);
    finish_all();
    EXPECT_EQ(g_metadata.allocate(k_segment), next);
    g_metadata.deallocate(next, k_segment);
}

TEST_F(deferred_queue_test, is_what_its_size_says_whatever_is_done_to_it) {
    std::mt19937 random(5);
    std::size_t pushed = 0;
    while (pushed < objects.size() || !queue.empty()) {
        bool const grows = random() % 3 != 0;
        for (auto n = random() % 700; n != 0; --n) {
            if (grows && pushed < objects.size()) {
                ASSERT_TRUE(push(pushed++));
            } else if (!queue.empty()) {
                queue.pop().finish();
            }
            ASSERT_EQ(queue.size(), pushed - g_finished.size());
        }
    }
    std::ranges::sort(g_finished);
    EXPECT_EQ(g_finished, numbers(objects.size()));
}

using deferred_queue_death_test = deferred_queue_test;

TEST_F(deferred_queue_death_test, without_memory_links_its_objects_and_refuses_those_that_are_observed) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer needs memory of its own";
    if (!test::can_end_metadata()) GTEST_SKIP() << "the emulator does not limit the address space";
    test::start_death_tests_anew();
    EXPECT_EXIT(
        {
            g_finished.reserve(objects.size());
            test::end_metadata();
            bool all = true;
            for (std::size_t i = 0; i < objects.size(); ++i)
                all = push(i) && all;
            bool const refused = !push(0, true);
            finish_all();
            std::ranges::sort(g_finished);
            bool is_right = g_finished.size() == objects.size();
            for (std::size_t i = 0; i < g_finished.size(); ++i)
                is_right = is_right && g_finished[i] == static_cast<int>(i);
            std::_Exit(all && refused && is_right ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}

}  // namespace
