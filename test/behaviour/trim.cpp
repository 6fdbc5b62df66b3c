// SPDX-License-Identifier: BSL-1.0
// While a thread returns the pages of free memory to the system, which takes microseconds for each piece, other threads use the
// pool: a call of madvise() runs what they do meanwhile.

#include <gtest/gtest.h>

#if !defined(POOLED_TEST_SANITIZER_ADDRESS) && !defined(POOLED_TEST_SANITIZER_THREAD)

#include "pooled/pooled.hpp"

#include "support/sleeper.hpp"

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
std::function<void()> g_meanwhile;
}

extern "C" {
// NOLINTBEGIN: names and types of libc
int madvise(void* address, std::size_t length, int advice) noexcept {
    if (auto const meanwhile = std::exchange(g_meanwhile, nullptr)) meanwhile();
    return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}
// NOLINTEND
}

namespace {

TEST(a_trim, of_the_pages_of_one_size_class_lets_other_threads_use_the_others) {
    pooled::pool pool{{.name = "trimmed"}};
    test::sleeper other;
    void* kept = nullptr;
    other.run([&] { kept = pool.allocate(5000); });  // its class has a slab with more, and comes later
    std::vector<void*> all;
    for (int i = 0; i < 1000; ++i)
        all.push_back(pool.allocate(4096));
    for (std::size_t i = 1; i < all.size(); ++i)
        pool.deallocate(all[i], 4096);

    bool was_called = false;
    g_meanwhile = [&] {
        other.run([&] {
            for (int i = 0; i < 10; ++i)
                pool.deallocate(pool.allocate(5000), 5000);
        });
        was_called = true;
    };
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_TRUE(was_called);
    pool.deallocate(all[0], 4096);
    other.run([&] { pool.deallocate(kept, 5000); });
}

}  // namespace

#endif
