// SPDX-License-Identifier: BSL-1.0
#pragma once

// The allocator behind pool.make_shared. It is empty, so std::shared_ptr's control block stays at 16 bytes; a pointer to
// the pool would cost 8 more. Where to allocate is said in a thread_local, for the one call; where to deallocate is asked
// of the address map.

#include "pooled/config.hpp"
#include "pooled/core/bits.hpp"
#include "pooled/core/size_class.hpp"
#include "pooled/pool/address_map.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/smart/allocator.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace pooled::detail {

// The pool of the allocate_shared that is about to allocate on this thread.
POOLED_EXPORT inline constinit thread_local pool_core* t_making = nullptr;

// What a caller learns from t_making when allocate_shared throws.
enum class making_mark {
    none,
    cleared_by_success,  // still set: the pool had no memory; null: the object's constructor threw
};

template <class T, sharing Sharing, making_mark Mark = making_mark::none>
class control_block_allocator {
public:
    using value_type = T;
    using is_always_equal = std::true_type;
    template <class U>
    struct rebind {
        using other = control_block_allocator<U, Sharing, Mark>;
    };

    constexpr control_block_allocator() noexcept = default;
    template <class U>
    constexpr control_block_allocator(control_block_allocator<U, Sharing, Mark> const&) noexcept {}  // NOLINT: as allocators do

    // Requires t_making.
    [[nodiscard]] T* allocate(std::size_t n) {
        pool_core& core = *t_making;
        T* p = nullptr;
        if (n == 1 && k_class_of<T> != k_large) [[likely]]
            p = static_cast<T*>(pop_or_throw<Sharing>(core, k_class_of<T>, sizeof(T)));
        else
            p = allocate_array<T, Sharing>(core, n);
        if constexpr (Mark == making_mark::cleared_by_success) t_making = nullptr;
        return p;
    }

    void deallocate(T* p, std::size_t n) noexcept {
        map_entry const entry = g_address_map.find_owned(p);
        if (n != 1 || k_class_of<T> == k_large) [[unlikely]]
            return deallocate_array<T, Sharing>(*g_registry.find(entry.pool_id()), p, n);
        push_found<Sharing>(entry, k_class_of<T>, p);
    }

    template <class U>
    [[nodiscard]] friend constexpr bool operator==(control_block_allocator const&,
                                                   control_block_allocator<U, Sharing, Mark> const&) noexcept {
        return true;
    }
};

// What std::allocate_shared asks its allocator for, found by letting it ask: the standard libraries name their control
// blocks differently, but each lays one out by the object's size, alignment and emptiness alone.
struct block_shape {
    std::size_t bytes = 0;
    std::size_t align = 0;
};

template <std::size_t Bytes, std::size_t Align>
struct alignas(Align) stand_in {
    stand_in() noexcept {}  // NOLINT: leaves the bytes alone
    std::byte bytes[Bytes];
};
template <std::size_t Align>
struct alignas(Align) empty_stand_in {};

inline thread_local block_shape t_probed{};

// Empty, as the allocators of the library are.
template <class T>
struct shape_probe {
    using value_type = T;

    constexpr shape_probe() noexcept = default;
    template <class U>
    constexpr shape_probe(shape_probe<U> const&) noexcept {}  // NOLINT: as allocators do

    [[nodiscard]] T* allocate(std::size_t n) {
        t_probed = {n * sizeof(T), alignof(T)};
        return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{alignof(T)}));
    }
    void deallocate(T* p, std::size_t) noexcept { ::operator delete(p, std::align_val_t{alignof(T)}); }

    template <class U>
    [[nodiscard]] friend constexpr bool operator==(shape_probe const&, shape_probe<U> const&) noexcept {
        return true;
    }
};

// The block that make_shared<T> takes. The first call for a shape allocates with operator new. Throws std::bad_alloc.
template <class T>
[[nodiscard]] block_shape shared_block_shape() {
    using shape = std::conditional_t<std::is_empty_v<T> && !std::is_final_v<T>, empty_stand_in<alignof(T)>,
                                     stand_in<sizeof(T), alignof(T)>>;
    static block_shape const found = [] {
        static_cast<void>(std::allocate_shared<shape>(shape_probe<shape>{}));
        return t_probed;
    }();
    return found;
}

}  // namespace pooled::detail
