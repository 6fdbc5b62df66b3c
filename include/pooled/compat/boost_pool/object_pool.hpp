// SPDX-License-Identifier: BSL-1.0
#pragma once

// object_pool: objects that are destroyed with their pool if nobody did before. As Boost's, for one thread at a time.
//
//   chunk  | previous, next | padding to alignof(T) | T |
//
// What is out hangs in a list, so free() is O(1): Boost's walks its free chunks to keep them in order, and finds by that
// order what is out in the end. Sixteen bytes a chunk is what it costs.

#include "pooled/base/bits.hpp"
#include "pooled/compat/boost_pool/chunk_pool.hpp"
#include "pooled/pool/pool.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace pooled::compat {

template <class T, class UserAllocator = default_user_allocator_new_delete>
class object_pool {
public:
    using element_type = T;
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;

    // How many objects to ask the user's allocator for, at first and at most (0: no limit).
    explicit object_pool(size_type next_size = 32, size_type max_size = 0)
        : m_chunks(k_bytes, next_size, max_size) {}

    // Destroys what is out, the newest first. A destructor may use the pool.
    ~object_pool() {
        while (m_out != nullptr)
            destroy(object_of(m_out));
    }
    object_pool(object_pool const&) = delete;
    object_pool& operator=(object_pool const&) = delete;

    // Memory for an object, which is to be constructed there before the pool is destroyed, or given back by free(). Null
    // when there is none.
    T* malloc() {
        void* const chunk = m_chunks.allocate(k_bytes, k_align);
        if (chunk == nullptr) return nullptr;
        m_out = ::new (chunk) links{nullptr, m_out};
        if (m_out->next != nullptr) m_out->next->previous = m_out;
        return object_of(m_out);
    }

    // Requires a result of malloc() without an object; null is ignored.
    void free(T* memory) {
        if (memory == nullptr) return;
        links* const chunk = links_of(memory);
        (chunk->previous != nullptr ? chunk->previous->next : m_out) = chunk->next;
        if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
        m_chunks.deallocate(chunk, k_bytes, k_align);
    }

    // An object; null when there is no memory. Throws what the constructor throws, the pool is then as before.
    template <class... Args>
    T* construct(Args&&... args) {
        T* const memory = malloc();
        if (memory == nullptr) return nullptr;
        try {
            return ::new (static_cast<void*>(memory)) T(std::forward<Args>(args)...);
        } catch (...) {
            free(memory);
            throw;
        }
    }

    // Null is ignored.
    void destroy(T* object) {
        if (object == nullptr) return;
        std::destroy_at(object);
        free(object);
    }

    // Whether `p` points into memory that this pool has made chunks of.
    bool is_from(T const* p) const { return m_chunks.is_from(p); }

    size_type get_next_size() const { return static_cast<size_type>(m_chunks.upstream().next_size()); }
    void set_next_size(size_type n) { m_chunks.upstream().set_next_size(n); }

private:
    struct links {
        links* previous;
        links* next;
    };
    static constexpr std::size_t k_align = std::max(alignof(T), alignof(links));
    static constexpr std::size_t k_offset = pooled::detail::round_up(sizeof(links), k_align);
    static constexpr std::size_t k_bytes = k_offset + sizeof(T);
    static_assert(k_align <= detail::k_large_align, "object_pool: T is aligned to more than 4096 bytes");

    [[nodiscard]] static T* object_of(links* chunk) noexcept {
        return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(chunk) + k_offset);
    }
    [[nodiscard]] static links* links_of(T* object) noexcept {
        return reinterpret_cast<links*>(reinterpret_cast<std::byte*>(object) - k_offset);
    }

    detail::chunk_pool<UserAllocator, local_pool> m_chunks;
    links* m_out = nullptr;  // the newest first
};

}  // namespace pooled::compat
