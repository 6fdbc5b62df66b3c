// SPDX-License-Identifier: BSL-1.0
// Objects without a destructor, of the default pool, store their size class instead of a type: dropping them makes no
// indirect call, whatever the handle knows of them. For all others, the type decides.

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
struct plain_shape {
    virtual int area() const { return 0; }
};
struct plain_square final : plain_shape {
    int area() const override { return 9; }
};
struct alignas(64) plain_wide {
    int value = 6;
};
struct plain_huge {
    std::array<std::byte, 300'000> more{};
};
struct plain_with_self : pooled::enable_rc_from_this<plain_with_self> {
    int value = 5;
};
static_assert(std::is_trivially_destructible_v<plain_large> &&
              std::is_trivially_destructible_v<plain_concrete>);

// The blocks of the default pool in use, by class: a block that returns to the wrong class is detected.
std::array<std::uint64_t, pooled::detail::k_class_count> held() {
    std::array<std::uint64_t, pooled::detail::k_class_count> blocks{};
    auto const stats = pooled::default_pool().stats();
    for (std::size_t c = 0; c < blocks.size(); ++c)
        blocks[c] = stats.classes[c].in_use;
    return blocks;
}

class a_plain_object : public testing::Test {
protected:
    void TearDown() override {
        EXPECT_EQ(held(), m_before);
        EXPECT_EQ(pooled::default_pool().stats().in_use, m_in_use);
    }

private:
    std::uint64_t m_in_use = pooled::default_pool().stats().in_use;
    std::array<std::uint64_t, pooled::detail::k_class_count> m_before = held();
};

std::uint64_t word_of(void const* object) {
    return (static_cast<pooled::detail::count_header const*>(object) - 1)->word.load();
}

TEST_F(a_plain_object, has_its_size_class) {
    using namespace pooled::detail;
    constexpr class_index c = class_for(sizeof(plain_large) + sizeof(count_header), alignof(count_header));
    auto const p = pooled::make_rc<plain_large>();
    auto const u = pooled::make_unique<plain_large>();
    EXPECT_EQ(word_of(p.get()), c | count_header::k_sole);
    EXPECT_EQ(word_of(u.get()), c | count_header::k_unique);
    EXPECT_TRUE(is_plain(c));
    EXPECT_EQ(plain_class(word_of(p.get())), c);
}

TEST_F(a_plain_object, has_a_type_where_there_is_more_to_know) {
    static_cast<void>(pooled::make_rc<plain_base>());
    pooled::pool pool;
    pooled::object_pool<plain_base> objects;
    auto const of_a_pool = pool.make_rc<plain_base>();
    auto const recycled = objects.acquire_rc();
    auto const with_self = pooled::make_rc<plain_with_self>();
    auto const wide = pooled::make_rc<plain_wide>();
    auto const huge = pooled::make_rc<plain_huge>();
    for (void const* p : {static_cast<void const*>(of_a_pool.get()), static_cast<void const*>(recycled.get()),
                          static_cast<void const*>(with_self.get()), static_cast<void const*>(wide.get()),
                          static_cast<void const*>(huge.get())})
        EXPECT_FALSE(pooled::detail::is_plain(word_of(p)));
}

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
    pooled::rc_ptr<plain_shape> const shape = pooled::make_rc<plain_square>();
    pooled::rc_ptr<void> const nothing = pooled::make_rc<plain_large>();
    EXPECT_EQ(front->words[1] + middle->word + local->word, 8U);
    EXPECT_EQ(abstract->value() + shape->area(), 13);
    EXPECT_TRUE(nothing);
}

// Objects of four classes, held by handles to one base.
struct plain_message {
    int kind = 0;
};
template <std::size_t Bytes>
struct plain_message_of : plain_message {
    std::array<std::byte, Bytes> more{};
};

TEST_F(a_plain_object, goes_to_its_own_class_whatever_handles_of_that_type_dropped_before) {
    using handle = pooled::rc_ptr<plain_message>;
    std::array<handle (*)(), 4> const makers = {
        [] { return handle(pooled::make_rc<plain_message>()); },
        [] { return handle(pooled::make_rc<plain_message_of<40>>()); },
        [] { return handle(pooled::make_rc<plain_message_of<100>>()); },
        [] { return handle(pooled::make_rc<plain_message_of<600>>()); }};
    auto const before = held();
    std::uint32_t random = 1;
    for (int i = 0; i < 1'000; ++i) {
        random = random * 1'664'525 + 1'013'904'223;
        handle p = makers[random >> 30]();
        handle const q = makers[random >> 28 & 3]();
        p.reset();
        p = q;
    }
    EXPECT_EQ(held(), before);
}

TEST_F(a_plain_object, is_expected_to_be_of_the_class_of_those_before_until_there_is_another) {
    struct part {
        std::uint64_t words[3] = {};
    };
    struct whole : part {
        std::uint64_t more[9] = {};
    };
    using namespace pooled::detail;
    if constexpr (!k_has_cache) GTEST_SKIP() << "this build looks at each drop";
    auto const usual = [] { return g_usual_class<part>.load(); };
    EXPECT_EQ(usual(), 0U);
    for (int i = 0; i < 2; ++i) {
        static_cast<void>(pooled::make_rc<part>());
        EXPECT_EQ(usual(), class_for(sizeof(part) + sizeof(count_header), alignof(count_header)));
    }
    static_cast<void>(pooled::make_rc<part const>());
    static_cast<void>(pooled::make_local_rc<part>());
    EXPECT_LT(usual(), k_second_class);
    for (int i = 0; i < 2; ++i) {
        static_cast<void>(pooled::rc_ptr<part>(pooled::make_rc<whole>()));
        EXPECT_GE(usual(), k_second_class);
        static_cast<void>(pooled::make_rc<part>());
        EXPECT_GE(usual(), k_second_class);
    }
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

// As with std::shared_ptr, code that only drops a pointer need not know the class, nor how it is destroyed: none of these
// could be instantiated here.
struct defined_elsewhere;
struct with_hidden_part {
    std::unique_ptr<defined_elsewhere> part;
};
template <class T>
struct with_value {
    T value;
};
template <class T>
struct with_lazy_destructor {
    T* part;
    ~with_lazy_destructor() noexcept(noexcept(part->~T()));
};

// Names are qualified or members: an unqualified call would search the class, and so instantiate it.
template <class Pointer>
struct user {
    Pointer pointer;
    static bool lets_go() {
        user const a;
        user b = a;
        b.pointer.reset();
        return b.pointer.use_count() == 0;
    }
};

TEST(a_counted_pointer, lets_go_where_the_destructor_does_not_compile) {
    EXPECT_TRUE(user<pooled::rc_ptr<with_hidden_part>>::lets_go());
    EXPECT_TRUE(user<pooled::rc_ptr<with_value<defined_elsewhere>>>::lets_go());
    EXPECT_TRUE(user<pooled::local_rc_ptr<with_lazy_destructor<defined_elsewhere>>>::lets_go());
}

}  // namespace
