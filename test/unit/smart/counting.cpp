// SPDX-License-Identifier: BSL-1.0
// The count word: what each step does to it, and that an overflow is reported instead of wrapping around.

#include "pooled/smart/counting.hpp"

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

// What happens to a block of a separate type, one letter for each step.
std::string g_events;
template <char Event>
void note(void*) noexcept {
    g_events += Event;
}
constexpr pooled::detail::block_type k_noted{.retire = note<'r'>,
                                             .retire_observed = note<'o'>,
                                             .finish = nullptr,
                                             .finish_observed = nullptr,
                                             .free = note<'f'>,
                                             .object_offset = 8,
                                             .object_bytes = 1};

TYPED_TEST(count_word, lets_go_of_the_object_with_the_last_owner_alone) {
    g_events.clear();
    auto const type = pooled::detail::tag_of<k_noted>();
    count_header sole{type | count_header::k_sole};
    TypeParam::add_strong(sole);
    TypeParam::release_strong(sole);
    EXPECT_EQ(g_events, "");
    TypeParam::release_strong(sole);
    EXPECT_EQ(g_events, "r");
    count_header observed{type | count_header::k_sole};
    TypeParam::add_weak(observed);
    TypeParam::release_strong(observed);
    EXPECT_EQ(g_events, "ro");
    EXPECT_FALSE(TypeParam::try_add_strong(observed));
    observed.release_weak();  // the owners' together
    EXPECT_EQ(g_events, "ro");
    observed.release_weak();
    EXPECT_EQ(g_events, "rof");
}

}  // namespace
