// SPDX-License-Identifier: BSL-1.0
// Objects without a destructor go back to their pool without a call by pointer when their handle says what they are; where
// it says less than the truth, or the object is of another pool, the header decides.

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace {

struct plain_base {
    std::uint64_t words[2] = {1, 2};
};
struct plain_middle {
    std::uint64_t word = 3;
};
struct plain_large : plain_base, plain_middle {
    std::array<std::byte, 500> more{};
};
struct plain_abstract {
    virtual int value() const = 0;
    int number = 4;
};
// NOLINTNEXTLINE: its implicit destructor is not virtual, and trivial
struct plain_concrete : plain_abstract {
    int value() const override { return number; }
    std::array<int, 30> more{};
};
struct plain_with_self : pooled::enable_rc_from_this<plain_with_self> {
    int value = 5;
};
static_assert(std::is_trivially_destructible_v<plain_large> && std::is_trivially_destructible_v<plain_concrete>);

// What its callers hold of the default pool, class by class: a block that goes to another class shows.
std::array<std::uint64_t, pooled::detail::k_class_count> held() {
    std::array<std::uint64_t, pooled::detail::k_class_count> blocks{};
    auto const stats = pooled::default_pool().stats();
    for (std::size_t c = 0; c < blocks.size(); ++c)
        blocks[c] = stats.classes[c].in_use;
    return blocks;
}

class a_plain_object : public testing::Test {
protected:
    void TearDown() override { EXPECT_EQ(held(), m_before); }

private:
    std::array<std::uint64_t, pooled::detail::k_class_count> m_before = held();
};

TEST_F(a_plain_object, goes_by_a_handle_to_it) {
    auto const p = pooled::make_rc<plain_large>();
    auto const l = pooled::make_local_rc<plain_large>();
    pooled::rc_ptr<plain_large const> const c = pooled::make_rc<plain_large const>();
    auto const u = pooled::make_unique<plain_large const>();
    EXPECT_EQ(p->word + l->word + c->word + u->word, 12U);
}

TEST_F(a_plain_object, goes_whole_by_a_handle_to_a_base) {
    pooled::rc_ptr<plain_base> const front = pooled::make_rc<plain_large>();
    pooled::rc_ptr<plain_middle> const middle = pooled::make_rc<plain_large>();
    pooled::local_rc_ptr<plain_middle> const local = pooled::make_local_rc<plain_large>();
    pooled::rc_ptr<plain_abstract> const abstract = pooled::make_rc<plain_concrete>();
    pooled::rc_ptr<void> const nothing = pooled::make_rc<plain_large>();
    static_cast<void>(pooled::make_rc<plain_base>());  // the handle's own type has a tag, too
    EXPECT_EQ(front->words[1] + middle->word + local->word, 8U);
    EXPECT_EQ(abstract->value(), 4);
    EXPECT_TRUE(nothing);
}

TEST_F(a_plain_object, goes_by_the_last_of_several_handles) {
    auto p = pooled::make_rc<plain_base>();
    auto const q = p;
    pooled::weak_rc_ptr<plain_base> w = p;
    p.reset();
    EXPECT_EQ(w.lock(), q);
}

TEST_F(a_plain_object, stays_while_it_is_observed) {
    auto p = pooled::make_rc<plain_base>();
    pooled::weak_rc_ptr<plain_base> const w = p;
    auto const before = held();
    p.reset();
    EXPECT_TRUE(w.expired());
    EXPECT_EQ(held(), before);
}

TEST_F(a_plain_object, may_ask_for_itself) {
    auto p = pooled::make_rc<plain_with_self>();
    auto q = p->rc_from_this();
    p.reset();
    EXPECT_EQ(q->value, 5);
    pooled::weak_rc_ptr<plain_with_self> const w = q->weak_rc_from_this();
    q.reset();
    EXPECT_TRUE(w.expired());
}

TEST_F(a_plain_object, of_a_pool_goes_back_to_it) {
    static_cast<void>(pooled::make_rc<plain_base>());
    static_cast<void>(pooled::make_unique<plain_base>());
    pooled::pool pool;
    pooled::local_pool local;
    {
        auto const p = pool.make_rc<plain_base>();
        auto const u = pool.make_unique<plain_base>();
        auto const l = local.make_rc<plain_base>();
        EXPECT_EQ(pool.stats().in_use + local.stats().in_use, 3U);
    }
    EXPECT_EQ(pool.stats().in_use + local.stats().in_use, 0U);
}

TEST_F(a_plain_object, of_an_object_pool_is_recycled) {
    static_cast<void>(pooled::make_rc<plain_base>());
    static_cast<void>(pooled::make_unique<plain_base>());
    pooled::object_pool<plain_base> pool;
    plain_base const* first = nullptr;
    {
        auto const p = pool.acquire_rc();
        first = p.get();
    }
    EXPECT_EQ(pool.idle(), pool.capacity());
    auto u = pool.acquire_unique();
    EXPECT_EQ(u.get(), first);
    u.reset();
    EXPECT_EQ(pool.in_use(), 0U);
}

// As with std::shared_ptr, who only lets go of a pointer needs no destructor that compiles: this one's does not here.
struct defined_elsewhere;
struct with_hidden_part {
    std::unique_ptr<defined_elsewhere> part;
};

TEST(a_counted_pointer, lets_go_where_the_destructor_does_not_compile) {
    pooled::rc_ptr<with_hidden_part> p;
    p.reset();
    EXPECT_FALSE(p);
}

}  // namespace
