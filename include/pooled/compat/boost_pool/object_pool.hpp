// SPDX-License-Identifier: BSL-1.0
#pragma once

// object_pool: objects that are destroyed at the latest with their pool. As in Boost, for one thread at a time.

#include "pooled/compat/boost_pool/chunk_store.hpp"
#include "pooled/compat/boost_pool/user_allocator.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"

#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat {

template <class T, class UserAllocator = default_user_allocator_new_delete>
class object_pool {
public:
    using element_type = T;
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;

    // How many objects to ask the user's allocator for, at first and at most (0: no limit).
    explicit object_pool(size_type next_size = 32, size_type max_size = 0)
        : m_store(detail::k_user_memory<UserAllocator>, sizeof(T),
                  pooled::detail::larger(detail::chunk_align(sizeof(T)), alignof(T)), next_size, max_size) {}

    // Destroys the objects in use, highest address first: if nothing was freed, from newest to oldest. A destructor may destroy
    // objects that are not destroyed yet.
    ~object_pool() {
        if constexpr (!std::is_trivially_destructible_v<T>)
            m_store.for_each_in_use([](void* chunk) { static_cast<T*>(chunk)->~T(); });
    }
    object_pool(object_pool const&) = delete;
    object_pool& operator=(object_pool const&) = delete;

    // Memory for an object. The caller must construct the object or call free() before the pool is destroyed. Null when there is no
    // memory.
    T*(malloc)() { return static_cast<T*>(m_store.allocate()); }

    // Requires a result of malloc() without an object; null is ignored.
    void(free)(T* memory) { m_store.deallocate(memory); }

    // An object; null when there is no memory. Throws what the constructor throws, the pool is then as before.
    template <class... Args>
    T* construct(Args&&... args) {
        void* const memory = m_store.allocate();
        if (memory == nullptr) return nullptr;
        try {
            return ::new (memory) T(std::forward<Args>(args)...);
        } catch (...) {
            m_store.deallocate(memory);
            throw;
        }
    }

    // Null is ignored.
    void destroy(T* object) {
        if (object == nullptr) return;
        object->~T();
        m_store.deallocate(object);
    }

    // Whether `p` points into memory that this pool has made chunks of.
    bool is_from(T const* p) const { return m_store.is_from(p); }

    size_type get_next_size() const { return static_cast<size_type>(m_store.next_size()); }
    void set_next_size(size_type n) { m_store.set_next_size(n); }

private:
    detail::chunk_store m_store;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat
