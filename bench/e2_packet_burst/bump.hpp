// SPDX-License-Identifier: BSL-1.0
// Contender `bump`: the limit of a burst. allocate_shared on a pointer that only moves forward, and returns to the start
// when the whole burst has been dropped; a deallocation does nothing. Control blocks, counts and payload cost what they
// cost elsewhere.
//
// Memory comes in pieces of 64 MiB with huge pages asked for, as pooled's does; they are kept until the process ends.
#pragma once

#include "contender/contender.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace bench::e2_packet_burst {

class bump_memory {
public:
    void* take(std::size_t bytes) {
        if (static_cast<std::size_t>(m_end - m_at) < bytes) next_piece();
        std::byte* const block = m_at;
        m_at += bytes;
        return block;
    }

    // Requires that nothing which was taken is used any more.
    void rewind() {
        m_used = 0;
        m_at = m_end = nullptr;
    }

private:
    static constexpr std::size_t k_piece_bytes = std::size_t{64} << 20;
    static constexpr std::size_t k_huge_page = std::size_t{2} << 20;

    [[gnu::noinline]] void next_piece() {
        if (m_used == m_pieces.size()) m_pieces.push_back(map_piece());
        m_at = m_pieces[m_used++];
        m_end = m_at + k_piece_bytes;
    }

    static std::byte* map_piece() {
        void* const mapped = ::mmap(nullptr, k_piece_bytes + k_huge_page, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) throw std::bad_alloc();
        const auto address = reinterpret_cast<std::uintptr_t>(mapped);
        auto* const piece =
            static_cast<std::byte*>(mapped) + (k_huge_page - address % k_huge_page) % k_huge_page;
        ::madvise(piece, k_piece_bytes, MADV_HUGEPAGE);  // advice: without it pages are small
        return piece;
    }

    std::byte* m_at = nullptr;
    std::byte* m_end = nullptr;
    std::size_t m_used = 0;  // pieces in use; the last of them is the current one
    std::vector<std::byte*> m_pieces;
};

inline bump_memory g_bump_memory;

template <class T>
struct bump_allocator {
    using value_type = T;

    bump_allocator() = default;
    template <class U>
    bump_allocator(const bump_allocator<U>&) {}  // NOLINT: converting, as allocators do

    T* allocate(std::size_t) {
        static_assert(alignof(T) <= 16);
        return static_cast<T*>(g_bump_memory.take((sizeof(T) + 15) / 16 * 16));
    }
    void deallocate(T*, std::size_t) {}
    friend bool operator==(bump_allocator, bump_allocator) { return true; }
};

struct bump_contender : allocate_shared_contender<bump_allocator> {
    static constexpr bool k_thread_safe = false;
    static constexpr bool k_needs_bursts = true;  // a block is freed only with all others

    void all_dropped() { g_bump_memory.rewind(); }
};

}  // namespace bench::e2_packet_burst
