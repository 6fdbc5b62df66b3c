// SPDX-License-Identifier: BSL-1.0

#include "pooled/detail/intrusive_list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <vector>

using pooled::detail::intrusive_list;
using pooled::detail::list_links;

namespace {

struct element {
    int number = 0;
    list_links<element> links;
};
std::array<element, 4> numbered() { return {{{0, {}}, {1, {}}, {2, {}}, {3, {}}}}; }

// Empty if the links in the other direction differ.
std::vector<int> numbers(intrusive_list<element> const& list) {
    std::vector<int> forth;
    element* last = nullptr;
    for (element& one : list) {
        if (one.links.previous != last) return {};
        last = &one;
        forth.push_back(one.number);
    }
    return forth;
}

}  // namespace

TEST(an_intrusive_list, keeps_the_order_in_which_elements_are_put_at_its_ends) {
    auto all = numbered();
    intrusive_list<element> list;
    EXPECT_TRUE(list.empty());
    list.push_back(all[1]);
    list.push_front(all[0]);
    list.push_back(all[2]);
    list.push_back(all[3]);
    EXPECT_EQ(numbers(list), (std::vector{0, 1, 2, 3}));
    EXPECT_EQ(list.after(all[1]), &all[2]);
}

TEST(an_intrusive_list, loses_any_element_also_the_one_that_a_loop_visits) {
    for (int const gone : {0, 1, 3}) {
        auto all = numbered();
        intrusive_list<element> list;
        for (element& one : all)
            list.push_back(one);
        for (element& one : list)
            if (one.number == gone) list.remove(one);
        std::vector expected{0, 1, 2, 3};
        std::erase(expected, gone);
        EXPECT_EQ(numbers(list), expected);
        list.push_back(all[static_cast<std::size_t>(gone)]);
        expected.push_back(gone);
        EXPECT_EQ(numbers(list), expected);
    }
}

TEST(an_intrusive_list, returns_its_first_until_it_is_empty) {
    auto all = numbered();
    intrusive_list<element> list;
    list.push_back(all[0]);
    list.push_back(all[1]);
    EXPECT_EQ(list.pop_front(), &all[0]);
    EXPECT_EQ(list.pop_front(), &all[1]);
    EXPECT_EQ(list.pop_front(), nullptr);
    EXPECT_TRUE(list.empty());
}
