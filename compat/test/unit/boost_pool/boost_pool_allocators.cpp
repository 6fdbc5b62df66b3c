// SPDX-License-Identifier: BSL-1.0

// pool_allocator and fast_pool_allocator, beside those of Boost.

#include "pooled/compat/boost_pool.hpp"

#include "compat/test/unit/boost_pool/boost_pool_sides.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

template class pooled::compat::pool_allocator<int>;
template class pooled::compat::fast_pool_allocator<int>;

namespace {

template <class Side>
class boost_pool_allocators : public testing::Test {};
TYPED_TEST_SUITE(boost_pool_allocators, test::pool_sides, test::pool_side_names);

TYPED_TEST(boost_pool_allocators, publish_the_types_and_constants_of_boost) {
    using allocator = typename TypeParam::template fast_pool_allocator<int>;
    static_assert(std::is_same_v<typename allocator::value_type, int>);
    static_assert(std::is_same_v<typename allocator::pointer, int*>);
    static_assert(std::is_same_v<typename allocator::const_pointer, int const*>);
    static_assert(std::is_same_v<typename allocator::reference, int&>);
    static_assert(std::is_same_v<typename allocator::const_reference, int const&>);
    static_assert(std::is_same_v<typename allocator::size_type, std::size_t>);
    static_assert(std::is_same_v<typename allocator::difference_type, std::ptrdiff_t>);
    static_assert(std::is_same_v<typename allocator::user_allocator,
                                 typename TypeParam::default_user_allocator_new_delete>);
    static_assert(std::is_same_v<typename allocator::mutex, typename TypeParam::default_mutex>);
    static_assert(allocator::next_size == 32);
    static_assert(std::is_same_v<typename allocator::template rebind<long>::other,
                                 typename TypeParam::template fast_pool_allocator<long>>);
    using of_void = typename TypeParam::template pool_allocator<void>;
    static_assert(std::is_same_v<typename of_void::pointer, void*>);
    static_assert(std::is_same_v<typename of_void::template rebind<int>::other,
                                 typename TypeParam::template pool_allocator<int>>);
    static_assert(std::is_empty_v<allocator>);
}

// As a program may do with Boost's.
template <class T>
class befriends {
    friend class pooled::compat::pool_allocator<T>;
    friend class pooled::compat::fast_pool_allocator<T>;
};

TEST(boost_pool_allocators_of_ours, are_class_templates) {
    static_assert(std::is_empty_v<befriends<int>>);
    EXPECT_TRUE(pooled::compat::fast_pool_allocator<int>() == pooled::compat::fast_pool_allocator<long>());
}

TYPED_TEST(boost_pool_allocators, serve_every_container) {
    auto const fill = [](auto allocator) {
        using of_int = decltype(allocator);
        using of_pair =
            typename std::allocator_traits<of_int>::template rebind_alloc<std::pair<int const, int>>;
        std::list<int, of_int> list;
        std::vector<int, of_int> vector;
        std::deque<int, of_int> deque;
        std::set<int, std::less<>, of_int> set;
        std::map<int, int, std::less<>, of_pair> map;
        std::unordered_map<int, int, std::hash<int>, std::equal_to<>, of_pair> table;
        for (int i = 0; i < 5000; ++i) {
            list.push_back(i);
            vector.push_back(i);
            deque.push_back(i);
            set.insert(i);
            map[i] = i;
            table[i] = i;
        }
        EXPECT_EQ(list.back(), 4999);
        EXPECT_EQ(vector[4321], 4321);
        EXPECT_EQ(deque[1234], 1234);
        EXPECT_EQ(set.count(77), 1U);
        EXPECT_EQ(map.at(99), 99);
        EXPECT_EQ(table.at(4000), 4000);
        auto moved = std::move(list);
        std::swap(moved, list);
        auto copy = vector;
        EXPECT_EQ(copy, vector);
    };
    fill(typename TypeParam::template pool_allocator<int>());
    fill(typename TypeParam::template fast_pool_allocator<int>());
}

TYPED_TEST(boost_pool_allocators, serve_strings_and_allocate_shared) {
    using of_char = typename TypeParam::template pool_allocator<char>;
    std::basic_string<char, std::char_traits<char>, of_char> text(1000, 'x');
    text += "y";
    EXPECT_EQ(text.size(), 1001U);
    auto const number =
        std::allocate_shared<int>(typename TypeParam::template fast_pool_allocator<void>(), 5);
    EXPECT_EQ(*number, 5);
    auto const other = std::allocate_shared<long>(typename TypeParam::template pool_allocator<int>(), 6);
    EXPECT_EQ(*other, 6);
}

TYPED_TEST(boost_pool_allocators, are_always_equal) {
    typename TypeParam::template fast_pool_allocator<int> const a;
    typename TypeParam::template fast_pool_allocator<int> const b(
        typename TypeParam::template fast_pool_allocator<std::string>{});
    EXPECT_TRUE(a == b);
    EXPECT_FALSE(a != b);
    using traits = std::allocator_traits<typename TypeParam::template pool_allocator<int>>;
    static_assert(traits::is_always_equal::value);
}

TYPED_TEST(boost_pool_allocators, give_objects_side_by_side) {
    using allocator = typename TypeParam::template pool_allocator<long>;
    for (std::size_t n : {2U, 31U, 32U, 33U, 1000U}) {
        long* const p = allocator::allocate(n);
        for (std::size_t i = 0; i < n; ++i)
            p[i] = static_cast<long>(i);
        EXPECT_EQ(p[n - 1], static_cast<long>(n - 1));
        allocator::deallocate(p, n);
    }
}

TYPED_TEST(boost_pool_allocators, can_be_a_member_of_the_type_they_are_for) {
    struct tree {
        std::list<tree, typename TypeParam::template fast_pool_allocator<tree>> children;
    };
    tree root;
    root.children.emplace_back();
    root.children.front().children.emplace_back();
    EXPECT_EQ(root.children.front().children.size(), 1U);
}

TYPED_TEST(boost_pool_allocators, have_the_functions_of_boosts) {
    using allocator = typename TypeParam::template fast_pool_allocator<std::string>;
    allocator a;
    std::string* const one = allocator::allocate();
    a.construct(one, 3U, 'z');
    EXPECT_EQ(*allocator::address(*one), "zzz");
    a.destroy(one);
    allocator::deallocate(one);
    std::string* const hinted = allocator::allocate(2, one);
    allocator::deallocate(hinted, 2);
    EXPECT_EQ(allocator::max_size(), std::numeric_limits<std::size_t>::max());
}

TYPED_TEST(boost_pool_allocators, share_the_singleton_pool_of_their_tag_and_size) {
    struct tag_of_size {
        char bytes[72];
    };
    using fast = typename TypeParam::template fast_pool_allocator<tag_of_size>;
    using plain = typename TypeParam::template pool_allocator<tag_of_size>;
    using fast_pool =
        typename TypeParam::template singleton_pool<typename TypeParam::fast_pool_allocator_tag, 72>;
    using plain_pool =
        typename TypeParam::template singleton_pool<typename TypeParam::pool_allocator_tag, 72>;
    auto* const p = fast::allocate(1);
    auto* const q = plain::allocate(1);
    EXPECT_TRUE(fast_pool::is_from(p));
    EXPECT_FALSE(fast_pool::is_from(q));
    EXPECT_TRUE(plain_pool::is_from(q));
    EXPECT_FALSE(plain_pool::is_from(p));
    fast::deallocate(p, 1);
    plain::deallocate(q, 1);
    EXPECT_TRUE(fast_pool::release_memory());
    EXPECT_TRUE(plain_pool::purge_memory());
}

TYPED_TEST(boost_pool_allocators, throw_bad_alloc_when_the_user_allocator_has_no_more) {
    if (test::k_checks_nothing<TypeParam>) GTEST_SKIP() << "Boost before 1.81";
    struct tag;
    using user = test::booked_user_allocator<tag>;
    using allocator = typename TypeParam::template pool_allocator<long, user>;
    user::open().most_bytes = 0;
    EXPECT_THROW(static_cast<void>(allocator::allocate(1)), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(allocator::allocate(1000)), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(allocator::allocate(std::numeric_limits<std::size_t>::max() / 2)),
                 std::bad_alloc);
    user::open().most_bytes = std::numeric_limits<std::size_t>::max();
    long* const p = allocator::allocate(1);
    allocator::deallocate(p, 1);
    EXPECT_TRUE((TypeParam::template singleton_pool<typename TypeParam::pool_allocator_tag, sizeof(long),
                                                    user>::release_memory()));
    EXPECT_EQ(user::open().out.size(), 0U);
    EXPECT_EQ(user::open().errors, 0U);
}

TYPED_TEST(boost_pool_allocators, take_every_template_argument_of_boosts) {
    using allocator = typename TypeParam::template fast_pool_allocator<
        int, typename TypeParam::default_user_allocator_malloc_free, typename TypeParam::null_mutex, 100,
        1000>;
    std::list<int, allocator> list(3000, 7);
    EXPECT_EQ(list.size(), 3000U);
    static_assert(allocator::next_size == 100);
    using plain = typename TypeParam::template pool_allocator<
        int, typename TypeParam::default_user_allocator_malloc_free, std::mutex, 100, 1000>;
    std::vector<int, plain> vector(3000, 7);
    EXPECT_EQ(vector.size(), 3000U);
}

// Ours alone.

TEST(our_boost_pool_allocators, serve_over_aligned_types) {
    struct alignas(64) line {
        char bytes[64];
    };
    struct alignas(2048) wide {
        char bytes[2048];
    };
    struct alignas(128) between_classes {  // whose own size class is aligned to 64 alone
        char bytes[4480];
    };
    struct alignas(128) long_and_wide {
        char bytes[40'064];
    };
    auto const check = []<class T>(std::list<T, pooled::compat::fast_pool_allocator<T>> list) {
        for (int i = 0; i < 20; ++i)
            list.emplace_back();
        std::vector<T, pooled::compat::pool_allocator<T>> vector(5);
        std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(vector.data());
        for (T const& object : list)
            bits |= reinterpret_cast<std::uintptr_t>(&object);
        EXPECT_EQ(bits % alignof(T), 0U);
    };
    check.operator()<line>({});
    check.operator()<wide>({});
    check.operator()<between_classes>({});
    check.operator()<long_and_wide>({});
}

TEST(our_boost_pool_allocators, give_a_block_for_none) {
    using allocator = pooled::compat::pool_allocator<int>;
    int* const p = allocator::allocate(0);
    int* const q = allocator::allocate(0);
    EXPECT_NE(p, q);
    allocator::deallocate(p, 0);
    allocator::deallocate(q, 0);
}

TEST(our_boost_pool_allocators, refuse_what_no_address_space_holds) {
    using allocator = pooled::compat::pool_allocator<long>;
    EXPECT_THROW(static_cast<void>(allocator::allocate(allocator::max_size() / sizeof(long) + 1)),
                 std::bad_array_new_length);
    EXPECT_THROW(static_cast<void>(allocator::allocate(static_cast<std::size_t>(-1))),
                 std::bad_array_new_length);
    EXPECT_THROW(static_cast<void>(allocator::allocate(allocator::max_size())), std::bad_alloc);
}

// One random program for Boost's pool and for ours, beside a model of the chunks in use. Where a chunk lies is each pool's choice; that
// it is free and of this pool, and when the user's allocator is asked for more, is not.

constexpr std::size_t k_step = sizeof(void*);  // chunks begin at its multiples

template <class Side>
class boost_pool_rows : public testing::Test {
protected:
    using user = test::booked_user_allocator<boost_pool_rows>;
    using pool_type = typename Side::template pool<user>;
    struct row {
        char* begin;
        std::size_t n;  // as it was asked for
        char mark;
    };

    boost_pool_rows() { user::open() = {}; }

    void start(std::size_t requested, std::size_t next_size, std::size_t max_size) {
        m_requested = requested;
        m_chunk = (std::max(requested, k_step) + k_step - 1) / k_step * k_step;
        m_pool = std::make_unique<pool_type>(requested, next_size, max_size);
    }
    [[nodiscard]] std::size_t chunks_of(std::size_t n) const {
        return (n * m_requested + m_chunk - 1) / m_chunk;
    }

    // The user's blocks that the model does not know become chunks that are free. Whether there are any.
    bool learn() {
        bool is_new = false;
        for (auto const& [raw, bytes] : user::open().out) {
            if (m_in_use.count(raw) != 0) continue;
            is_new = true;
            char* first = raw;
            while (!m_pool->is_from(first))
                first += k_step;
            char* last = first;
            while (last < raw + bytes && m_pool->is_from(last))
                last += m_chunk;
            m_first[raw] = first;
            m_in_use[raw].resize(static_cast<std::size_t>(last - first) / m_chunk);
        }
        return is_new;
    }
    [[nodiscard]] bool has_row(std::size_t chunks) const {
        return std::ranges::any_of(m_in_use, [&](auto const& block) {
            std::size_t found = 0;
            return std::ranges::any_of(block.second,
                                       [&](bool used) { return (found = used ? 0 : found + 1) == chunks; });
        });
    }
    void use(char* p, std::size_t chunks, bool is_use) {
        auto const block = std::prev(m_first.upper_bound(p));
        std::vector<bool>& in_use = m_in_use[block->first];
        auto const offset = static_cast<std::size_t>(p - block->second);
        ASSERT_EQ(offset % m_chunk, 0U);
        ASSERT_LE(offset / m_chunk + chunks, in_use.size()) << "the row leaves its block";
        for (std::size_t i = 0; i != chunks; ++i) {
            ASSERT_NE(in_use[offset / m_chunk + i], is_use) << "the chunk was in use";
            in_use[offset / m_chunk + i] = is_use;
        }
    }

    void take(std::size_t n, char mark) {
        std::size_t const chunks = chunks_of(n);
        bool const was_there = has_row(chunks);
        bool const is_plain = n == 1 && is_ours() && mark % 2 == 0;
        auto* const p = static_cast<char*>(is_plain ? m_pool->malloc()
                                           : n == 1 ? m_pool->ordered_malloc()
                                                    : m_pool->ordered_malloc(n));
        ASSERT_NE(p, nullptr);
        ASSERT_NE(learn(), was_there) << "asked for memory although there was a row, or not";
        use(p, chunks, true);
        std::memset(p, mark, n * m_requested);
        m_rows.push_back({p, n, mark});
    }
    void put(std::size_t which) {
        row const r = m_rows[which];
        m_rows[which] = m_rows.back();
        m_rows.pop_back();
        ASSERT_EQ(std::count(r.begin, r.begin + r.n * m_requested, r.mark),
                  static_cast<std::ptrdiff_t>(r.n * m_requested));
        use(r.begin, chunks_of(r.n), false);
        if (r.n == 1)
            is_ours() && r.mark % 3 == 0 ? m_pool->free(r.begin) : m_pool->ordered_free(r.begin);
        else if (r.mark % 3 != 0 || chunks_of(r.n) * m_chunk != r.n * m_requested)
            m_pool->ordered_free(r.begin, r.n);
        else  // one by one
            for (std::size_t i = chunks_of(r.n); i-- != 0;)
                m_pool->ordered_free(r.begin + i * m_chunk);
    }
    void release() {
        std::size_t const before = m_in_use.size();
        std::erase_if(m_in_use,
                      [](auto const& block) { return std::ranges::count(block.second, true) == 0; });
        std::erase_if(m_first, [&](auto const& block) { return m_in_use.count(block.first) == 0; });
        EXPECT_EQ(m_pool->release_memory(), m_in_use.size() != before);
        ASSERT_EQ(user::open().out.size(), m_in_use.size());
        for (auto const& block : m_in_use)
            ASSERT_EQ(user::open().out.count(block.first), 1U);
    }

    [[nodiscard]] static constexpr bool is_ours() { return std::is_same_v<Side, test::ours>; }

    std::size_t m_requested = 0;
    std::size_t m_chunk = 0;
    std::unique_ptr<pool_type> m_pool;
    std::map<char*, std::vector<bool>> m_in_use;  // for each block of the user's allocator
    std::map<char*, char*> m_first;               // its first chunk
    std::vector<row> m_rows;
};
TYPED_TEST_SUITE(boost_pool_rows, test::pool_sides, test::pool_side_names);

TYPED_TEST(boost_pool_rows, consist_of_free_chunks_and_cost_memory_only_where_there_is_no_row) {
    int const steps = test::k_sanitized ? 1'500 : 6'000;
    for (unsigned const seed : {1U, 2U, 3U})
        for (std::size_t const requested : {4U, 8U, 24U, 40U, 56U}) {
            std::mt19937 random(seed * 100 + static_cast<unsigned>(requested));
            auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
            std::size_t const next_size = 1 + below(100);
            this->start(requested, next_size, seed == 1 ? 0 : next_size + below(200));
            std::size_t wanted = 100;  // rows in use
            for (int step = 0; step != steps; ++step) {
                if (step % 300 == 0) wanted = below(300);
                if (step % 500 == 499) this->release();
                if (below(2 * wanted + 1) >= this->m_rows.size()) {
                    std::size_t const n = below(3) == 0 ? 1 : below(40) == 0 ? 1 + below(400) : 1 + below(30);
                    this->take(n, static_cast<char>(step % 120));
                } else {
                    this->put(below(this->m_rows.size()));
                }
                ASSERT_FALSE(this->HasFatalFailure()) << "seed " << seed << ", step " << step;
            }
            while (!this->m_rows.empty())
                this->put(below(this->m_rows.size()));
            this->release();
            ASSERT_FALSE(this->HasFailure());
            ASSERT_TRUE(this->m_in_use.empty());
        }
}

}  // namespace
