// SPDX-License-Identifier: BSL-1.0
// An overflow of the count word is reported instead of wrapping around. What the steps do otherwise: rc_ptr.cpp.

#include "pooled/detail/counted_object.hpp"

#include "support/death_tests.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace {

using pooled::detail::among_threads;
using pooled::detail::count_header;
using pooled::detail::on_one_thread;

template <class Counting>
class count_word : public testing::Test {
protected:
    count_word() { test::start_death_tests_anew(); }

    static std::uint64_t strong(count_header const& h) { return count_header::strong_in(h.word.load()); }
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

}  // namespace
