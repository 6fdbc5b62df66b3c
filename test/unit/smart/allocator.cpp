// SPDX-License-Identifier: BSL-1.0
// Both allocators against the standard's requirements, and in every container of the standard library.

#include "pooled/allocator.hpp"

#include "pooled/pooled.hpp"

#include "support/pool_kinds.hpp"
#include "support/possible_alignment.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <scoped_allocator>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

template <class T>
using shared_alloc = pooled::pool_allocator<T, pooled::pool>;
template <class T>
using local_alloc = pooled::pool_allocator<T, pooled::local_pool>;

// For each family of allocators: how to get one, and of which pool it is.
struct of_default_pool {
    template <class T>
    using alloc = pooled::allocator<T>;
    template <class T>
    alloc<T> get() {
        return {};
    }
    pooled::pool& pool() { return pooled::default_pool(); }
};
struct of_pool {
    template <class T>
    using alloc = shared_alloc<T>;
    template <class T>
    alloc<T> get() {
        return m_pool;
    }
    pooled::pool& pool() { return m_pool; }
    pooled::pool m_pool;
};
struct of_local_pool {
    template <class T>
    using alloc = local_alloc<T>;
    template <class T>
    alloc<T> get() {
        return m_pool;
    }
    pooled::local_pool& pool() { return m_pool; }
    pooled::local_pool m_pool;
};

struct family_names {
    template <class F>
    static std::string GetName(int) {
        if constexpr (std::is_same_v<F, of_default_pool>) return "default_pool";
        return std::is_same_v<F, of_pool> ? "pool" : "local_pool";
    }
};

template <class Family>
class allocator_of : public testing::Test {
protected:
    Family family;
    std::uint64_t before = family.pool().stats().in_use;
    void expect_all_home() { EXPECT_EQ(family.pool().stats().in_use, before); }
};
using families = testing::Types<of_default_pool, of_pool, of_local_pool>;
TYPED_TEST_SUITE(allocator_of, families, family_names);

TYPED_TEST(allocator_of, is_rebound_to_any_type_and_void) {
    using alloc = typename TypeParam::template alloc<int>;
    using traits = std::allocator_traits<alloc>;
    static_assert(std::is_same_v<typename traits::value_type, int> &&
                  std::is_same_v<typename traits::pointer, int*>);
    static_assert(std::is_same_v<typename traits::template rebind_alloc<long>,
                                 typename TypeParam::template alloc<long>>);
    static_assert(std::is_same_v<typename traits::template rebind_alloc<void>,
                                 typename TypeParam::template alloc<void>>);
    auto const a = this->family.template get<int>();
    typename traits::template rebind_alloc<void> const as_void(a);
    alloc const back(as_void);
    EXPECT_TRUE(back == a);
}

template <class T>
struct derived_from_default : pooled::allocator<T> {};
template <class T>
struct derived_from_pool : pooled::pool_allocator<T> {
    using pooled::pool_allocator<T>::pool_allocator;
};

TEST(allocator, leaves_rebinding_to_a_class_that_derives_from_it) {
    static_assert(std::is_same_v<std::allocator_traits<derived_from_default<int>>::rebind_alloc<long>,
                                 derived_from_default<long>>);
    static_assert(std::is_same_v<std::allocator_traits<derived_from_pool<int>>::rebind_alloc<long>,
                                 derived_from_pool<long>>);
}

TYPED_TEST(allocator_of, copies_converts_and_compares_without_throwing) {
    using alloc = typename TypeParam::template alloc<int>;
    using other = typename TypeParam::template alloc<std::string>;
    static_assert(std::is_nothrow_copy_constructible_v<alloc> && std::is_nothrow_move_constructible_v<alloc>);
    static_assert(std::is_nothrow_copy_assignable_v<alloc> && std::is_nothrow_move_assignable_v<alloc>);
    static_assert(std::is_nothrow_constructible_v<alloc, other const&>);
    static_assert(noexcept(std::declval<alloc const&>() == std::declval<other const&>()));
    static_assert(noexcept(std::declval<alloc&>().deallocate(nullptr, 1)));
    alloc const a = this->family.template get<int>();
    alloc b = a;
    other const c(a);
    EXPECT_TRUE(a == b && b == c && c == a);
    EXPECT_FALSE(a != b || b != c);
    alloc const moved = std::move(b);
    EXPECT_TRUE(moved == a);
}

TYPED_TEST(allocator_of, tells_containers_how_to_propagate_it) {
    using traits = std::allocator_traits<typename TypeParam::template alloc<int>>;
    static_assert(!traits::propagate_on_container_copy_assignment::value);
    static_assert(traits::propagate_on_container_move_assignment::value);
    static_assert(traits::propagate_on_container_swap::value);
    static_assert(traits::is_always_equal::value == std::is_same_v<TypeParam, of_default_pool>);
    auto const a = this->family.template get<int>();
    EXPECT_TRUE(traits::select_on_container_copy_construction(a) == a);
}

TYPED_TEST(allocator_of, allocates_any_number_at_once) {
    auto a = this->family.template get<std::uint64_t>();
    for (std::size_t const n : {0UL, 1UL, 2UL, 3UL, 100UL, 4096UL, 4097UL, 100'000UL}) {
        std::uint64_t* const p = a.allocate(n);
        for (std::size_t i = 0; i < n; ++i)
            p[i] = i;
        EXPECT_TRUE(this->family.pool().owns(p));
        a.deallocate(p, n);
    }
    this->expect_all_home();
}

template <std::size_t Align>
struct alignas(Align) aligned_to {
    char c;
};

template <std::size_t Align, class Family>
void expect_aligned(Family& family) {
    auto a = family.template get<aligned_to<Align>>();
    for (std::size_t const n : {1UL, 2UL, 7UL}) {
        auto* const p = a.allocate(n);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % Align, 0U) << n;
        a.deallocate(p, n);
    }
}

TYPED_TEST(allocator_of, aligns_over_aligned_types) {
    expect_aligned<32>(this->family);
    expect_aligned<64>(this->family);
    expect_aligned<1024>(this->family);
    expect_aligned<4096>(this->family);
    expect_aligned<8192>(this->family);
    expect_aligned<test::possible_alignment(65536)>(this->family);
    this->expect_all_home();
}

TYPED_TEST(allocator_of, reports_a_number_that_overflows) {
    auto a = this->family.template get<std::uint64_t>();
    EXPECT_THROW(static_cast<void>(a.allocate(~std::size_t{0})), std::bad_array_new_length);
    EXPECT_THROW(static_cast<void>(a.allocate(~std::size_t{0} / 8 + 1)), std::bad_array_new_length);
    EXPECT_THROW(static_cast<void>(a.allocate(~std::size_t{0} / 8)), std::bad_alloc);
    auto bytes = this->family.template get<char>();
    EXPECT_THROW(static_cast<void>(bytes.allocate(~std::size_t{0})), std::bad_alloc);
    this->expect_all_home();
}

TYPED_TEST(allocator_of, serves_sequences) {
    {
        using string =
            std::basic_string<char, std::char_traits<char>, typename TypeParam::template alloc<char>>;
        auto const ints = this->family.template get<int>();
        std::vector<int, typename TypeParam::template alloc<int>> vector(ints);
        std::vector<bool, typename TypeParam::template alloc<bool>> bits(ints);
        std::deque<int, typename TypeParam::template alloc<int>> deque(ints);
        std::list<int, typename TypeParam::template alloc<int>> list(ints);
        std::forward_list<int, typename TypeParam::template alloc<int>> forward(ints);
        string text(ints);
        for (int i = 0; i < 10'000; ++i) {
            vector.push_back(i);
            bits.push_back(i % 3 == 0);
            deque.push_back(i);
            deque.push_front(i);
            list.push_back(i);
            forward.push_front(i);
            text.push_back(static_cast<char>('a' + i % 26));
        }
        EXPECT_EQ(vector[9999] + deque[19'999] + list.back() + forward.front(), 4 * 9999);
        EXPECT_TRUE(bits[9999]);
        EXPECT_EQ(text.size(), 10'000U);
        EXPECT_TRUE(this->family.pool().owns(&list.front()));
        list.sort(std::greater<>());
        vector.shrink_to_fit();
        deque.erase(deque.begin(), deque.begin() + 15'000);
        EXPECT_EQ(list.front(), 9999);
    }
    this->expect_all_home();
}

TYPED_TEST(allocator_of, serves_associative_containers) {
    {
        using pair = std::pair<int const, std::string>;
        auto const alloc = this->family.template get<pair>();
        std::map<int, std::string, std::less<>, typename TypeParam::template alloc<pair>> map(alloc);
        std::multimap<int, std::string, std::less<>, typename TypeParam::template alloc<pair>> multimap(
            alloc);
        std::set<int, std::less<>, typename TypeParam::template alloc<int>> set(alloc);
        std::unordered_map<int, std::string, std::hash<int>, std::equal_to<>,
                           typename TypeParam::template alloc<pair>>
            hash(alloc);
        std::unordered_set<int, std::hash<int>, std::equal_to<>, typename TypeParam::template alloc<int>>
            hash_set(alloc);
        for (int i = 0; i < 3000; ++i) {
            map.emplace(i, "map");
            multimap.emplace(i / 2, "multimap");
            set.insert(i);
            hash.emplace(i, "hash");
            hash_set.insert(i);
        }
        EXPECT_EQ(map.size() + multimap.size() + set.size() + hash.size() + hash_set.size(), 15'000U);
        auto node = map.extract(7);
        EXPECT_EQ(node.mapped(), "map");
        node.key() = 70'000;
        map.insert(std::move(node));
        hash.rehash(50'000);
        for (int i = 0; i < 3000; i += 2)
            hash.erase(i);
        EXPECT_EQ(hash.size(), 1500U);
        EXPECT_TRUE(map.contains(70'000));
    }
    this->expect_all_home();
}

TYPED_TEST(allocator_of, serves_allocate_shared_of_objects_arrays_and_void) {
    {
        auto const alloc = this->family.template get<int>();
        auto const one = std::allocate_shared<int>(alloc, 7);
        auto const many = std::allocate_shared<std::string[]>(alloc, 20, "text");
        auto const four = std::allocate_shared<int[4]>(alloc);
        auto const erased = std::allocate_shared<double>(this->family.template get<void>(), 1.5);
        std::shared_ptr<int> const adopted(new int(3), std::default_delete<int>(), alloc);
        EXPECT_EQ(*one + four[3] + *adopted, 10);
        EXPECT_EQ(many[19], "text");
        EXPECT_EQ(*erased, 1.5);
        EXPECT_TRUE(this->family.pool().owns(one.get()));
        EXPECT_TRUE(this->family.pool().owns(many.get()));
    }
    this->expect_all_home();
}

TYPED_TEST(allocator_of, serves_containers_in_containers) {
    {
        using string =
            std::basic_string<char, std::char_traits<char>, typename TypeParam::template alloc<char>>;
        using outer = std::scoped_allocator_adaptor<typename TypeParam::template alloc<string>>;
        std::vector<string, outer> strings(outer(this->family.template get<string>()));
        for (std::size_t i = 0; i < 100; ++i)
            strings.emplace_back(i * 10, 'x');
        EXPECT_TRUE(this->family.pool().owns(strings[99].data()));
        EXPECT_TRUE(strings[99].get_allocator() == this->family.template get<char>());
    }
    this->expect_all_home();
}

TEST(allocator, is_empty_and_always_equal) {
    static_assert(std::is_empty_v<pooled::allocator<int>> &&
                  std::is_default_constructible_v<pooled::allocator<int>>);
    static_assert(sizeof(std::vector<int, pooled::allocator<int>>) == sizeof(std::vector<int>));
    EXPECT_TRUE(pooled::allocator<int>() == pooled::allocator<long>());
}

TEST(allocator, costs_a_shared_ptr_no_room) {
    if (pooled::detail::standard_control_block::k_object_offset<char> > 24) GTEST_SKIP() << "it has a mutex";
    // libstdc++ and libc++ make it 16 bytes with a payload of 48: 64 in all.
    auto const before = pooled::default_pool().stats();
    struct payload {
        char bytes[48];
    };
    auto const p = pooled::make_shared<payload>();
    EXPECT_LE(pooled::default_pool().stats().bytes_in_use - before.bytes_in_use, 72U);
}

template <class Pool>
class pool_allocator_on : public testing::Test {
protected:
    template <class T>
    using alloc = pooled::pool_allocator<T, Pool>;
    using vector = std::vector<int, alloc<int>>;
    using list = std::list<int, alloc<int>>;
    Pool a;
    Pool b;
};
TYPED_TEST_SUITE(pool_allocator_on, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(pool_allocator_on, a_pool_is_one_pointer_and_equal_for_the_same_pool_only) {
    using ints = pooled::pool_allocator<int, TypeParam>;
    static_assert(sizeof(ints) == sizeof(void*));
    static_assert(!std::is_default_constructible_v<ints>);
    static_assert(std::is_convertible_v<TypeParam&, ints>);
    static_assert(!std::is_constructible_v<local_alloc<int>, shared_alloc<int>> &&
                  !std::is_constructible_v<shared_alloc<int>, local_alloc<int>>);
    EXPECT_TRUE(ints(this->a) == ints(this->a));
    EXPECT_TRUE(ints(this->a) != ints(this->b));
    EXPECT_TRUE((ints(this->a) == pooled::pool_allocator<long, TypeParam>(this->a)));
    EXPECT_TRUE((ints(this->a) != pooled::pool_allocator<long, TypeParam>(this->b)));
}

TYPED_TEST(pool_allocator_on, a_pool_is_given_to_a_container_by_naming_the_pool) {
    std::map<int, int, std::less<>, pooled::pool_allocator<std::pair<int const, int>, TypeParam>> map{
        this->a};
    map[1] = 2;
    EXPECT_TRUE(this->a.owns(&map[1]));
}

TYPED_TEST(pool_allocator_on, a_pool_stays_with_a_copy) {
    typename TestFixture::vector const from({1, 2, 3}, this->a);
    auto const copy = from;
    EXPECT_TRUE(copy.get_allocator() == from.get_allocator());
    typename TestFixture::vector const elsewhere(from, this->b);
    EXPECT_TRUE(this->b.owns(elsewhere.data()));
    EXPECT_EQ(elsewhere, from);
}

TYPED_TEST(pool_allocator_on, a_pool_is_kept_in_a_copy_assignment) {
    typename TestFixture::vector const from({1, 2, 3}, this->a);
    typename TestFixture::vector into({9}, this->b);
    into = from;
    EXPECT_EQ(into, from);
    EXPECT_TRUE(this->b.owns(into.data()));
    EXPECT_EQ(this->a.stats().in_use, 1U);
}

TYPED_TEST(pool_allocator_on, a_pool_moves_along_with_the_elements) {
    typename TestFixture::list from({1, 2, 3}, this->a);
    int const* const first = &from.front();
    typename TestFixture::list into({9, 9}, this->b);
    into = std::move(from);
    EXPECT_EQ(&into.front(), first) << "no element may be copied";
    EXPECT_TRUE((into.get_allocator() == pooled::pool_allocator<int, TypeParam>(this->a)));
    into.push_back(4);
    EXPECT_TRUE(this->a.owns(&into.back()));
    EXPECT_LE(this->b.stats().in_use, 1U);
}

TYPED_TEST(pool_allocator_on, a_pool_is_swapped_along_with_the_elements) {
    typename TestFixture::list x({1, 2, 3}, this->a);
    typename TestFixture::list y({4}, this->b);
    using std::swap;
    swap(x, y);
    EXPECT_EQ(x.front(), 4);
    x.push_back(5);
    y.push_back(6);
    EXPECT_TRUE(this->b.owns(&x.back()));
    EXPECT_TRUE(this->a.owns(&y.back()));
}

TYPED_TEST(pool_allocator_on, a_pool_moves_element_by_element_into_another_pool) {
    typename TestFixture::list from({1, 2, 3}, this->a);
    typename TestFixture::list const into(std::move(from), pooled::pool_allocator<int, TypeParam>(this->b));
    EXPECT_EQ(into.size(), 3U);
    EXPECT_TRUE(this->b.owns(&into.front()));
}

// An allocator is compared with one that was rebound: [allocator.requirements].
static_assert([] {
    using pooled::detail::shared_block_of;
    shared_block_of<char, pooled::detail::from_default> const a;
    return a == shared_block_of<int, pooled::detail::from_default>(a);
}());

}  // namespace
