// SPDX-License-Identifier: BSL-1.0
// Chunks alone, without a heap: how large they are, how they are described, and that whatever fails takes nothing.

#include "pooled/impl/heap/chunk_source.hpp"

#include "support/counting_upstream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <vector>

namespace {

using namespace pooled::detail;

constexpr std::size_t k_mib = std::size_t{1} << 20;
constexpr std::uint32_t k_pool_id = 60'001;  // no pool of this program has it

chunk_source::shape shape_of(std::size_t chunk_bytes, bool starts_small = false) {
    return {k_pool_id, true, false, chunk_bytes, starts_small};
}
chunk_source::request request_of(std::size_t bytes, std::size_t granules = 1) {
    std::size_t const least = (bytes + k_granule_bytes - 1) / k_granule_bytes;
    return {.granules = std::max(least, granules), .bytes = bytes};
}

// Its chunks go back when it ends.
class tested_source : public chunk_source {
public:
    using chunk_source::chunk_source;
    ~tested_source() { give_all_back(); }
    tested_source(tested_source const&) = delete;
    tested_source& operator=(tested_source const&) = delete;

    // Null when the bound is reached.
    chunk* take(std::size_t block_bytes = 48) { return take(request_of(block_bytes)); }
    chunk* take(chunk_source::request const& what) {
        upstream::call under_way(from());
        chunk* const c = allocate(what, under_way);
        if (c != nullptr) m_taken.push_back(c);
        under_way.settle();
        return c;
    }
    void give_all_back() {
        upstream::call under_way(from());
        for (chunk* const c : m_taken) {
            under_way.begin(c->bytes);
            EXPECT_TRUE(deallocate(*c, under_way));
        }
        m_taken.clear();
    }

private:
    std::vector<chunk*> m_taken;
};

class chunk_source_test : public testing::Test {
protected:
    test::counting_upstream memory;
    upstream from{&memory, 0, false};
};

TEST_F(chunk_source_test, leaves_the_page_map_as_it_was_when_its_upstream_is_a_pool) {
    tested_source outer(shape_of(k_mib), from);
    chunk* const c = outer.take();
    ASSERT_NE(c, nullptr);
    // What a chunk of the pool has for upstream.
    std::pmr::monotonic_buffer_resource part(c->base, c->bytes, std::pmr::null_memory_resource());
    upstream within(&part, 0, false);
    tested_source inner({k_pool_id + 1, true, false, k_slab_bytes, false}, within);
    chunk* const small = inner.take();
    ASSERT_NE(small, nullptr);
    std::byte* const base = small->base;  // the buffer is used from either end
    EXPECT_EQ(g_page_map.find(base).pool_id(), k_pool_id + 1);
    inner.give_all_back();
    EXPECT_EQ(g_page_map.find(base).slab_at(), &c->records()[0]);
}

TEST_F(chunk_source_test, that_starts_small_doubles_its_chunks_up_to_the_largest) {
    tested_source source(shape_of(2 * k_mib, true), from);
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 9; ++i)
        sizes.push_back(source.take()->bytes >> 10);
    EXPECT_EQ(sizes, (std::vector<std::size_t>{64, 64, 128, 256, 512, 1024, 2048, 2048, 2048}));
}

// Refuses what is over `m_most` bytes, as fragmented memory does.
class fragmented_upstream : public std::pmr::memory_resource {
public:
    fragmented_upstream(std::pmr::memory_resource& next, std::size_t most) noexcept
        : m_next(next), m_most(most) {}

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        if (bytes > m_most) throw std::bad_alloc();
        return m_next.allocate(bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        m_next.deallocate(p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    std::pmr::memory_resource& m_next;
    std::size_t m_most;
};

TEST_F(chunk_source_test, takes_smaller_chunks_of_an_upstream_that_has_no_larger_ones) {
    fragmented_upstream pieces(memory, 200'000);
    upstream fragmented(&pieces, 0, false);
    tested_source source(shape_of(k_mib), fragmented);
    EXPECT_EQ(source.take()->bytes, k_mib / 8);
    EXPECT_EQ(fragmented.used(), k_mib / 8) << "what was refused is not counted";
    source.give_all_back();
    EXPECT_EQ(fragmented.used(), 0U);
}

TEST_F(chunk_source_test, takes_no_chunk_that_is_smaller_than_a_block) {
    fragmented_upstream crumbs(memory, 3 * k_granule_bytes);
    upstream fragmented(&crumbs, 0, false);
    tested_source source(shape_of(k_mib + k_granule_bytes), fragmented);
    EXPECT_THROW(static_cast<void>(source.take(3 * k_granule_bytes + 1)), std::bad_alloc);
    EXPECT_EQ(fragmented.used(), 0U);
    EXPECT_EQ(memory.allocations(), 0U);
}

TEST_F(chunk_source_test, gives_memory_back_that_the_page_map_cannot_hold) {
    struct : std::pmr::memory_resource {
        int out = 0;
        void* do_allocate(std::size_t, std::size_t) override {
            ++out;
            return reinterpret_cast<void*>(std::uintptr_t{1} << 50);  // NOLINT: beyond 48 bits; never read
        }
        void do_deallocate(void*, std::size_t, std::size_t) override { --out; }
        bool do_is_equal(memory_resource const& other) const noexcept override { return this == &other; }
    } beyond;
    upstream source_of_memory(&beyond, 0, false);
    tested_source source(shape_of(k_mib), source_of_memory);
    EXPECT_THROW(source.take(), std::bad_alloc);
    EXPECT_EQ(beyond.out, 0);
    EXPECT_EQ(source_of_memory.used(), 0U);
}

}  // namespace
