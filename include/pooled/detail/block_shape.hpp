// SPDX-License-Identifier: BSL-1.0
#pragma once

// The size and alignment of the block that make_shared takes, for reserve().

#include "pooled/config.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The request of std::allocate_shared to its allocator, recorded by a probe: the standard libraries name their control blocks
// differently, but in each the layout depends only on the object's size, alignment and emptiness.
struct block_shape {
    std::size_t bytes = 0;
    std::size_t align = 0;
};

template <std::size_t Bytes, std::size_t Align>
struct alignas(Align) stand_in {
    stand_in() noexcept {}  // NOLINT: does not write the bytes
    std::byte bytes[Bytes];
};
template <std::size_t Align>
struct alignas(Align) empty_stand_in {};

inline thread_local block_shape t_probed{};

// Empty, like the allocators of the library.
template <class T>
struct shape_probe {
    using value_type = T;

    constexpr shape_probe() noexcept = default;
    template <class Other>
    constexpr shape_probe(shape_probe<Other> const&) noexcept {}  // NOLINT: as allocators do

    [[nodiscard]] T* allocate(std::size_t n) {
        t_probed = {n * sizeof(T), alignof(T)};
        return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{alignof(T)}));
    }
    void deallocate(T* p, std::size_t) noexcept { ::operator delete(p, std::align_val_t{alignof(T)}); }

    template <class Other>
    [[nodiscard]] friend constexpr bool operator==(shape_probe const&, shape_probe<Other> const&) noexcept {
        return true;
    }
};

// The block that make_shared<T> takes. The first call for a shape allocates with operator new. Throws std::bad_alloc.
template <class T>
[[nodiscard]] block_shape shared_block_shape() {
    using shape = std::conditional_t<std::is_empty_v<T> && !std::is_final_v<T>, empty_stand_in<alignof(T)>,
                                     stand_in<sizeof(T), alignof(T)>>;
    // Not a guarded static: a fork during its initialisation would leave it locked in the child. Two threads may both compute
    // it; the result is the same.
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

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
