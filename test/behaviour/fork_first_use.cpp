// SPDX-License-Identifier: BSL-1.0
// A fork while another thread uses a pool for the first time, and a system without memory for fork handlers: pthread_atfork is
// replaced here. Each test is a process of its own, in which nothing has used a pool before.

// The library's handlers are registered at its first use.
#define POOLED_STARTS_FIRST 0

#include "pooled/pooled.hpp"

#include "support/in_child.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <thread>

namespace {

[[maybe_unused]] int g_calls = 0;
int (*g_at_each_call)() = [] { return 0; };

}  // namespace

// ThreadSanitizer crashes before main when this is replaced.
#if !defined(POOLED_TEST_SANITIZER_THREAD)
extern "C" int pthread_atfork(void (*)(), void (*)(), void (*)()) noexcept {
    ++g_calls;
    return g_at_each_call();
}
#endif

namespace {

class first_use : public testing::Test {
protected:
    void SetUp() override {
#if defined(POOLED_TEST_SANITIZER_THREAD)
        GTEST_SKIP() << "ThreadSanitizer crashes when pthread_atfork is replaced";
#endif
    }
};

// In the child, that waits forever if the lock of the first use is held there.
TEST_F(first_use, may_be_under_way_when_the_process_forks) {
    static int status = -1;
    auto const use = [] {
        g_at_each_call = [] {
            if (g_calls == 1)
                std::thread([] {
                    status = test::in_child([] { return *pooled::make_shared<int>(7) == 7; }, 20);
                }).join();
            return 0;
        };
        return *pooled::make_shared<int>(1) == 1 && g_calls != 0 && status == 0;
    };
    EXPECT_EQ(test::in_child(use), 0);
}

TEST_F(first_use, that_cannot_register_its_fork_handlers_fails_and_the_next_one_tries_again) {
    auto const use = [] {
        g_at_each_call = [] { return ENOMEM; };
        EXPECT_THROW(static_cast<void>(pooled::make_shared<int>(1)), std::bad_alloc);
        EXPECT_THROW(pooled::pool{}, std::bad_alloc);
        g_at_each_call = [] { return 0; };
        return *pooled::make_shared<int>(1) == 1 && !testing::Test::HasFailure();
    };
    EXPECT_EQ(test::in_child(use), 0);
}

}  // namespace
