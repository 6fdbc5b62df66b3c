// SPDX-License-Identifier: BSL-1.0
// From one way of counting to the other: by a sole owner only. What both have in common: rc_ptr.cpp.

#include "pooled/pooled.hpp"
#include "pooled/rc_ptr.hpp"

#include "support/death_tests.hpp"
#include "support/handle_kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>
#include <utility>

namespace {

struct base {
    int value = 1;
};
struct second {
    int value = 2;
};
struct derived : base, second {
    explicit derived(test::life_log& log) : life(log) {}
    test::counted<> life;
};

class a_change_of_counting : public test::handles_test<test::counted_among_threads> {
protected:
    a_change_of_counting() { test::start_death_tests_anew(); }
};

TEST_F(a_change_of_counting, is_made_by_a_sole_owner_both_ways) {
    pooled::local_rc_ptr<derived> mine = pool.make_local_rc<derived>(log);
    auto const* const where = mine.get();
    { auto const copy = mine; }
    { pooled::weak_local_rc_ptr<derived> const observer = mine; }
    pooled::rc_ptr<derived> everybodys = std::move(mine);
    EXPECT_EQ(mine, nullptr);  // NOLINT: that is what is tested
    EXPECT_EQ(everybodys.get(), where);
    EXPECT_EQ(everybodys.use_count(), 1);
    { auto const copy = everybodys; }
    mine = std::move(everybodys);
    EXPECT_EQ(everybodys, nullptr);  // NOLINT
    EXPECT_EQ(mine.get(), where);
    EXPECT_EQ(log.constructed(), 1);
}

TEST_F(a_change_of_counting, may_go_to_a_base) {
    pooled::rc_ptr<second> p = pool.make_local_rc<derived>(log);
    EXPECT_EQ(p->value, 2);
    pooled::local_rc_ptr<second> q = std::move(p);
    EXPECT_EQ(q->value, 2);
}

TEST_F(a_change_of_counting, of_an_empty_pointer_gives_an_empty_one) {
    pooled::rc_ptr<base> const p = pooled::local_rc_ptr<derived>();
    pooled::local_rc_ptr<base> const q = pooled::rc_ptr<derived>();
    EXPECT_FALSE(p || q);
}

TEST_F(a_change_of_counting, takes_what_was_built_on_one_thread_to_another) {
    auto mine = pool.make_local_rc<derived>(log);
    {
        pooled::local_rc_ptr<base> const copy = mine;
        pooled::weak_local_rc_ptr<base> const observer = copy;
    }
    pooled::rc_ptr<derived> shared = std::move(mine);
    std::thread([shared, w = pooled::weak_rc_ptr<derived>(shared)] { EXPECT_EQ(w.lock(), shared); }).join();
    mine = std::move(shared);  // sees all that the thread did
    EXPECT_EQ(mine.use_count(), 1);
}

TEST_F(a_change_of_counting, is_refused_while_there_is_another_owner) {
    auto p = pool.make_rc<derived>(log);
    auto const q = p;
    EXPECT_DEATH(pooled::local_rc_ptr<derived>{std::move(p)}, "only a sole owner can change");
    EXPECT_DEATH(pooled::local_rc_ptr<derived>() = std::move(p), "only a sole owner can change");
}

TEST_F(a_change_of_counting, is_refused_while_there_is_an_observer) {
    auto p = pool.make_local_rc<derived>(log);
    pooled::weak_local_rc_ptr<derived> const w = p;
    EXPECT_DEATH(pooled::rc_ptr<derived>{std::move(p)}, "only a sole owner can change");
}

TEST_F(a_change_of_counting, is_a_move_and_never_a_copy) {
    using shared = pooled::rc_ptr<derived>;
    using local = pooled::local_rc_ptr<derived>;
    static_assert(std::is_convertible_v<shared, local> && std::is_convertible_v<local, shared>);
    static_assert(!std::is_constructible_v<shared, local&> && !std::is_constructible_v<shared, local const&>);
    static_assert(!std::is_constructible_v<local, shared&> && !std::is_constructible_v<local, shared const>);
    static_assert(!std::is_assignable_v<shared&, local&> && std::is_assignable_v<shared&, local>);
    // Its check may be made to throw; where nothing is checked nothing can throw.
    static_assert(!std::is_nothrow_constructible_v<shared, local> &&
                  !std::is_nothrow_assignable_v<shared&, local>);
    static_assert(std::is_nothrow_assignable_v<shared&, shared const&> &&
                  std::is_nothrow_assignable_v<pooled::rc_ptr<base>&, shared> &&
                  std::is_nothrow_assignable_v<shared&, std::nullptr_t>);
    static_assert(!std::is_constructible_v<pooled::weak_rc_ptr<derived>, local>);
    static_assert(!std::is_constructible_v<pooled::weak_rc_ptr<derived>, pooled::weak_local_rc_ptr<derived>>);
}

TEST_F(a_change_of_counting, happens_at_no_cost_where_a_local_pool_makes_what_all_share) {
    // A local pool's objects may be dropped only where the pool could be used, whichever way they are counted.
    pooled::local_pool mine;
    pooled::rc_ptr<derived> const p = mine.make_rc<derived>(log);
    pooled::weak_rc_ptr<base> const w = p;
    EXPECT_EQ(w.lock(), p);
}

}  // namespace
