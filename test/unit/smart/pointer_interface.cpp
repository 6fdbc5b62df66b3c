// SPDX-License-Identifier: BSL-1.0
// The interface of the standard's pointers, promise by promise, for both kinds of counted pointers.

#include "pooled/pooled.hpp"

#include "support/handle_kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <compare>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#if defined(__clang__)  // it says that nothing is left to instantiate
#pragma clang diagnostic ignored "-Winstantiation-after-specialization"
#endif
template class pooled::allocator<void>;

namespace {

struct first {
    virtual ~first() = default;
};
struct second {
    virtual ~second() = default;
    int value = 2;
};
struct both : first, virtual second {
    explicit both(test::life_log& log) : life(log) {}
    test::counted<100> life;
};

template <class Kind>
class counted_pointers : public test::handles_test<Kind> {
protected:
    template <class T>
    using ptr = typename Kind::template ptr<T>;
    template <class T>
    using weak = typename Kind::template weak<T>;
    [[nodiscard]] ptr<both> make_both() { return this->template make<both>(this->log); }
};
TYPED_TEST_SUITE(counted_pointers, test::handle_kinds, test::handle_kind_names);

TYPED_TEST(counted_pointers, are_empty_when_a_weak_one_was_moved_to_one_of_a_base) {
    auto const owner = this->make_both();
    typename TestFixture::template weak<both> w = owner;
    typename TestFixture::template weak<second> of_base = std::move(w);
    EXPECT_EQ(w.use_count(), 0);
    EXPECT_TRUE(w.expired());
    EXPECT_EQ(of_base.lock(), owner);
    typename TestFixture::template weak<both> again = owner;
    typename TestFixture::template weak<first> assigned;
    assigned = std::move(again);
    EXPECT_TRUE(again.expired());
    EXPECT_EQ(assigned.lock(), owner);
    EXPECT_EQ(owner.use_count(), 1);
}

TYPED_TEST(counted_pointers, keep_the_block_when_a_weak_one_of_a_destroyed_object_is_converted) {
    auto owner = this->make_both();
    typename TestFixture::template weak<both> const w = owner;
    typename TestFixture::template weak<both> moved = owner;
    owner.reset();
    typename TestFixture::template weak<second> const copy = w;
    typename TestFixture::template weak<second> const taken = std::move(moved);
    EXPECT_TRUE(copy.expired() && taken.expired());
    EXPECT_EQ(copy.lock(), nullptr);
    EXPECT_FALSE(copy.owner_before(w) || w.owner_before(copy)) << "they still refer to one object";
    EXPECT_EQ(this->in_use(), 1U);
    EXPECT_EQ(moved.owner_hash(), (typename TestFixture::template weak<both>().owner_hash()));
}

TYPED_TEST(counted_pointers, are_ordered_and_hashed_by_their_object_owners_and_observers_alike) {
    auto const a = this->make_both();
    auto const b = this->make_both();
    typename TestFixture::template weak<second> const of_a = a;
    typename TestFixture::template ptr<first> const as_first = a;
    EXPECT_TRUE(a.owner_equal(of_a) && of_a.owner_equal(as_first));
    EXPECT_EQ(a.owner_hash(), of_a.owner_hash());
    EXPECT_FALSE(a.owner_equal(b));
    EXPECT_NE(a.owner_before(b), b.owner_before(a));
    EXPECT_FALSE(a.owner_before(of_a) || of_a.owner_before(a));
    EXPECT_TRUE((typename TestFixture::template weak<both>().owner_before(a)));
    EXPECT_EQ(std::hash<typename TestFixture::template ptr<both>>()(a), std::hash<both*>()(a.get()));
}

TYPED_TEST(counted_pointers, are_compared_as_plain_pointers_are) {
    auto const a = this->make_both();
    auto const b = this->make_both();
    static_assert(std::is_same_v<decltype(a <=> b), std::strong_ordering>);
    EXPECT_EQ(a <=> b, std::compare_three_way()(a.get(), b.get()));
    EXPECT_TRUE((a <=> nullptr) > 0 && a > nullptr && nullptr < a && a != nullptr);
    typename TestFixture::template ptr<second> const as_second = a;
    EXPECT_TRUE(as_second == a && !(as_second < a) && !(a < as_second));
    EXPECT_EQ(typename TestFixture::template ptr<both>(), nullptr);
}

TYPED_TEST(counted_pointers, pass_their_count_on_when_a_moved_one_is_cast) {
    auto a = this->make_both();
    auto const* const at = a.get();
    typename TestFixture::template ptr<first> f = pooled::static_pointer_cast<first>(std::move(a));
    EXPECT_EQ(a, nullptr);
    auto s = pooled::dynamic_pointer_cast<second>(std::move(f));
    EXPECT_EQ(f, nullptr);
    auto const constant = pooled::const_pointer_cast<second const>(std::move(s));
    EXPECT_EQ(s, nullptr);
    EXPECT_EQ(constant.use_count(), 1);
    auto back = pooled::dynamic_pointer_cast<both const>(constant);
    EXPECT_EQ(back.get(), at);
    auto bytes = pooled::reinterpret_pointer_cast<unsigned char const>(std::move(back));
    EXPECT_EQ(back, nullptr);
    EXPECT_EQ(static_cast<void const*>(bytes.get()), at);
    EXPECT_TRUE(bytes.owner_equal(constant));
    EXPECT_EQ(constant.use_count(), 2);
    auto failed = pooled::const_pointer_cast<second>(constant);
    EXPECT_EQ(pooled::dynamic_pointer_cast<std::bad_weak_ptr>(std::move(failed)), nullptr);
    EXPECT_NE(failed, nullptr) << "a cast that fails leaves its argument alone";
}

TYPED_TEST(counted_pointers, stay_as_they_are_when_moved_copied_or_swapped_with_themselves) {
    auto a = this->make_both();
    typename TestFixture::template weak<both> w = a;
    auto const* const at = a.get();
    auto& same = a;
    auto& same_weak = w;
    a = std::move(same);
    a = same;
    a.swap(same);
    swap(a, same);
    w = std::move(same_weak);
    w = same_weak;
    w.swap(same_weak);
    swap(w, same_weak);
    EXPECT_EQ(a.get(), at);
    EXPECT_EQ(a.use_count(), 1);
    EXPECT_EQ(w.lock(), a);
}

TYPED_TEST(counted_pointers, change_their_objects_when_swapped) {
    auto a = this->make_both();
    auto b = this->make_both();
    auto const* const of_a = a.get();
    auto const* const of_b = b.get();
    typename TestFixture::template weak<both> w = a;
    typename TestFixture::template weak<both> v = b;
    swap(a, b);
    std::swap(w, v);
    EXPECT_TRUE(a.get() == of_b && b.get() == of_a);
    EXPECT_TRUE(w.lock() == a && v.lock() == b);
}

static_assert(std::is_same_v<std::allocator_traits<pooled::allocator<void>>::rebind_alloc<int>,
                             pooled::allocator<int>>);

TEST(allocator_of_void, converts_and_compares_as_the_standards) {
    pooled::allocator<void> const none;
    pooled::allocator<int> of_int(none);
    EXPECT_TRUE(of_int == pooled::allocator<int>(none) && none == of_int);
    EXPECT_EQ(*std::allocate_shared<int>(pooled::allocator<int>(none), 3), 3);
}

}  // namespace
