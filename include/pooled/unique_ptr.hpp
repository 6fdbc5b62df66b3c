// SPDX-License-Identifier: BSL-1.0
#pragma once

// unique_ptr<T>: a std::unique_ptr of 8 bytes for objects of any pool. Its deleter is empty: the word in front of the object says
// how to destroy it and where to return its block, and has space for the counts of an rc_ptr.
//
// It converts to a unique_ptr of any base that has a virtual destructor, also one that is not at the object's start. Other bases
// are refused at compile time, since the object could not be destroyed through them.

#include "pooled/fwd.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/drop.hpp"

POOLED_BEGIN_NAMESPACE

namespace detail {

// T is the pointer's type; the object may be of a class derived from it.
template <class T>
inline constexpr bool k_may_be_derived = std::is_polymorphic_v<T> && !std::is_final_v<T>;

// The start of the complete object that `p` points into.
template <class T>
[[nodiscard]] POOLED_ALWAYS_INLINE void* start_of(T* p) noexcept {
    if constexpr (k_may_be_derived<T>)
        return const_cast<void*>(dynamic_cast<void const volatile*>(p));
    else
        return const_cast<std::remove_cv_t<T>*>(p);
}

}  // namespace detail

// Destroys an object that a pool's make_unique made, and frees its block. As thread-safe as the pool.
template <class T>
struct deleter {
    constexpr deleter() noexcept = default;

    template <class Other>
        requires std::convertible_to<Other*, T*>
    constexpr deleter(deleter<Other> const&) noexcept {  // NOLINT: as std::default_delete converts
        static_assert(std::same_as<std::remove_cv_t<Other>, std::remove_cv_t<T>> ||
                          std::has_virtual_destructor_v<T>,
                      "pooled::unique_ptr: a base without a virtual destructor cannot own an object of a "
                      "derived class");
    }

    void operator()(T* p) const noexcept {
        static_assert(sizeof(T) > 0, "pooled::unique_ptr: T must be complete where the pointer is destroyed");
        void* const header = static_cast<std::byte*>(detail::start_of(p)) - sizeof(detail::count_header);
        detail::instrument::drop(header);
        auto& counts = *static_cast<detail::count_header*>(header);
        std::uint64_t const word = counts.word.load(std::memory_order_relaxed);
        if constexpr (POOLED_CHECKED != 0) {
            // The block of a deferred object is still in use: its header records the drop, by a strong count that no unique_ptr has.
            // The weak count stays, for an object that observes itself.
            POOLED_CHECK(
                word - detail::count_header::k_unique < detail::k_type_numbers,
                "pooled: a unique_ptr does not own its object: it was dropped before (double free); look for "
                "a second owner");
            counts.word.store(word - detail::count_header::k_strong_one, std::memory_order_relaxed);
        }
        if constexpr (std::is_trivially_destructible_v<T>)
            static_cast<void>(counts.retires(word, detail::count_header::k_unique));
        else
            detail::g_block_types[detail::number_in(word)].retire(header);
    }
};

// Arrays.
template <class T>
struct deleter<T[]> {
    constexpr deleter() noexcept = default;

    template <class Other>
        requires std::convertible_to<Other (*)[], T (*)[]>
    constexpr deleter(deleter<Other[]> const&) noexcept {}  // NOLINT: as std::default_delete converts

    void operator()(T* p) const noexcept {
        using array = detail::counted_array<std::remove_cv_t<T>>;
        auto* const elements = const_cast<std::remove_cv_t<T>*>(p);
        void* const block = array::block_of(elements);
        detail::instrument::drop_array(block);
        array::destroy(elements, array::count_in(block));
        detail::deallocate_found(block);
    }
};

POOLED_END_NAMESPACE
