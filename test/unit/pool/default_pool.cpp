// SPDX-License-Identifier: BSL-1.0
// The process-wide pool. What it does at exit is under behaviour/.

#include "pooled/pooled.hpp"

#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace {

std::shared_ptr<int> const g_made_before_main = pooled::make_shared<int>(41);

TEST(default_pool, works_before_main) {
    EXPECT_EQ(*g_made_before_main, 41);
    EXPECT_TRUE(pooled::default_pool().owns(g_made_before_main.get()));
}

TEST(default_pool, is_the_same_on_every_thread) {
    pooled::pool* other = nullptr;
    std::thread([&] { other = &pooled::default_pool(); }).join();
    EXPECT_EQ(other, &pooled::default_pool());
    EXPECT_EQ(pooled::default_pool().name(), "default");
}

TEST(default_pool, cannot_be_configured_once_an_object_was_made) {
    EXPECT_FALSE(pooled::configure_default_pool({.max_bytes = 1 << 20}));
    EXPECT_EQ(pooled::default_pool().stats().max_bytes, 0U);
}

TEST(default_pool, can_be_trimmed_and_asked_like_any_other) {
    pooled::pool& pool = pooled::default_pool();
    auto large = pooled::make_shared<char[]>(1'000'000);
    EXPECT_EQ(pool.stats().large_in_use, 1U);
    large.reset();
    EXPECT_EQ(pool.stats().large_in_use, 0U);
    pool.trim();
    EXPECT_TRUE(test::is_valid(pool));
    pool.reserve<int>(1000);
}

TEST(default_pool, frees_on_a_thread_that_never_allocated) {
    auto p = pooled::make_shared<int>(1);
    auto const before = pooled::default_pool().stats().in_use;
    std::thread([p = std::move(p)]() mutable { p.reset(); }).join();
    EXPECT_EQ(pooled::default_pool().stats().in_use, before - 1);
}

}  // namespace
