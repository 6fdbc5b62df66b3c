// SPDX-License-Identifier: BSL-1.0
// Counts change without locked instructions while the process has one thread: what was counted then is right when it has several.
// A program of its own, because the process must not have had a second thread before.

#include "pooled/pooled.hpp"
#include "pooled/smart/counted_object.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

std::atomic<int> g_alive{0};
struct counted {
    counted() { ++g_alive; }
    counted(counted const&) = delete;
    counted& operator=(counted const&) = delete;
    ~counted() { --g_alive; }
};

TEST(a_process_with_one_thread, keeps_its_counts_when_it_gets_a_second_one) {
#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
    EXPECT_TRUE(pooled::detail::is_single_threaded());
#endif
    pooled::rc_ptr<counted> owner = pooled::make_rc<counted>();
    pooled::weak_rc_ptr<counted> observer = owner;
    std::vector<pooled::rc_ptr<counted>> of_one(100, owner);
    for (int i = 0; i < 50; ++i)
        of_one.push_back(observer.lock());
    of_one.resize(120);
    EXPECT_EQ(owner.use_count(), 121);
    {
        std::thread other([of_one, observer]() mutable {
            EXPECT_FALSE(pooled::detail::is_single_threaded());
            for (int i = 0; i < 10'000; ++i)
                of_one.back() = observer.lock();
            of_one.clear();
        });
        for (int i = 0; i < 10'000; ++i)
            of_one.back() = observer.lock();
        other.join();
    }
    EXPECT_EQ(owner.use_count(), 121);
    of_one.clear();
    EXPECT_EQ(owner.use_count(), 1);
    owner.reset();
    EXPECT_EQ(g_alive, 0);
    EXPECT_TRUE(observer.expired());
}

}  // namespace
