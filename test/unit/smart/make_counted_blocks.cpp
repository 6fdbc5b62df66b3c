// SPDX-License-Identifier: BSL-1.0
// A new object in a block with a header: what it costs, and that whatever fails leaves the pool as it was.

#include "pooled/pooled.hpp"
#include "pooled/smart/make_counted.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace {

using namespace pooled::detail;

using item = test::counted<100>;
using huge = test::counted<100'000>;

count_header& header_of(void* object) { return *(static_cast<count_header*>(object) - 1); }
void drop(void* object, std::uint64_t counts) {
    EXPECT_TRUE(header_of(object).retires(header_of(object).word.load(), counts));
}

class make_counted_test : public testing::Test {
protected:
    ~make_counted_test() override {
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
    }
    test::counting_upstream memory;
    test::failing_upstream failing{memory};
    test::life_log log;
    pooled::pool pool{{.upstream = &failing}};
};

TEST_F(make_counted_test, counts_as_it_is_told_and_takes_one_block) {
    for (std::uint64_t const counts : {count_header::k_sole, count_header::k_unique}) {
        auto* const small = make_counted<item, sharing::shared>(test::core_of(pool), counts, log);
        auto* const large = try_make_counted<huge, sharing::shared>(test::core_of(pool), counts, log);
        EXPECT_EQ(pool.stats().in_use, 2U);
        EXPECT_EQ(header_of(small).word.load() & (k_type_one - 1), counts);
        EXPECT_TRUE(pool.owns(small));
        drop(small, counts);
        drop(large, counts);
    }
    auto* const by_default = make_counted_by_default<item>(count_header::k_sole, log);
    EXPECT_TRUE(pooled::default_pool().owns(by_default));
    drop(by_default, count_header::k_sole);
}

TEST_F(make_counted_test, gives_the_block_back_when_the_constructor_throws) {
    for (int i = 0; i < 3; ++i) {
        log.throw_at(1);
        EXPECT_THROW(static_cast<void>(make_counted<item, sharing::shared>(test::core_of(pool), 1, log)),
                     test::constructor_failed);
        log.throw_at(1);
        EXPECT_THROW(static_cast<void>(try_make_counted<huge, sharing::shared>(test::core_of(pool), 1, log)),
                     test::constructor_failed);
        std::uint64_t const before = pooled::default_pool().stats().in_use;
        log.throw_at(1);
        EXPECT_THROW(static_cast<void>(make_counted_by_default<item>(1, log)), test::constructor_failed);
        EXPECT_EQ(pooled::default_pool().stats().in_use, before);
        EXPECT_EQ(pool.stats().in_use, 0U);
    }
}

TEST_F(make_counted_test, throws_what_upstream_throws_and_gives_null_where_it_only_tries) {
    failing.fail_always(true);
    EXPECT_THROW(static_cast<void>(make_counted<item, sharing::shared>(test::core_of(pool), 1, log)),
                 test::injected_failure);
    EXPECT_THROW(static_cast<void>(make_counted<huge, sharing::shared>(test::core_of(pool), 1, log)),
                 test::injected_failure);
    EXPECT_EQ((try_make_counted<item, sharing::shared>(test::core_of(pool), 1, log)), nullptr);
    EXPECT_EQ((try_make_counted<huge, sharing::shared>(test::core_of(pool), 1, log)), nullptr);
    EXPECT_EQ(log.constructed(), 0);
}

TEST_F(make_counted_test, gives_objects_another_type_where_they_are_deferred) {
    pooled::pool unordered{{.teardown = pooled::teardown::unordered}};
    pooled::pool incremental{{.teardown = pooled::teardown::incremental}};
    type_tag const immediate = tag_in<item, sharing::shared>(test::core_of(pool));
    EXPECT_NE((tag_in<item, sharing::shared>(test::core_of(unordered))), immediate);
    EXPECT_EQ((tag_in<item, sharing::shared>(test::core_of(incremental))),
              (tag_in<item, sharing::shared>(test::core_of(unordered))));
    EXPECT_NE(test::core_of(incremental).extension(), nullptr) << "it is ready to defer";
    EXPECT_EQ((tag_in<int, sharing::shared>(test::core_of(unordered))),
              (tag_in<int, sharing::shared>(test::core_of(pool))))
        << "what has no destructor is not deferred";
}

TEST_F(make_counted_test, holds_a_block_until_it_is_released) {
    for (bool const is_released : {false, true}) {
        void* const block = pool.allocate(48);
        {
            held_block<from_pool<sharing::shared>> held(block, 48, 8);
            EXPECT_EQ(pool.stats().in_use, 1U);
            if (is_released) held.release();
        }
        EXPECT_EQ(pool.stats().in_use, is_released ? 1U : 0U);
        if (is_released) pool.deallocate(block, 48);
    }
}

}  // namespace
