// SPDX-License-Identifier: BSL-1.0
#pragma once

// pool_allocator and fast_pool_allocator: for containers and std::allocate_shared, on the singleton_pool of their tag and
// of T's size. Stateless, always equal, and as thread-safe as that pool. The two differ only in their pools.

#include "pooled/compat/boost_pool/singleton_pool.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat {

struct pool_allocator_tag {};
struct fast_pool_allocator_tag {};

namespace detail {

// Everything except members that name the allocator's own type. T may be incomplete until a member is used.
template <class T, class Tag, class UserAllocator, class Mutex, unsigned NextSize, unsigned MaxSize>
class singleton_allocator {
public:
    using value_type = T;
    using user_allocator = UserAllocator;
    using mutex = Mutex;
    using pointer = T*;
    using const_pointer = T const*;
    using reference = T&;
    using const_reference = T const&;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    static constexpr unsigned next_size = NextSize;

    static T* address(T& object) { return &object; }
    static T const* address(T const& object) { return &object; }
    static size_type max_size() { return (std::numeric_limits<size_type>::max)(); }

    template <class Other, class... Args>
    static void construct(Other* where, Args&&... args) {
        ::new (static_cast<void*>(where)) Other(std::forward<Args>(args)...);
    }
    template <class Other>
    static void destroy(Other* object) {
        object->~Other();
    }

    // Memory for n objects; n may be 0. Throws std::bad_array_new_length if they exceed the address space, else std::bad_alloc.
    static T* allocate(size_type n) {
        if (n > pooled::detail::k_size_max / sizeof(T)) throw std::bad_array_new_length();
        return checked(n > 1 ? chunks<>::allocate_row(n) : chunks<>::allocate());
    }
    static T* allocate(size_type n, void const*) { return allocate(n); }
    static T* allocate() { return checked(chunks<>::allocate()); }

    // Requires a result of allocate with the same n.
    static void deallocate(T* p, size_type n) noexcept {
        n > 1 ? chunks<>::deallocate_row(p, n) : chunks<>::deallocate(p);
    }
    static void deallocate(T* p) noexcept { chunks<>::deallocate(p); }

private:
    // A template, so that a class with an allocator of itself as a member can be written.
    template <class Other = T>
    using chunks = singleton_chunks<Tag, sizeof(Other),
                                    pooled::detail::larger(chunk_align(sizeof(Other)), alignof(Other)),
                                    UserAllocator, Mutex, NextSize, MaxSize>;

    [[nodiscard]] static T* checked(void* p) {
        if (p == nullptr) [[unlikely]]
            throw std::bad_alloc();
        return static_cast<T*>(p);
    }
};

// For rebinding.
template <class UserAllocator, class Mutex>
struct singleton_allocator_of_void {
    using value_type = void;
    using pointer = void*;
    using const_pointer = void const*;
    using user_allocator = UserAllocator;
    using mutex = Mutex;
    using is_always_equal = std::true_type;
};

template <class T, class Tag, class UserAllocator, class Mutex, unsigned NextSize, unsigned MaxSize>
using allocator_base =
    std::conditional_t<std::is_void_v<T>, singleton_allocator_of_void<UserAllocator, Mutex>,
                       singleton_allocator<T, Tag, UserAllocator, Mutex, NextSize, MaxSize>>;

}  // namespace detail

template <class T, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>
class pool_allocator
    : public detail::allocator_base<T, pool_allocator_tag, UserAllocator, Mutex, NextSize, MaxSize> {
public:
    template <class Other>
    struct rebind {
        using other = pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize>;
    };

    constexpr pool_allocator() noexcept = default;
    template <class Other>
    constexpr pool_allocator(  // NOLINT: allocators convert
        pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {}

    template <class Other>
    [[nodiscard]] friend constexpr bool
    operator==(pool_allocator const&,
               pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {
        return true;
    }
};

template <class T, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>
class fast_pool_allocator
    : public detail::allocator_base<T, fast_pool_allocator_tag, UserAllocator, Mutex, NextSize, MaxSize> {
public:
    template <class Other>
    struct rebind {
        using other = fast_pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize>;
    };

    constexpr fast_pool_allocator() noexcept = default;
    template <class Other>
    constexpr fast_pool_allocator(  // NOLINT: allocators convert
        fast_pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {}

    template <class Other>
    [[nodiscard]] friend constexpr bool
    operator==(fast_pool_allocator const&,
               fast_pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {
        return true;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat
