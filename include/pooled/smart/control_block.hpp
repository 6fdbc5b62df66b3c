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

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace pooled::detail {

// The pool of the allocate_shared that is about to allocate on this thread.
POOLED_EXPORT inline constinit thread_local pool_core* t_making = nullptr;

// Set when the allocation itself of a try_make_shared fails: it must be told from a constructor that throws the like.
inline constinit thread_local bool t_making_failed = false;

enum class on_failure : bool { throws, marks_and_throws };

template <class T, sharing Sharing, on_failure OnFailure = on_failure::throws>
class control_block_allocator {
public:
    using value_type = T;
    using is_always_equal = std::true_type;
    template <class U>
    struct rebind {
        using other = control_block_allocator<U, Sharing, OnFailure>;
    };

    constexpr control_block_allocator() noexcept = default;
    template <class U>
    constexpr control_block_allocator(control_block_allocator<U, Sharing, OnFailure> const&) noexcept {
    }  // NOLINT: as allocators do

    // Requires t_making.
    [[nodiscard]] T* allocate(std::size_t n) {
        pool_core& core = *t_making;
        if constexpr (OnFailure == on_failure::marks_and_throws) {
            void* const p = try_allocate_bytes<Sharing>(core, array_bytes<T>(n), alignof(T));
            t_making_failed = p == nullptr;
            if (p == nullptr) throw std::bad_alloc();
            return static_cast<T*>(p);
        }
        if (n == 1 && k_class_of<T> != k_large) [[likely]]
            return static_cast<T*>(pop_or_throw<Sharing>(core, k_class_of<T>, sizeof(T)));
        return allocate_array<T, Sharing>(core, n);
    }

    void deallocate(T* p, std::size_t n) noexcept {
        map_entry const entry = g_address_map.find_owned(p);
        if (n != 1 || k_class_of<T> == k_large) [[unlikely]]
            return deallocate_array<T, Sharing>(*g_registry.find(entry.pool_id()), p, n);
        push_found<Sharing>(entry, k_class_of<T>, p);
    }

    template <class U>
    [[nodiscard]] friend constexpr bool
    operator==(control_block_allocator const&,
               control_block_allocator<U, Sharing, OnFailure> const&) noexcept {
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
    // Not a guarded static: a fork in the midst of its initialisation would leave it locked in the child. Two threads may
    // both look; they find the same.
    static constinit std::atomic<std::size_t> bytes{0};
    static constinit std::atomic<std::size_t> align{0};
    if (bytes.load(std::memory_order_acquire) ==
        0) {  // acquire: pairs with the release below; `align` is seen
        static_cast<void>(std::allocate_shared<shape>(shape_probe<shape>{}));
        align.store(t_probed.align, std::memory_order_relaxed);
        bytes.store(t_probed.bytes, std::memory_order_release);
    }
    return {bytes.load(std::memory_order_relaxed), align.load(std::memory_order_relaxed)};
}

}  // namespace pooled::detail
