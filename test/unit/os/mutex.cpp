// SPDX-License-Identifier: BSL-1.0
// The lock of the library's slow paths.

#include "pooled/impl/os/mutex.hpp"

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace {

TEST(mutex, keeps_threads_apart) {
    pooled::detail::mutex lock;
    long guarded = 0;
    long const rounds = test::k_sanitized ? 5'000 : 50'000;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (long n = 0; n < rounds; ++n) {
                std::scoped_lock const held(lock);
                ++guarded;
            }
        });
    for (std::thread& t : threads)
        t.join();
    EXPECT_EQ(guarded, 4 * rounds);
}

TEST(mutex, is_not_had_twice) {
    pooled::detail::mutex lock;
    ASSERT_TRUE(lock.try_lock());
    bool second = true;
    std::thread([&] { second = lock.try_lock(); }).join();
    EXPECT_FALSE(second);
    lock.unlock();
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
}

TEST(mutex, that_a_thread_does_not_get_leaves_it_outside_the_fork_gate) {
    pooled::detail::mutex lock;
    lock.lock();
    std::uint32_t held = 1;
    std::thread([&] {
        static_cast<void>(lock.try_lock());
        held = pooled::detail::t_fork_gate.locks;
    }).join();
    lock.unlock();
    EXPECT_EQ(held, 0U) << "a fork would wait for this thread for ever";
}

}  // namespace
