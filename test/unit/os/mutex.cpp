// SPDX-License-Identifier: BSL-1.0
// The lock of the library's slow paths.

#include "pooled/impl/os/mutex.hpp"

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

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

}  // namespace
