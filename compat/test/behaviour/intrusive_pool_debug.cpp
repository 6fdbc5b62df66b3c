// SPDX-License-Identifier: BSL-1.0
// memorypool with its debug macros set: a count that makes no sense, too many handles, and a second thread are reported.

#define BOOST_INTRUSIVE_POOL_DEBUG_CHECKS 1
#define BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS 1
#define BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT 10

#include "pooled/compat/boost_intrusive_pool.hpp"

#include <boost/intrusive_ptr.hpp>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

struct item : memorypool::boost_intrusive_pool_item {
    std::array<char, 40> payload{};
};
using handle = boost::intrusive_ptr<item>;

class memorypool_debug : public testing::Test {
protected:
    memorypool_debug() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
    memorypool::boost_intrusive_pool<item> pool{4, 4};
};

TEST_F(memorypool_debug, right_use_is_not_reported) {
    std::vector<handle> handles(9, pool.allocate());
    handles[0]->check();
    handles.clear();
    for (int i = 0; i < 10; ++i)
        handles.push_back(pool.allocate());
    pool.check();
}

TEST_F(memorypool_debug, too_many_handles_of_an_item_are_reported) {
    EXPECT_DEATH(
        {
            std::vector<handle> handles(1, pool.allocate());
            for (;;)
                handles.push_back(handles[0]);
        },
        "more handles than BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT");
}

TEST_F(memorypool_debug, drop_of_a_handle_too_many_is_reported) {
    EXPECT_DEATH(
        {
            handle const counted = pool.allocate();
            handle const not_counted(counted.get(), false);
        },
        "a handle of an item without handles is dropped");
}

TEST_F(memorypool_debug, drop_too_many_is_reported_wherever_the_free_item_is) {
    memorypool::boost_intrusive_pool<item> many(3000, 0);  // more than a thread caches
    std::vector<handle> handles;
    for (int i = 0; i < 3000; ++i)
        handles.push_back(many.allocate());
    for (int const i : {0, 1500, 2999}) {
        item* const gone = handles[static_cast<std::size_t>(i)].get();
        EXPECT_DEATH(
            {
                handles.clear();
                intrusive_ptr_release(gone);
            },
            "a handle of an item without handles is dropped");
    }
}

TEST_F(memorypool_debug, use_by_a_second_thread_is_reported) {
    handle mine = pool.allocate();
    EXPECT_DEATH(std::thread([this] { static_cast<void>(pool.allocate()); }).join(),
                 "a second thread uses the pool");
    EXPECT_DEATH(std::thread([&mine] { mine.reset(); }).join(), "a second thread uses the pool");
}

TEST_F(memorypool_debug, pool_may_be_handed_to_another_thread_before_its_first_use) {
    std::thread([this] { static_cast<void>(pool.allocate()); }).join();
}

TEST_F(memorypool_debug, free_item_that_was_overwritten_is_reported_by_check) {
    EXPECT_DEATH(
        {
            handle const a = pool.allocate();
            if (a == nullptr) std::_Exit(1);
            // A buffer that is written over its end: the next item's vptr and owner are intact, its count is not.
            std::memset(reinterpret_cast<char*>(a.get()) + sizeof(item) + 2 * sizeof(void*), 0x7f, 4);
            pool.check();
        },
        "a free item was overwritten");
}

TEST_F(memorypool_debug, free_item_that_was_written_to_is_reported_by_check) {
    EXPECT_DEATH(
        {
            item* const gone = pool.allocate().get();
            if (gone == nullptr) std::_Exit(1);
            intrusive_ptr_add_ref(gone);  // used after its last handle had gone
            pool.check();
        },
        "a free item was overwritten, or used after its last handle had gone");
}

TEST_F(memorypool_debug, check_looks_at_the_item_that_is_taken_next_and_at_no_other) {
    auto const overwrite_the_second_free_item = [this] {
        handle a = pool.allocate();
        handle b = pool.allocate();
        item* const second = b.get();
        if (second == nullptr) std::_Exit(1);
        b.reset();
        a.reset();  // the item dropped last is taken next
        intrusive_ptr_add_ref(second);
    };
    EXPECT_EXIT(
        {
            overwrite_the_second_free_item();
            pool.check();
            std::_Exit(0);
        },
        testing::ExitedWithCode(0), "");
    EXPECT_DEATH(
        {
            overwrite_the_second_free_item();
            handle const a = pool.allocate();
            pool.check();
        },
        "a free item was overwritten");
}

}  // namespace
