// SPDX-License-Identifier: BSL-1.0
// The deferred queue alone: nothing is lost whatever its length, what is in the window goes first in, first out, and it
// works without memory. The objects are numbers, which are recorded when they are destroyed.

#include "pooled/teardown/deferred_queue.hpp"

#include "support/death_tests.hpp"
#include "support/no_metadata.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
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
std::function<void(int)> g_on_finish;

void finish(void* p) noexcept {
    int const number = static_cast<object*>(p)->number;
    g_finished.push_back(number);
    if (g_on_finish) g_on_finish(number);
}
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
        g_on_finish = nullptr;
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

TEST_F(deferred_queue_test, is_empty_at_first) {
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.size(), 0U);
    EXPECT_TRUE(deferred().empty());
}

TEST_F(deferred_queue_test, knows_each_object_by_one_word) {
    for (bool const is_observed : {false, true}) {
        deferred const d(&objects[3], tag_of<k_type>(), is_observed);
        EXPECT_FALSE(d.empty());
        EXPECT_EQ(d.header(), &objects[3]);
        EXPECT_EQ(d.object(), &objects[3].number);
        EXPECT_EQ(&d.type(), &k_type);
        EXPECT_EQ(d.is_observed(), is_observed);
        EXPECT_EQ(deferred(d.word()).header(), d.header());
        d.finish();
    }
    EXPECT_EQ(g_finished, std::vector<int>{3});
    EXPECT_EQ(g_finished_observed, std::vector<int>{3});
}

TEST_F(deferred_queue_test, gives_out_what_fits_into_the_window_in_the_order_of_pushes) {
    push_all(k_window);
    EXPECT_EQ(queue.size(), k_window);
    finish_all();
    EXPECT_EQ(g_finished, numbers(k_window));
}

TEST_F(deferred_queue_test, goes_on_with_what_was_pushed_last_behind_the_window) {
    push_all(k_window + 3);
    finish_all();
    auto expected = numbers(k_window);
    for (int const number : {18, 17, 16})
        expected.push_back(number);
    EXPECT_EQ(g_finished, expected) << "a stack: the frontier of a tree stays small";
}

TEST_F(deferred_queue_test, loses_nothing_whatever_its_length) {
    for (std::size_t const count :
         {std::size_t{1}, k_window + 1, k_window + 510, k_window + 511, std::size_t{5000}}) {
        g_finished.clear();
        push_all(count);
        EXPECT_EQ(queue.size(), count);
        finish_all();
        EXPECT_EQ(queue.size(), 0U);
        std::ranges::sort(g_finished);
        EXPECT_EQ(g_finished, numbers(count)) << "of " << count;
    }
}

TEST_F(deferred_queue_test, takes_what_the_destructors_of_its_objects_push) {
    g_on_finish = [this](int number) {
        for (std::size_t child = 2 * static_cast<std::size_t>(number) + 1;
             child <= 2 * static_cast<std::size_t>(number) + 2 && child < objects.size(); ++child)
            ASSERT_TRUE(push(child));
    };
    ASSERT_TRUE(push(0));
    finish_all();
    std::ranges::sort(g_finished);
    EXPECT_EQ(g_finished, numbers(objects.size()));
}

TEST_F(deferred_queue_test, destroys_no_more_than_asked_for) {
    push_all(100);
    EXPECT_EQ(queue.finish(0), 0U);
    EXPECT_EQ(queue.finish(30), 30U);
    EXPECT_EQ(g_finished.size(), 30U);
    EXPECT_EQ(queue.size(), 70U);
    EXPECT_EQ(queue.finish(), 70U);
    EXPECT_EQ(queue.finish(), 0U);
}

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
