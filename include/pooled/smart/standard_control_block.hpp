// SPDX-License-Identifier: BSL-1.0
#pragma once

// All assumptions of the library about the control block of std::allocate_shared. The standard does not specify it, but both
// libraries have fixed it in their binary interfaces:
//
//   libstdc++  | vptr: 8 | mutex: 0 | #shared: 4 | #weak + (#shared != 0): 4 | object |
//   libc++     | vptr: 8 | #shared − 1: 8 | #weak + (#shared != 0) − 1: 8 | object |        (on Windows, a long has 4 bytes)
//
// The mutex is there where libstdc++ was built for a processor without atomic exchange of bytes, as for riscv64. Nothing here
// needs it: weak_ptr::lock() alone takes it. Both libraries have members to take and drop a weak reference. With an empty allocator
// the object follows at its alignment; test/unit/smart/standard_control_block.cpp compares all of it with the library in use.

#include "pooled/base/bits.hpp"

#include <memory>
#include <new>

POOLED_BEGIN_DETAIL

// The object in the control block of std::allocate_shared.
template <class Control>
struct object_in_control_block;
#if defined(_LIBCPP_VERSION)
template <class T, class Allocator>
struct object_in_control_block<std::__shared_ptr_emplace<T, Allocator>>
    : std::type_identity<std::remove_cv_t<T>> {};
#elif defined(__GLIBCXX__)
template <class T, class Allocator, std::_Lock_policy Policy>
struct object_in_control_block<std::_Sp_counted_ptr_inplace<T, Allocator, Policy>>
    : std::type_identity<std::remove_cv_t<T>> {};
#endif

class standard_control_block {
public:
#if defined(_LIBCPP_VERSION)
    using base = std::__shared_weak_count;
    using count = long;
    static constexpr std::size_t k_counts = sizeof(void*);  // bytes in front of them
    static_assert(sizeof(base) == k_counts + 2 * sizeof(count));
    static constexpr count k_unobserved = 0;  // the second count, when there is no weak pointer

    static void add_weak(void* block) noexcept { static_cast<base*>(block)->__add_weak(); }
    static void release_weak(void* block) noexcept { static_cast<base*>(block)->__release_weak(); }
    // Requires a block of make_shared. True while the last owner frees the block, too: the counts are then as with one weak pointer.
    static bool is_only_weak(void const* block) noexcept {
        return __atomic_load_n(counts_of(block), __ATOMIC_RELAXED) == -1;
    }
#elif defined(__GLIBCXX__)
    using base = std::_Sp_counted_base<>;
    using count = int;
    static constexpr std::size_t k_counts = sizeof(base) - 2 * sizeof(count);  // bytes in front of them
    static_assert(k_counts == sizeof(void*) || std::__default_lock_policy == std::_S_mutex);
    static constexpr count k_unobserved =
        1;  // 0 when the last owner was the only reference and is about to free the block

    static void add_weak(void* block) noexcept { static_cast<base*>(block)->_M_weak_add_ref(); }
    static void release_weak(void* block) noexcept { static_cast<base*>(block)->_M_weak_release(); }
    // False while the last owner, which was the only reference, frees the block: both counts are 0 then.
    static bool is_only_weak(void const* block) noexcept {
        return __atomic_load_n(counts_of(block), __ATOMIC_RELAXED) == 0 &&
               __atomic_load_n(counts_of(block) + 1, __ATOMIC_RELAXED) != 0;
    }
#else
#error "pooled needs libstdc++ or libc++"
#endif
    // acquire: pairs with the release by a thread that dropped a weak pointer.
    static bool is_observed(void const* block) noexcept {
        return __atomic_load_n(counts_of(block) + 1, __ATOMIC_ACQUIRE) > k_unobserved;
    }
    static count const* counts_of(void const* block) noexcept {
        return reinterpret_cast<count const*>(static_cast<std::byte const*>(block) + k_counts);
    }

    // A control block with a deleter and an allocator has the object's address and the allocator.
    static constexpr std::size_t k_bytes_with_deleter = sizeof(base) + 2 * sizeof(void*);
    template <class T>
    static constexpr std::size_t k_object_offset = round_up(sizeof(base), alignof(T));
    template <class T>
    static constexpr std::size_t k_align = alignof(T) > alignof(base) ? alignof(T) : alignof(base);
    template <class T>
    static constexpr std::size_t k_bytes = round_up(k_object_offset<T> + sizeof(T), k_align<T>);
};

// The weak_ptr by which enable_shared_from_this knows its owner: its only member, private and not assignable from outside. In a
// standard-layout class, object and first member have the same address, and a pointer to one is convertible to a pointer to the
// other ([basic.compound]).
template <class X>
[[nodiscard]] std::weak_ptr<X>& owner_in(std::enable_shared_from_this<X> const& base) noexcept {
    using base_type = std::enable_shared_from_this<X>;
    static_assert(std::is_standard_layout_v<base_type> && sizeof(base_type) == sizeof(std::weak_ptr<X>) &&
                      alignof(base_type) == alignof(std::weak_ptr<X>),
                  "pooled: std::enable_shared_from_this of this standard library is not one std::weak_ptr");
    return *std::launder(reinterpret_cast<std::weak_ptr<X>*>(const_cast<base_type*>(std::addressof(base))));
}

// Derives from one std::enable_shared_from_this, accessible and unambiguous: what std::shared_ptr asks for, too.
template <class T>
concept shares_from_this = requires(T const& object) { detail::owner_in(object); };

POOLED_END_DETAIL
