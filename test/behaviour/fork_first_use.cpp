// SPDX-License-Identifier: BSL-1.0
// A fork while another thread uses a pool for the first time: pthread_atfork is replaced here by one during which the
// process forks.

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace {

[[maybe_unused]] std::atomic<int> g_calls{0};

// Whether a child that another thread forks now can create objects.
[[maybe_unused]] int status_of_child() {
    int status = -1;
    std::thread([&status] {
        pid_t const child = ::fork();
        if (child == 0) {
            ::alarm(20);  // ends a child that waits forever
            ::_exit(*pooled::make_shared<int>(7) == 7 ? 0 : 1);
        }
        ::waitpid(child, &status, 0);
    }).join();
    return status;
}

[[maybe_unused]] int g_status = -1;

}  // namespace

// ThreadSanitizer crashes before main when this is replaced.
#if !defined(POOLED_TEST_SANITIZER_THREAD)
extern "C" int pthread_atfork(void (*)(), void (*)(), void (*)()) noexcept {
    if (g_calls.fetch_add(1) == 0) g_status = status_of_child();
    return 0;
}
#endif

TEST(child, of_a_fork_during_the_first_use_of_a_pool_can_use_pools) {
#if defined(POOLED_TEST_SANITIZER_THREAD)
    GTEST_SKIP() << "ThreadSanitizer crashes when pthread_atfork is replaced";
#endif
    EXPECT_EQ(*pooled::make_shared<int>(1), 1);
    EXPECT_GE(g_calls.load(), 1);
    EXPECT_TRUE(WIFEXITED(g_status)) << "the child did not end by itself";
    EXPECT_EQ(WEXITSTATUS(g_status), 0);
}
