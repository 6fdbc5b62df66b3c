// SPDX-License-Identifier: BSL-1.0
#pragma once

// Memory to be used as blocks, blocks of a pool, and patterns in them that show which block was overwritten.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace test {

// `count` blocks of `bytes` side by side, as a slab has them.
class block_array {
public:
    block_array(std::size_t count, std::size_t bytes)
        : m_count(count),
          m_bytes(bytes),
          m_memory(static_cast<std::byte*>(::operator new(count * bytes, std::align_val_t{64}))) {}
    ~block_array() { ::operator delete(m_memory, std::align_val_t{64}); }
    block_array(block_array const&) = delete;
    block_array& operator=(block_array const&) = delete;

    [[nodiscard]] std::size_t size() const noexcept { return m_count; }
    [[nodiscard]] void* operator[](std::size_t i) const noexcept { return m_memory + i * m_bytes; }

private:
    std::size_t m_count;
    std::size_t m_bytes;
    std::byte* m_memory;
};

// Blocks of one size of a pool or of a memory resource, which it gets back in the end.
template <class Pool>
class held_blocks : public std::vector<void*> {
public:
    held_blocks(Pool& pool, std::size_t bytes, std::size_t align = alignof(std::max_align_t))
        : m_pool(pool), m_bytes(bytes), m_align(align) {}
    ~held_blocks() { give_back(); }
    held_blocks(held_blocks const&) = delete;
    held_blocks& operator=(held_blocks const&) = delete;

    void take(std::size_t count) {
        reserve(size() + count);
        while (count-- != 0)
            push_back(m_pool.allocate(m_bytes, m_align));
    }
    // All that a bounded pool has. Returns how many these are.
    std::size_t take_all() {
        std::size_t const before = size();
        while (void* const p = m_pool.try_allocate(m_bytes, m_align))
            push_back(p);
        return size() - before;
    }
    void give_back() {
        for (void* const p : *this)
            m_pool.deallocate(p, m_bytes, m_align);
        clear();
    }
    // The last ones.
    void give_back(std::size_t count) {
        for (; count != 0; --count) {
            m_pool.deallocate(back(), m_bytes, m_align);
            pop_back();
        }
    }

private:
    Pool& m_pool;
    std::size_t m_bytes;
    std::size_t m_align;
};

// Fills with bytes that follow from `seed`, so that two blocks differ.
inline void fill_pattern(void* p, std::size_t bytes, std::uint64_t seed) noexcept {
    auto* const out = static_cast<unsigned char*>(p);
    for (std::size_t i = 0; i < bytes; ++i)
        out[i] = static_cast<unsigned char>(seed * 31 + i * 7 + (i >> 8));
}

[[nodiscard]] inline bool has_pattern(void const* p, std::size_t bytes, std::uint64_t seed) noexcept {
    auto const* const in = static_cast<unsigned char const*>(p);
    for (std::size_t i = 0; i < bytes; ++i)
        if (in[i] != static_cast<unsigned char>(seed * 31 + i * 7 + (i >> 8))) return false;
    return true;
}

struct raw_block {
    void* p;
    std::size_t bytes;
    std::size_t align;
};

// Whether any two of the blocks share a byte, or an address: blocks of 0 bytes are distinct, too.
[[nodiscard]] inline bool overlap(std::vector<raw_block> blocks) {
    std::ranges::sort(blocks, {}, [](raw_block const& b) { return reinterpret_cast<std::uintptr_t>(b.p); });
    for (std::size_t i = 1; i < blocks.size(); ++i) {
        auto const end =
            reinterpret_cast<std::uintptr_t>(blocks[i - 1].p) + std::max<std::size_t>(blocks[i - 1].bytes, 1);
        if (end > reinterpret_cast<std::uintptr_t>(blocks[i].p)) return true;
    }
    return false;
}

}  // namespace test
