// SPDX-License-Identifier: BSL-1.0
#pragma once

// Counts the calls to malloc and its relatives, operator new among them, by replacing them in the program. It
// defines them, so exactly one source file of an executable includes this: the only one of a program under behaviour/.
// Needs glibc; with another C library, or a sanitizer, k_counts_malloc is false and the test is to be skipped.
//
//   test::expect_no_malloc([&] { ... });

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <errno.h>

namespace test {

#if defined(__GLIBC__) && !defined(POOLED_TEST_SANITIZER_ADDRESS) && !defined(POOLED_TEST_SANITIZER_THREAD)
inline constexpr bool k_counts_malloc = true;
#else
inline constexpr bool k_counts_malloc = false;
#endif

using malloc_calls = std::size_t;

// Constant-initialised: malloc is called before any constructor runs. Allocations and deallocations both count.
inline constinit std::atomic<malloc_calls> g_malloc_calls{0};

[[nodiscard]] inline malloc_calls malloc_calls_so_far() noexcept { return g_malloc_calls.load(); }

// `counted` calls malloc never. Where mallocs cannot be counted it runs all the same, and the test is called skipped.
template <class Counted>
void expect_no_malloc(Counted&& counted) {
    if (!k_counts_malloc) {
        counted();
        GTEST_SKIP() << "this build cannot count mallocs";
    }
    auto const start = malloc_calls_so_far();
    void* volatile probe = ::operator new(10);
    ::operator delete(probe);
    ASSERT_GE(malloc_calls_so_far() - start, 2U) << "the counter does not count";
    auto const before = malloc_calls_so_far();
    counted();
    EXPECT_EQ(malloc_calls_so_far() - before, 0U);
}

}  // namespace test

#if defined(__GLIBC__) && !defined(POOLED_TEST_SANITIZER_ADDRESS) && !defined(POOLED_TEST_SANITIZER_THREAD)
// operator new and delete of both standard libraries call these; glibc lets a program replace all of them together.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) {
    test::g_malloc_calls.fetch_add(1, std::memory_order_relaxed);
    return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
    test::g_malloc_calls.fetch_add(1, std::memory_order_relaxed);
    return __libc_calloc(count, bytes);
}
void* realloc(void* p, std::size_t bytes) {
    test::g_malloc_calls.fetch_add(1, std::memory_order_relaxed);
    return __libc_realloc(p, bytes);
}
void* memalign(std::size_t align, std::size_t bytes) {
    test::g_malloc_calls.fetch_add(1, std::memory_order_relaxed);
    return __libc_memalign(align, bytes);
}
void* aligned_alloc(std::size_t align, std::size_t bytes) { return memalign(align, bytes); }
int posix_memalign(void** p, std::size_t align, std::size_t bytes) {
    *p = memalign(align, bytes);
    return *p == nullptr ? ENOMEM : 0;
}
void free(void* p) {
    if (p == nullptr) return;
    test::g_malloc_calls.fetch_add(1, std::memory_order_relaxed);
    __libc_free(p);
}
}
#endif
