// SPDX-License-Identifier: BSL-1.0
// simple_segregated_storage, beside Boost's.

#include "pooled/compat/boost_pool.hpp"

#include "unit/compat/boost_pool_sides.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

namespace {

constexpr std::size_t k_chunk = 16;
constexpr std::size_t k_chunks = 8;

template <class Side>
class boost_storage : public testing::Test {
protected:
    using storage = typename Side::template simple_segregated_storage<std::size_t>;

    [[nodiscard]] void* chunk(std::size_t i) { return m_block.data() + i * k_chunk; }
    // The indices of all that the storage gives.
    [[nodiscard]] std::vector<std::size_t> drained(storage& from) {
        std::vector<std::size_t> given;
        while (!from.empty())
            given.push_back(
                static_cast<std::size_t>(static_cast<std::byte*>((from.malloc)()) - m_block.data()) /
                k_chunk);
        return given;
    }
    using order = std::vector<std::size_t>;

    alignas(void*) std::array<std::byte, k_chunk * k_chunks> m_block;
};
TYPED_TEST_SUITE(boost_storage, test::pool_sides, test::pool_side_names);

TYPED_TEST(boost_storage, is_empty_at_first_and_is_not_copied) {
    typename TestFixture::storage const nothing;
    EXPECT_TRUE(nothing.empty());
    static_assert(!std::is_copy_constructible_v<typename TestFixture::storage>);
    static_assert(std::is_same_v<typename TestFixture::storage::size_type, std::size_t>);
}

TYPED_TEST(boost_storage, divides_a_block_into_chunks_in_ascending_order) {
    typename TestFixture::storage all;
    all.add_block(this->chunk(4), 3 * k_chunk + 8, k_chunk);
    all.add_block(this->chunk(0), k_chunk, k_chunk);
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{0, 4, 5, 6}));
}

TYPED_TEST(boost_storage, segregate_links_chunks_and_ends_where_it_is_told) {
    void* const first = TestFixture::storage::segregate(this->chunk(0), 3 * k_chunk, k_chunk, this->chunk(7));
    EXPECT_EQ(first, this->chunk(0));
    EXPECT_EQ(*static_cast<void**>(this->chunk(1)), this->chunk(2));
    EXPECT_EQ(*static_cast<void**>(this->chunk(2)), this->chunk(7));
    TestFixture::storage::segregate(this->chunk(3), k_chunk, k_chunk);
    EXPECT_EQ(*static_cast<void**>(this->chunk(3)), nullptr);
}

TYPED_TEST(boost_storage, adds_an_ordered_block_where_it_belongs) {
    typename TestFixture::storage all;
    for (std::size_t const at : {4U, 0U, 6U, 2U})
        all.add_ordered_block(this->chunk(at), 2 * k_chunk, k_chunk);
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{0, 1, 2, 3, 4, 5, 6, 7}));
}

TYPED_TEST(boost_storage, gives_the_chunk_freed_last_first_or_keeps_the_order) {
    typename TestFixture::storage all;
    for (std::size_t const at : {2U, 0U, 1U})
        (all.free)(this->chunk(at));
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{1, 0, 2}));
    for (std::size_t const at : {2U, 0U, 3U, 1U})
        all.ordered_free(this->chunk(at));
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{0, 1, 2, 3}));
}

TYPED_TEST(boost_storage, gives_chunks_side_by_side_if_the_list_has_them_so) {
    typename TestFixture::storage all;
    for (std::size_t const at : {0U, 2U, 3U, 5U, 6U, 7U})
        all.ordered_free(this->chunk(at));
    EXPECT_EQ(all.malloc_n(0, k_chunk), nullptr);
    EXPECT_EQ(all.malloc_n(4, k_chunk), nullptr);
    EXPECT_EQ(all.malloc_n(3, k_chunk), this->chunk(5));
    EXPECT_EQ(all.malloc_n(2, k_chunk), this->chunk(2));
    EXPECT_EQ(all.malloc_n(1, k_chunk), this->chunk(0));
    EXPECT_EQ(all.malloc_n(1, k_chunk), nullptr);
    (all.free)(this->chunk(0));
    (all.free)(this->chunk(1));
    EXPECT_EQ(all.malloc_n(2, k_chunk), nullptr) << "the list is not ordered";
}

TYPED_TEST(boost_storage, takes_chunks_back_together) {
    typename TestFixture::storage all;
    all.free_n(this->chunk(4), 3, k_chunk);
    all.free_n(this->chunk(0), 0, k_chunk);
    all.ordered_free_n(this->chunk(0), 2, k_chunk);
    all.ordered_free_n(this->chunk(2), 0, k_chunk);
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{0, 1, 4, 5, 6}));
}

TYPED_TEST(boost_storage, shows_its_list_to_a_class_that_derives_from_it) {
    struct open : TestFixture::storage {
        using TestFixture::storage::find_prev;
        using TestFixture::storage::nextof;
        [[nodiscard]] void* begin() const { return this->first; }
    } all;
    all.add_block(this->chunk(2), 2 * k_chunk, k_chunk);
    EXPECT_EQ(all.begin(), this->chunk(2));
    EXPECT_EQ(open::nextof(all.begin()), this->chunk(3));
    EXPECT_EQ(all.find_prev(this->chunk(0)), nullptr);
    EXPECT_EQ(all.find_prev(nullptr), nullptr);
    EXPECT_EQ(all.find_prev(this->chunk(2)), this->chunk(2));
    EXPECT_EQ(all.find_prev(this->chunk(5)), this->chunk(3));
}

#ifdef POOLED_TEST_HAS_BOOST_POOL
TEST(our_storage, does_at_random_what_boosts_does) {
    constexpr std::size_t k_count = 64;
    struct side {
        alignas(void*) std::array<std::byte, k_chunk * k_count> block;
        [[nodiscard]] void* at(std::size_t i) { return block.data() + i * k_chunk; }
        [[nodiscard]] std::size_t index(void* p) const {
            return p == nullptr
                       ? k_count
                       : static_cast<std::size_t>(static_cast<std::byte*>(p) - block.data()) / k_chunk;
        }
    } a;
    side b;
    pooled::compat::simple_segregated_storage<std::size_t> ours;
    boost::simple_segregated_storage<std::size_t> boosts;
    ours.add_block(a.at(0), sizeof(a.block), k_chunk);
    boosts.add_block(b.at(0), sizeof(b.block), k_chunk);
    std::vector<bool> is_out(k_count);
    std::mt19937 random(1);
    for (int step = 0; step < 20'000; ++step) {
        std::size_t const n = random() % 5 + 1;
        if (random() % 2 == 0) {
            std::size_t const at = a.index(ours.malloc_n(n, k_chunk));
            ASSERT_EQ(at, b.index(boosts.malloc_n(n, k_chunk))) << step;
            for (std::size_t i = 0; at != k_count && i < n; ++i)
                is_out[at + i] = true;
            continue;
        }
        std::size_t const at = random() % k_count;
        if (!is_out[at]) continue;
        std::size_t row = 1;
        while (row < n && at + row < k_count && is_out[at + row])
            ++row;
        for (std::size_t i = 0; i < row; ++i)
            is_out[at + i] = false;
        if (step / 1000 % 2 == 0) {  // then the list loses its order for a while
            ours.ordered_free_n(a.at(at), row, k_chunk);
            boosts.ordered_free_n(b.at(at), row, k_chunk);
        } else {
            ours.free_n(a.at(at), row, k_chunk);
            boosts.free_n(b.at(at), row, k_chunk);
        }
    }
}
#endif

}  // namespace
