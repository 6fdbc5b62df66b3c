// SPDX-License-Identifier: BSL-1.0
// The default pool made with other options, and what the environment says about huge pages: each in a child that has made no pool yet.

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/in_child.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

TEST(configure_default_pool, applies_its_options_to_the_first_use_and_all_later_ones) {
    if (test::k_sanitized) GTEST_SKIP() << "blocks come from the sanitizer's malloc";
    EXPECT_EQ(test::in_child([] {
                  static test::counting_upstream upstream;
                  if (!pooled::configure_default_pool(
                          {.name = "mine", .max_bytes = 1U << 20, .upstream = &upstream}))
                      return 1;
                  std::vector<std::shared_ptr<int[]>> all;
                  try {
                      for (;;)
                          all.push_back(pooled::make_shared<int[]>(250));
                  } catch (pooled::exhausted const&) {}
                  if (all.size() < 500 || all.size() > 1050) return 2;
                  if (upstream.bytes() == 0 || upstream.bytes() > 1U << 20) return 3;
                  return pooled::default_pool().name() == "mine" ? 0 : 4;
              }),
              0);
}

TEST(configure_default_pool, keeps_the_name_when_it_is_given_none) {
    EXPECT_EQ(test::in_child([] {
                  if (!pooled::configure_default_pool({.max_bytes = 1U << 20})) return 1;
                  pooled::pool_stats const stats = pooled::default_pool().stats();
                  return stats.name == "default" && stats.max_bytes == 1U << 20 ? 0 : 2;
              }),
              0);
}

TEST(configure_default_pool, is_refused_from_the_first_use_on) {
    EXPECT_EQ(test::in_child([] {
                  auto const p = pooled::make_shared<int>(1);
                  if (pooled::configure_default_pool({.max_bytes = 1U << 20})) return 1;
                  return pooled::default_pool().stats().max_bytes == 0 ? 0 : 2;
              }),
              0);
    EXPECT_EQ(test::in_child([] {
                  if (!pooled::configure_default_pool({})) return 1;
                  return pooled::configure_default_pool({}) ? 2 : 0;
              }),
              0);
}

TEST(configure_default_pool, works_after_other_pools_were_made) {
    EXPECT_EQ(test::in_child([] {
                  pooled::pool other;
                  auto const p = other.make_shared<int>(1);
                  return pooled::configure_default_pool({.max_bytes = 1U << 20}) ? 0 : 1;
              }),
              0);
}

TEST(configure_default_pool, refuses_options_that_make_no_sense_and_can_be_called_again) {
    EXPECT_EQ(test::in_child([] {
                  int refused = 0;
                  for (pooled::pool_options const& wrong :
                       {pooled::pool_options{.chunk_bytes = ~std::size_t{0}},
                        pooled::pool_options{.teardown = pooled::teardown::incremental},
                        pooled::pool_options{.teardown = pooled::teardown::unordered}}) {
                      try {
                          static_cast<void>(pooled::configure_default_pool(wrong));
                      } catch (std::invalid_argument const&) {
                          ++refused;
                      }
                  }
                  return refused == 3 && pooled::configure_default_pool({.name = "right"}) ? 0 : 1;
              }),
              0);
}

// In a child with POOLED_HUGE_PAGES=value; null: without. Whether 32 MiB of blocks lie in mappings that ask for huge pages: 7 or 8.
// `out`: what the child wrote to the standard error stream.
int asks_for_huge_pages(char const* value, std::string& out) {
    testing::internal::CaptureStderr();
    int const status = test::in_child([value] {
        if (value != nullptr)
            ::setenv("POOLED_HUGE_PAGES", value, 1);
        else
            ::unsetenv("POOLED_HUGE_PAGES");
        pooled::pool pool;
        pooled::pool second;
        for (int i = 0; i < 8192; ++i)
            *static_cast<char*>(pool.allocate(4096)) = 1;
        static_cast<void>(second.allocate(48));
        std::ifstream maps("/proc/self/smaps");
        for (std::string line; std::getline(maps, line);)
            if (line.starts_with("VmFlags:") && line.find(" hg") != std::string::npos) return 7;
        return 8;
    });
    out = testing::internal::GetCapturedStderr();
    return status;
}

TEST(the_environment, turns_huge_pages_off) {
    if (test::k_sanitized) GTEST_SKIP() << "blocks come from the sanitizer's malloc";
    std::string out;
    if (asks_for_huge_pages(nullptr, out) != 7) GTEST_SKIP() << "the system has no huge pages";
    EXPECT_EQ(out, "");
    EXPECT_EQ(asks_for_huge_pages("1", out), 7);
    EXPECT_EQ(out, "");
    EXPECT_EQ(asks_for_huge_pages("0", out), 8);
    EXPECT_EQ(out, "");
}

TEST(the_environment, is_ignored_with_one_message_when_it_makes_no_sense) {
    for (char const* const value : {"", "2", "no", "00", "0 ", "%s%n"}) {
        std::string out;
        int const status = asks_for_huge_pages(value, out);
        std::string without;
        EXPECT_EQ(status, asks_for_huge_pages(nullptr, without));
        EXPECT_EQ(out, "pooled: the environment variable POOLED_HUGE_PAGES is \"" + std::string(value) +
                           "\" and is ignored; 0 turns huge pages off, 1 is the default\n");
        EXPECT_EQ(without, "");
    }
}

}  // namespace
