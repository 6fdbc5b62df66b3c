// SPDX-License-Identifier: BSL-1.0
// Whatever std::shared_ptr does with an incomplete class, a counted pointer does: in this file it is never complete, and
// its objects are nevertheless destroyed here.

#include "unit/smart/rc_ptr_incomplete.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <utility>

namespace {

using test_incomplete::hidden;
using test_incomplete::hidden_base;

// Implicit special members, all of them.
struct holder {
    pooled::rc_ptr<hidden> owner;
    pooled::weak_rc_ptr<hidden> observer;
    pooled::local_rc_ptr<hidden> local;
    pooled::rc_ptr<hidden_base> base;
};

TEST(a_counted_pointer_to_an_incomplete_class, is_a_member_by_value_and_destroys_its_object) {
    {
        holder a;
        a.owner = test_incomplete::make(3);
        a.observer = a.owner;
        a.local = test_incomplete::make_local(4);
        a.base = test_incomplete::to_base(a.owner);
        EXPECT_EQ(test_incomplete::alive(), 2);
        holder b = a;
        holder const c = std::move(a);
        a = b;
        b = std::move(a);
        EXPECT_EQ(c.owner.use_count(), 4);
        EXPECT_EQ(c.local.use_count(), 2);
    }
    EXPECT_EQ(test_incomplete::alive(), 0);
}

TEST(a_counted_pointer_to_an_incomplete_class, is_passed_compared_hashed_and_printed) {
    pooled::rc_ptr<hidden> p = test_incomplete::make(3);
    auto const q = p;
    EXPECT_EQ(test_incomplete::value_of(p), 3);
    EXPECT_TRUE(p == q && !(p < q) && p != nullptr && !p.owner_before(q));
    EXPECT_EQ(std::hash<pooled::rc_ptr<hidden>>()(p), std::hash<pooled::rc_ptr<hidden>>()(q));
    std::ostringstream out;
    out << p;
    EXPECT_FALSE(out.str().empty());
    EXPECT_EQ(&*p, p.get());
    pooled::rc_ptr<void> const nothing = p;
    pooled::rc_ptr<hidden const> const as_const = p;
    swap(p, p);
    p.reset();
    EXPECT_EQ(as_const.use_count(), 3);
}

TEST(a_counted_pointer_to_an_incomplete_class, comes_back_from_a_base_that_is_not_at_the_start) {
    auto const p = test_incomplete::make(8);
    auto const base = test_incomplete::to_base(p);
    EXPECT_NE(static_cast<void const*>(base.get()), static_cast<void const*>(p.get()));
    EXPECT_EQ(test_incomplete::from_base(base), p);
    EXPECT_EQ(p.use_count(), 2);
}

}  // namespace
