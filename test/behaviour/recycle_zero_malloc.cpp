// SPDX-License-Identifier: BSL-1.0
// A recycle pool with idle objects calls malloc neither in allocate() nor at a release, the control block of std::shared_ptr
// included. Without memory for its list it destroys objects. Replaces malloc in its own program.

#include "pooled/compat/recycle.hpp"

#include "support/malloc_counter.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <sys/resource.h>

namespace {

struct shares_itself : std::enable_shared_from_this<shares_itself> {
    std::array<char, 100> bytes{};
};

template <class Pool>
class settled_recycle_pool : public testing::Test {};
using pools =
    testing::Types<recycle::shared_pool<int>, recycle::shared_pool<shares_itself>, recycle::unique_pool<int>>;
TYPED_TEST_SUITE(settled_recycle_pool, pools);

TYPED_TEST(settled_recycle_pool, calls_no_malloc) {
    TypeParam pool;
    std::array<decltype(pool.allocate()), 100> out;
    auto const round = [&] {
        for (auto& p : out)
            p = pool.allocate();
        for (auto& p : out)
            p.reset();
    };
    round();
    test::expect_no_malloc([&] {
        for (int i = 0; i < 100; ++i)
            round();
    });
}

// The list of idle objects needs memory when it grows. It is refused here from a certain length on.
TEST(recycle_without_memory, destroys_what_it_has_no_memory_to_keep) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer does not work with a limit on addresses";
    constexpr std::size_t k_count = 1U << 17;  // their list takes 2 MiB
    static int destroyed = 0;
    struct tally {
        ~tally() { ++destroyed; }
    };
    tally the_only_one;
    {
        recycle::shared_pool<tally> pool(
            [&] { return std::shared_ptr<tally>(std::shared_ptr<void>(), &the_only_one); });
        std::vector<std::shared_ptr<tally>> out(k_count);
        for (auto& p : out)
            p = pool.allocate();

        rlimit before{};
        ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
        rlimit const none{1, before.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
        for (auto& p : out)
            p.reset();
        ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);

        EXPECT_GT(pool.unused_resources(), 0U);
        EXPECT_LT(pool.unused_resources(), k_count);
        EXPECT_NE(pool.allocate(), nullptr);
    }
    EXPECT_EQ(destroyed, 0);
}

}  // namespace
