// SPDX-License-Identifier: BSL-1.0
#pragma once

// Runs a function on a thread with a stack of 256 KiB: what recurses a few thousand times crashes there. And how deep the
// structures of a test are: POOLED_TEST_DEPTH nodes, by default far too many for recursion.

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <utility>

#include <pthread.h>

namespace test {

inline constexpr std::size_t k_small_stack = std::size_t{256} << 10;

// Requires a function that does not throw.
template <class Function>
void on_stack_of(std::size_t bytes, Function&& function) {
    std::function<void()> task(std::forward<Function>(function));
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, &attributes,
                  [](void* argument) -> void* {
                      (*static_cast<std::function<void()>*>(argument))();
                      return nullptr;
                  },
                  &task),
              0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}

template <class Function>
void on_small_stack(Function&& function) {
    test::on_stack_of(k_small_stack, std::forward<Function>(function));
}

// The default is divided by `weight`, for tests with expensive nodes.
[[nodiscard]] inline std::size_t depth(std::size_t weight = 1) {
    char const* const asked = std::getenv("POOLED_TEST_DEPTH");
    if (asked != nullptr) return std::strtoull(asked, nullptr, 10);
    return (k_sanitized ? 100'000U : 1'000'000U) / weight;
}

}  // namespace test
