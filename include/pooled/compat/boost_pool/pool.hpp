// SPDX-License-Identifier: BSL-1.0
#pragma once

// pool: chunks of a size given at run time. As Boost's, for one thread at a time; all its memory goes with it.

#include "pooled/base/bits.hpp"
#include "pooled/compat/boost_pool/chunk_pool.hpp"
#include "pooled/pool/pool.hpp"

#include <cstddef>

namespace pooled::compat {

template <class UserAllocator = default_user_allocator_new_delete>
class pool {
public:
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;

    // `requested_size`: bytes of a chunk. `next_size`, `max_size`: how many chunks to ask the user's allocator for, at first
    // and at most (0: no limit).
    explicit pool(size_type requested_size, size_type next_size = 32, size_type max_size = 0)
        : m_requested_size(requested_size), m_chunks(requested_size, next_size, max_size) {}

    // A chunk, or `n` chunks in a row; null when there is no memory, and for n = 0. What comes in a row is given back in a
    // row. Whether it is ordered makes no difference here.
    void* malloc() { return allocate(1); }
    void* ordered_malloc() { return allocate(1); }
    void* ordered_malloc(size_type n) { return n != 0 ? allocate(n) : nullptr; }

    void free(void* chunk) { deallocate(chunk, 1); }
    void ordered_free(void* chunk) { deallocate(chunk, 1); }
    void free(void* chunks, size_type n) { deallocate(chunks, n); }
    void ordered_free(void* chunks, size_type n) { deallocate(chunks, n); }

    // Whether `p` points into memory that this pool has made chunks of.
    bool is_from(void* p) const { return m_chunks.is_from(p); }

    // Both return whether the user's allocator got memory back. purge_memory() takes the chunks in use along.
    bool release_memory() { return m_chunks.release_memory(); }
    bool purge_memory() { return m_chunks.purge_memory(); }

    size_type get_requested_size() const { return m_requested_size; }
    size_type get_next_size() const { return static_cast<size_type>(m_chunks.upstream().next_size()); }
    void set_next_size(size_type n) { m_chunks.upstream().set_next_size(n); }
    size_type get_max_size() const { return static_cast<size_type>(m_chunks.upstream().max_size()); }
    void set_max_size(size_type n) { m_chunks.upstream().set_max_size(n); }

private:
    [[nodiscard]] void* allocate(std::size_t n) {
        return m_chunks.allocate(pooled::detail::saturating_multiply(n, m_requested_size),
                                 detail::chunk_align(m_requested_size));
    }
    void deallocate(void* chunks, std::size_t n) {
        m_chunks.deallocate(chunks, n * m_requested_size, detail::chunk_align(m_requested_size));
    }

    std::size_t m_requested_size;
    detail::chunk_pool<UserAllocator, local_pool> m_chunks;
};

}  // namespace pooled::compat
