// SPDX-License-Identifier: BSL-1.0
// Contender `thread_local_list`: the limit for an allocator that may be used from any thread. allocate_shared on a
// last-in-first-out list of free blocks for each thread and size, without synchronization. std::shared_ptr's control block
// and counts cost the same as with pooled.
//
// A block stays with the thread that freed it, and a thread's blocks are lost when it ends: not for the variant whose
// threads start and end. Memory is never returned.
#pragma once

#include "contender/contender.hpp"

#include <cstddef>
#include <new>

namespace bench::e7_random_replacement {

template <std::size_t BlockBytes>
class free_blocks {
public:
    void* take() {
        if (free_block* const block = m_free) {
            m_free = block->next;
            return block;
        }
        if (m_fresh == m_end) refill();
        std::byte* const block = m_fresh;
        m_fresh += BlockBytes;
        return block;
    }

    void put(void* block) { m_free = ::new (block) free_block{m_free}; }

private:
    struct free_block {
        free_block* next;
    };
    static constexpr std::size_t k_chunk_blocks = (std::size_t{1} << 20) / BlockBytes;

    [[gnu::noinline]] void refill() {
        m_fresh = static_cast<std::byte*>(::operator new(k_chunk_blocks * BlockBytes));
        m_end = m_fresh + k_chunk_blocks * BlockBytes;
    }

    free_block* m_free = nullptr;
    std::byte* m_fresh = nullptr;
    std::byte* m_end = nullptr;
};

// Constant-initialized and trivially destructible: access is one instruction, with no check for the first use.
template <std::size_t BlockBytes>
inline constinit thread_local free_blocks<BlockBytes> t_free_blocks{};

template <class T>
struct thread_local_list_allocator {
    using value_type = T;

    thread_local_list_allocator() = default;
    template <class U>
    thread_local_list_allocator(const thread_local_list_allocator<U>&) {
    }  // NOLINT: converting, as allocators do

    T* allocate(std::size_t) { return static_cast<T*>(list().take()); }
    void deallocate(T* block, std::size_t) { list().put(block); }
    friend bool operator==(thread_local_list_allocator, thread_local_list_allocator) { return true; }

private:
    static auto& list() { return t_free_blocks<(sizeof(T) + 15) / 16 * 16>; }
};

struct thread_local_list_contender : allocate_shared_contender<thread_local_list_allocator> {
    static constexpr bool k_thread_safe = false;
};

}  // namespace bench::e7_random_replacement
