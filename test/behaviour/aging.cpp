// SPDX-License-Identifier: BSL-1.0
// A pool does not age: whatever order blocks were freed in, a structure that is built afterwards lies in memory as in a new
// pool. Structure is tested, not time.

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/pool_kinds.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>
#include <random>
#include <vector>

namespace {

constexpr std::size_t k_bytes = 48;
constexpr auto k_class = pooled::detail::class_for(k_bytes, 8);
constexpr std::size_t k_count = test::k_sanitized ? 20'000 : 200'000;

template <class Pool>
std::vector<void*> build(Pool& pool, std::size_t count) {
    std::vector<void*> blocks;
    blocks.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
        blocks.push_back(pool.allocate(k_bytes, 8));
    return blocks;
}

template <class Pool>
void drop(Pool& pool, std::vector<void*>& blocks) {
    for (void* const p : blocks)
        pool.deallocate(p, k_bytes, 8);
    blocks.clear();
}

// Replaces blocks at random, then frees all but `kept` in a random order. Returns these.
template <class Pool>
std::vector<void*> age(Pool& pool, std::mt19937& random, std::size_t kept = 0) {
    auto blocks = build(pool, k_count);
    for (std::size_t i = 0; i < 5 * k_count; ++i) {
        void*& one = blocks[random() % k_count];
        pool.deallocate(one, k_bytes, 8);
        one = pool.allocate(k_bytes, 8);
    }
    std::ranges::shuffle(blocks, random);
    std::vector<void*> const survivors(blocks.end() - static_cast<std::ptrdiff_t>(kept), blocks.end());
    blocks.resize(blocks.size() - kept);
    drop(pool, blocks);
    return survivors;
}

// How many neighbours in the order of creation do not ascend within one slab, or are of two slabs.
std::size_t breaks_in(std::vector<void*> const& blocks) {
    using pooled::detail::k_slab_bytes;
    std::size_t breaks = 0;
    for (std::size_t i = 1; i < blocks.size(); ++i) {
        auto const before = reinterpret_cast<std::uintptr_t>(blocks[i - 1]);
        auto const now = reinterpret_cast<std::uintptr_t>(blocks[i]);
        breaks += now / k_slab_bytes != before / k_slab_bytes || now < before ? 1 : 0;
    }
    return breaks;
}

// How often the next block lies elsewhere than in the same slab or in the one after it.
std::size_t jumps_in(std::vector<void*> const& blocks) {
    std::size_t jumps = 0;
    for (std::size_t i = 1; i < blocks.size(); ++i) {
        auto const before = reinterpret_cast<std::uintptr_t>(blocks[i - 1]) / pooled::detail::k_slab_bytes;
        auto const now = reinterpret_cast<std::uintptr_t>(blocks[i]) / pooled::detail::k_slab_bytes;
        jumps += now - before > 1 ? 1 : 0;
    }
    return jumps;
}

template <class Pool>
class aged : public testing::Test {
protected:
    Pool pool;
    std::mt19937 random{1};
};
TYPED_TEST_SUITE(aged, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(aged, pool_has_no_slab_in_use_when_everything_is_free) {
    age(this->pool, this->random);
    auto const c = this->pool.stats().classes[k_class];
    EXPECT_EQ(c.in_use, 0U);
    EXPECT_LE(c.cached, 2U) << "a cache does not keep slabs when all the rest is free";
    EXPECT_LE(c.slab_bytes, c.cached * pooled::detail::k_slab_bytes)
        << "slabs whose blocks are cached, and no others";
    this->pool.trim();
    EXPECT_EQ(this->pool.stats().classes[k_class].slab_bytes, 0U);
    EXPECT_TRUE(test::is_valid(this->pool));
}

TYPED_TEST(aged, pool_builds_in_ascending_addresses_of_one_slab_after_another) {
    auto fresh = build(this->pool, k_count);
    std::size_t const fresh_breaks = breaks_in(fresh);
    std::size_t const fresh_jumps = jumps_in(fresh);
    drop(this->pool, fresh);
    for (int round = 0; round < 3; ++round) {
        age(this->pool, this->random);
        auto blocks = build(this->pool, k_count);
        // What the thread had cached comes first.
        EXPECT_LE(breaks_in(blocks), fresh_breaks + 8);
        EXPECT_LE(jumps_in(blocks), fresh_jumps + fresh_breaks / 8 + 8) << "of " << fresh_breaks << " slabs";
        drop(this->pool, blocks);
    }
}

TYPED_TEST(aged, pool_builds_between_survivors_in_one_slab_after_another) {
    auto survivors = age(this->pool, this->random, k_count / 16);
    // What the thread had cached comes first, then what was freed last: a sixteenth of what was in use.
    std::size_t const in_use = survivors.size() + pooled::detail::k_max_cached_blocks;
    auto cached = build(this->pool, pooled::detail::k_max_cached_blocks + in_use / 16 + 1);
    auto blocks = build(this->pool, k_count - survivors.size() - cached.size());
    std::size_t const slabs = this->pool.stats().classes[k_class].slab_bytes / pooled::detail::k_slab_bytes;
    EXPECT_LE(jumps_in(blocks), slabs / 4) << "of " << slabs << " slabs";
    drop(this->pool, blocks);
    drop(this->pool, cached);
    drop(this->pool, survivors);
}

TYPED_TEST(aged, pool_takes_no_more_memory_than_a_new_one) {
    auto fresh = build(this->pool, k_count);
    std::size_t const before = this->pool.stats().upstream_bytes;
    drop(this->pool, fresh);
    for (int i = 0; i < 3; ++i)
        age(this->pool, this->random);
    EXPECT_LE(this->pool.stats().upstream_bytes, before);
}

// Keeps its memory mapped and reads it.
class painted_upstream : public std::pmr::memory_resource {
public:
    [[nodiscard]] std::vector<std::pair<std::byte*, std::size_t>> const& regions() const { return m_regions; }
    ~painted_upstream() override {
        for (auto const& [p, bytes] : m_regions)
            ::operator delete(p, std::align_val_t{pooled::detail::k_granule_bytes});
    }

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        auto* const p = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{align}));
        std::memset(p, 0x5a, bytes);
        m_regions.emplace_back(p, bytes);
        return p;
    }
    void do_deallocate(void*, std::size_t, std::size_t) override {}  // kept: a test looks at it afterwards
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
    std::vector<std::pair<std::byte*, std::size_t>> m_regions;
};

TYPED_TEST(aged, pool_has_written_to_none_of_its_blocks) {
    if (POOLED_CHECKED != 0) GTEST_SKIP() << "the checked build fills free blocks";
    painted_upstream memory;
    {
        TypeParam painted{{.upstream = &memory}};
        painted.reserve_bytes(1000, 48);
        std::vector<std::pair<void*, std::size_t>> blocks;
        for (std::size_t i = 0; i < 30'000; ++i) {
            std::size_t const bytes = i % 500 == 0 ? 50'000 : 1 + i * 37 % 4000;
            blocks.emplace_back(painted.allocate(bytes), bytes);
            if (i % 3 == 0) {
                auto& one = blocks[this->random() % blocks.size()];
                painted.deallocate(one.first, one.second);
                one = blocks.back();
                blocks.pop_back();
            }
        }
        std::ranges::shuffle(blocks, this->random);
        for (auto const& [p, bytes] : blocks)
            painted.deallocate(p, bytes);
        painted.trim();
    }
    std::size_t written = 0;
    for (auto const& [p, bytes] : memory.regions())
        written += bytes - static_cast<std::size_t>(std::count(p, p + bytes, std::byte{0x5a}));
    EXPECT_EQ(written, 0U) << "neither a block in use nor a free one is the pool's to write to";
}

}  // namespace
