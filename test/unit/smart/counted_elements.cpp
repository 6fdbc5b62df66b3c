// SPDX-License-Identifier: BSL-1.0
// An array in its block with the words in front of it: where everything lies, and in which order the elements go.

#include "pooled/smart/counted_elements.hpp"

#include "pooled/pooled.hpp"

#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace pooled::detail;

template <class T>
using by_default = counted_elements<T, from_default>;

constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();
static_assert(by_default<char>::k_offset == 16 && by_default<char>::k_align == 8);
static_assert(by_default<test::counted<8, 64>>::k_offset == 64);
static_assert(by_default<int>::bytes_of(4) == 32 && by_default<int>::bytes_of(0) == 16);
static_assert(by_default<int>::bytes_of(k_most / 4 + 1) == k_most &&
                  by_default<int>::bytes_of(k_most / 4) == k_most,
              "neither the product nor the sum wraps");

TEST(counted_elements, have_their_number_in_front_of_the_header) {
    auto const p = pooled::make_rc<int[]>(7);
    auto const* const header = reinterpret_cast<count_header const*>(p.get()) - 1;
    EXPECT_EQ(*(reinterpret_cast<std::size_t const*>(header) - 1), 7U);
    EXPECT_EQ(header->word.load() & (k_type_one - 1), count_header::k_sole);
    EXPECT_FALSE(is_plain(header->word.load())) << "the block does not start where the header does";
}

struct numbered {
    static inline std::vector<int> s_gone;
    int number = 0;
    ~numbered() { s_gone.push_back(number); }
};

TEST(counted_elements, go_from_the_last_to_the_first) {
    numbered::s_gone.clear();
    {
        auto const p = pooled::make_rc<numbered[2][2]>();
        for (int i = 0; i < 4; ++i)
            p[i / 2][i % 2].number = i;
    }
    EXPECT_EQ(numbered::s_gone, (std::vector{3, 2, 1, 0})) << "those of inner arrays, too";

    numbered::s_gone.clear();
    auto p = pooled::make_rc<numbered[]>(3);
    for (int i = 0; i < 3; ++i)
        p[i].number = i;
    pooled::weak_rc_ptr<numbered[]> const observed = p;
    p.reset();
    EXPECT_EQ(numbered::s_gone, (std::vector{2, 1, 0}));
}

}  // namespace
