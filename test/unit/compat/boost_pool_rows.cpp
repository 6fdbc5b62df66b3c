// SPDX-License-Identifier: BSL-1.0
// One random program for Boost's pool and for ours, beside a model of the chunks in use. Where a chunk lies is each pool's choice; that
// it is free and of this pool, and when the user's allocator is asked for more, is not.

#include "pooled/compat/boost_pool.hpp"

#include "support/sanitizer.hpp"
#include "unit/compat/boost_pool_sides.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

namespace {

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
