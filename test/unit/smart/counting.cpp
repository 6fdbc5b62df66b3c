// SPDX-License-Identifier: BSL-1.0
// The count word: what each step does to it, and that an overflow is told instead of wrapping round.

#include "pooled/pooled.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/counting.hpp"

#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace {

using pooled::detail::among_threads;
using pooled::detail::count_header;
using pooled::detail::on_one_thread;

template <class Counting>
class count_word : public testing::Test {
protected:
    count_word() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

    static std::uint64_t strong(count_header const& h) { return count_header::strong_in(h.word.load()); }
    static std::uint64_t weak(count_header const& h) {
        return count_header::weak_in(h.word.load()) / count_header::k_weak_one;
    }
    static constexpr std::uint64_t k_type = std::uint64_t{500} << pooled::detail::k_type_shift;
};
using countings = testing::Types<among_threads, on_one_thread>;
struct counting_names {
    template <class Counting>
    static std::string GetName(int) {
        return std::is_same_v<Counting, among_threads> ? "among_threads" : "on_one_thread";
    }
};
TYPED_TEST_SUITE(count_word, countings, counting_names);

TYPED_TEST(count_word, counts_owners_observers_and_keeps_the_type) {
    count_header h{TestFixture::k_type | count_header::k_sole};
    for (int i = 0; i < 1000; ++i) {
        TypeParam::add_strong(h);
        TypeParam::add_weak(h);
    }
    EXPECT_EQ(this->strong(h), 1001U);
    EXPECT_EQ(this->weak(h), 1001U);
    EXPECT_TRUE(TypeParam::try_add_strong(h));
    EXPECT_EQ(this->strong(h), 1002U);
    for (int i = 0; i < 1000; ++i) {
        TypeParam::release_strong(h);
        h.release_weak();
    }
    EXPECT_EQ(this->strong(h), 2U);
    EXPECT_EQ(this->weak(h), 1U);
    EXPECT_EQ(h.word.load() >> pooled::detail::k_type_shift, 500U);
}

TYPED_TEST(count_word, without_an_owner_gives_no_owner) {
    count_header h{TestFixture::k_type | count_header::k_weak_one * 3};
    EXPECT_FALSE(TypeParam::try_add_strong(h));
    EXPECT_EQ(h.word.load(), TestFixture::k_type | count_header::k_weak_one * 3);
}

TYPED_TEST(count_word, tells_of_too_many_owners_before_it_wraps_round) {
    count_header h{TestFixture::k_type | count_header::k_weak_one | count_header::k_strong_limit};
    TypeParam::add_strong(h);
    EXPECT_EQ(this->strong(h), count_header::k_strong_limit + 1);
    EXPECT_DEATH(TypeParam::add_strong(h), "more than 66 million rc_ptr");
    EXPECT_DEATH(static_cast<void>(TypeParam::try_add_strong(h)), "more than 66 million rc_ptr");
}

TYPED_TEST(count_word, tells_of_too_many_observers_before_it_wraps_round) {
    count_header h{TestFixture::k_type | count_header::k_strong_one | count_header::k_weak_limit};
    TypeParam::add_weak(h);
    EXPECT_EQ(count_header::weak_in(h.word.load()), count_header::k_weak_limit + count_header::k_weak_one);
    EXPECT_DEATH(TypeParam::add_weak(h), "15 million weak_rc_ptr");
}

TEST(the_header_of_a_counted_block, lies_right_in_front_of_the_object) {
    pooled::pool pool;
    struct alignas(64) aligned {
        int value = 1;
    };
    auto const check = [](void const* object) {
        auto const* const h = static_cast<count_header const*>(object) - 1;
        EXPECT_TRUE(count_header::is_sole(h->word.load()));
        EXPECT_NE(h->word.load() >> pooled::detail::k_type_shift, pooled::detail::k_no_type);
    };
    auto const small = pool.make_rc<char>('x');
    auto const wide = pool.make_rc<aligned>();
    check(small.get());
    check(wide.get());
    auto const unique = pool.make_unique<int>(1);
    auto const* const h = reinterpret_cast<count_header const*>(unique.get()) - 1;
    EXPECT_EQ(h->word.load() & ((std::uint64_t{1} << pooled::detail::k_type_shift) - 1),
              count_header::k_unique);
}

}  // namespace
