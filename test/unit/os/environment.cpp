// SPDX-License-Identifier: BSL-1.0
// What the environment says is read once. How pools follow it is under behaviour/.

#include "pooled/os/environment.hpp"

#include "support/in_child.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

namespace {

using namespace pooled::detail;

TEST(environment, is_read_once) {
    EXPECT_EQ(test::in_child([] {
                  g_allows_huge_pages.store(0, std::memory_order_relaxed);  // as in a new process
                  ::setenv("POOLED_HUGE_PAGES", "0", 1);
                  if (allows_huge_pages()) return 1;
                  ::setenv("POOLED_HUGE_PAGES", "1", 1);
                  return allows_huge_pages() ? 2 : 0;
              }),
              0);
}

TEST(environment, allows_huge_pages_when_it_says_nothing) {
    EXPECT_EQ(test::in_child([] {
                  g_allows_huge_pages.store(0, std::memory_order_relaxed);
                  ::unsetenv("POOLED_HUGE_PAGES");
                  return allows_huge_pages() ? 0 : 1;
              }),
              0);
}

}  // namespace
