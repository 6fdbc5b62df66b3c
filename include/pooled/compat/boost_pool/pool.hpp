// SPDX-License-Identifier: BSL-1.0
#pragma once

// pool: chunks of a size given at run time. As in Boost, for one thread at a time; its destructor frees all its memory.

#include "pooled/compat/boost_pool/chunk_store.hpp"
#include "pooled/compat/boost_pool/user_allocator.hpp"
#include "pooled/config.hpp"

namespace pooled::inline POOLED_ABI_NAMESPACE::compat {

template <class UserAllocator = default_user_allocator_new_delete>
class pool {
public:
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;

    // `requested_size`: bytes of a chunk. `next_size`, `max_size`: how many chunks to ask the user's allocator for, at first
    // and at most (0: no limit).
    explicit pool(size_type requested_size, size_type next_size = 32, size_type max_size = 0)
        : m_store(detail::k_user_memory<UserAllocator>, requested_size, detail::chunk_align(requested_size),
                  next_size, max_size) {}
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;

    // A chunk, or contiguous chunks for `n` times the requested size; null when there is no memory, and for n = 0. Contiguous
    // chunks may be freed together or one by one. The ordered_ forms are the same as the others here.
    void*(malloc)() { return m_store.allocate(); }
    void* ordered_malloc() { return m_store.allocate(); }
    void* ordered_malloc(size_type n) { return m_store.allocate_row(n); }

    void(free)(void* chunk) { m_store.deallocate(chunk); }
    void ordered_free(void* chunk) { m_store.deallocate(chunk); }
    void(free)(void* chunks, size_type n) { m_store.deallocate_row(chunks, n); }
    void ordered_free(void* chunks, size_type n) { m_store.deallocate_row(chunks, n); }

    // Whether `p` points into memory that this pool has made chunks of.
    bool is_from(void* p) const { return m_store.is_from(p); }

    // Both return whether any memory was returned to the user's allocator. purge_memory() also frees chunks in use.
    bool release_memory() { return m_store.release_memory(); }
    bool purge_memory() { return m_store.purge_memory(); }

    size_type get_requested_size() const { return static_cast<size_type>(m_store.requested_size()); }
    size_type get_next_size() const { return static_cast<size_type>(m_store.next_size()); }
    void set_next_size(size_type n) { m_store.set_next_size(n); }
    size_type get_max_size() const { return static_cast<size_type>(m_store.max_size()); }
    void set_max_size(size_type n) { m_store.set_max_size(n); }

private:
    detail::chunk_store m_store;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat
