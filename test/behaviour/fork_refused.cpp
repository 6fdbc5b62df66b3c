// SPDX-License-Identifier: BSL-1.0
// A system without memory for fork handlers: its pthread_atfork is replaced here.

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <new>

namespace {
[[maybe_unused]] bool g_fails = true;
}

// ThreadSanitizer crashes before main when this is replaced.
#if !defined(POOLED_TEST_SANITIZER_THREAD)
extern "C" int pthread_atfork(void (*)(), void (*)(), void (*)()) noexcept { return g_fails ? ENOMEM : 0; }
#endif

TEST(first_use, that_cannot_register_its_fork_handlers_fails_and_the_next_one_tries_again) {
#if defined(POOLED_TEST_SANITIZER_THREAD)
    GTEST_SKIP() << "ThreadSanitizer crashes when pthread_atfork is replaced";
#endif
    EXPECT_THROW(static_cast<void>(pooled::make_shared<int>(1)), std::bad_alloc);
    EXPECT_THROW(pooled::pool{}, std::bad_alloc);
    g_fails = false;
    EXPECT_EQ(*pooled::make_shared<int>(1), 1);
}
