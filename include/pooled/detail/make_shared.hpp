// SPDX-License-Identifier: BSL-1.0
#pragma once

// make_shared, from the default pool and from a given one: the object and its control block in one block of the pool,
// with 16 bytes of overhead in libstdc++ and libc++ (24 in libc++ for its array form).

#include "pooled/allocator.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/block_shape.hpp"
#include "pooled/detail/control_block.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/error.hpp"
#include "pooled/impl/instrument/stale_owner.hpp"
#include "pooled/pool.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#if !POOLED_HAS_EXCEPTIONS
#include "pooled/detail/make_elements.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/to_shared.hpp"
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE {

namespace detail {

template <class T>
using element_of = std::remove_cv_t<std::remove_extent_t<T>>;

// What the standard library makes: libstdc++ 12 cannot construct const elements, and a pointer to others converts.
template <class T>
using made_as = std::conditional_t<std::is_array_v<T>, std::remove_cv_t<T>, T>;

// Arrays and single objects differ in that the latter may be deferred when they are dropped.
template <class T, class Origin, initialise How = initialise::by_value>
using making_allocator =
    control_block_allocator<element_of<T>, Origin,
                            std::conditional_t<std::is_array_v<T>, void, std::remove_cv_t<T>>, How>;

template <class T, initialise How = initialise::by_value, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> allocate_shared_by_default(Args&&... args) {
    return std::allocate_shared<made_as<T>>(making_allocator<T, from_default, How>(),
                                            std::forward<Args>(args)...);
}

template <class T, sharing Sharing, initialise How = initialise::by_value,
          on_failure OnFailure = on_failure::throws, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> allocate_shared_in(pool_core& core, Args&&... args) {
    t_making = &core;
    if constexpr (!std::is_array_v<T> && k_is_deferrable_type<T>)
        if (!core.is_immediate() && detail::prepare_deferral(core)) [[unlikely]] {
            return std::allocate_shared<T>(making_allocator<T, from_pool<Sharing, OnFailure, false>, How>(),
                                           std::forward<Args>(args)...);
        }
    return std::allocate_shared<made_as<T>>(making_allocator<T, from_pool<Sharing, OnFailure>, How>(),
                                            std::forward<Args>(args)...);
}

#if POOLED_HAS_EXCEPTIONS

// The same, but empty if the pool itself had no memory. A std::bad_alloc of the object's constructor propagates.
template <class T, sharing Sharing, initialise How = initialise::by_value, class... Args>
[[nodiscard]] std::shared_ptr<T> try_allocate_shared_in(pool_core& core, Args&&... args) {
    POOLED_TRY {
        return detail::allocate_shared_in<T, Sharing, How, on_failure::marks_and_throws>(
            core, std::forward<Args>(args)...);
    }
    POOLED_CATCH(std::bad_alloc const&) {
        if (!std::exchange(t_making_failed, false)) POOLED_RETHROW;
        return {};
    }
}

#else

// Allocates t_given_block, for a control block.
inline constexpr std::size_t k_given_bytes = 128;
template <class T>
struct given_block_allocator {
    using value_type = T;

    constexpr given_block_allocator() noexcept = default;
    template <class Other>
    constexpr given_block_allocator(given_block_allocator<Other> const&) noexcept {
    }  // NOLINT: as allocators do

    [[nodiscard]] T* allocate(std::size_t) noexcept {
        static_assert(sizeof(T) <= k_given_bytes && alignof(T) <= alignof(std::max_align_t));
        return static_cast<T*>(std::exchange(t_given_block, nullptr));
    }
    void deallocate(T* p, std::size_t) noexcept {
        [[maybe_unused]] frees_control_block const how(0);
        detail::deallocate_found(p);
    }

    template <class Other>
    [[nodiscard]] friend constexpr bool operator==(given_block_allocator const&,
                                                   given_block_allocator<Other> const&) noexcept {
        return true;
    }
};

// Standard libraries do not specify the size of an array's block, so the control block of an array gets its own block.
template <class T, sharing Sharing, initialise How = initialise::by_value, class... Args>
[[nodiscard]] std::shared_ptr<T> try_allocate_shared_in(pool_core& core, Args&&... args) {
    using place = in_pool<Sharing>;
    if constexpr (std::is_array_v<T>) {
        auto elements = [&] {
            using enum on_failure;
            if constexpr (How == initialise::by_default)
                return detail::make_array<T, among_threads, Sharing, marks_and_throws>(core, args...,
                                                                                       for_overwrite());
            else
                return detail::make_array<T, among_threads, Sharing, marks_and_throws>(core, args...);
        }();
        if (elements == nullptr) return {};
        t_given_block = detail::try_allocate_bytes(place(core), k_given_bytes, alignof(std::max_align_t));
        if (t_given_block == nullptr) return {};
        auto* const first = elements.get();
        return std::shared_ptr<T>(first, drop_owner<rc_ptr<T>>{std::move(elements)},
                                  given_block_allocator<std::byte>());
    } else {
        block_shape const shape = detail::shared_block_shape<std::remove_cv_t<T>>();
        t_given_block = detail::try_allocate_bytes(place(core), shape.bytes, shape.align);
        if (t_given_block == nullptr) return {};
        return detail::allocate_shared_in<T, Sharing, How, on_failure::marks_and_throws>(
            core, std::forward<Args>(args)...);
    }
}

#endif

template <class T>
inline constexpr std::size_t k_max_count = k_size_max / 2 / sizeof(element_of<T>);

// The standard libraries add the control block to an array's size without a check.
template <class T>
[[nodiscard]] constexpr std::size_t checked_count(std::size_t count) {
    if (count > k_max_count<T>) POOLED_THROW(std::bad_array_new_length());
    return count;
}

// Always inlined, as for the default pool: a std::shared_ptr that is returned through memory is written in two halves, and a
// move from it then waits for both (store forwarding: 6.0 against 4.5 ns in E7).
template <sharing Sharing>
template <not_array T, class... Args>
POOLED_INLINE_ENTRY std::shared_ptr<T> basic_pool<Sharing>::make_shared(Args&&... args) {
    POOLED_ACQUISITION(detail::standard_control_block::is_only_weak);
    return detail::allocate_shared_in<T, Sharing>(*m_core, std::forward<Args>(args)...);
}

template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T> basic_pool<Sharing>::make_shared(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_in<T, Sharing>(*m_core, checked_count<T>(count));
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T>
basic_pool<Sharing>::make_shared(std::size_t count, std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_in<T, Sharing>(*m_core, checked_count<T>(count), value);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T> basic_pool<Sharing>::make_shared() {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_in<T, Sharing>(*m_core);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T>
basic_pool<Sharing>::make_shared(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_in<T, Sharing>(*m_core, value);
}
template <sharing Sharing>
template <of_known_size T>
POOLED_TRACKED_ENTRY std::shared_ptr<T> basic_pool<Sharing>::make_shared_for_overwrite() {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::standard_control_block::is_only_weak);
    return detail::allocate_shared_in<T, Sharing, initialise::by_default>(*m_core);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T> basic_pool<Sharing>::make_shared_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_in<T, Sharing, initialise::by_default>(*m_core, checked_count<T>(count));
}

template <sharing Sharing>
template <not_array T, class... Args>
POOLED_TRACKED_ENTRY std::shared_ptr<T> basic_pool<Sharing>::try_make_shared(Args&&... args) {
    POOLED_ACQUISITION(detail::standard_control_block::is_only_weak);
    return detail::try_allocate_shared_in<T, Sharing>(*m_core, std::forward<Args>(args)...);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T> basic_pool<Sharing>::try_make_shared(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    if (count > k_max_count<T>) return {};
    return detail::try_allocate_shared_in<T, Sharing>(*m_core, count);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T>
basic_pool<Sharing>::try_make_shared(std::size_t count, std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    if (count > k_max_count<T>) return {};
    return detail::try_allocate_shared_in<T, Sharing>(*m_core, count, value);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T> basic_pool<Sharing>::try_make_shared() {
    POOLED_ACQUISITION(nullptr);
    return detail::try_allocate_shared_in<T, Sharing>(*m_core);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T>
basic_pool<Sharing>::try_make_shared(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::try_allocate_shared_in<T, Sharing>(*m_core, value);
}
template <sharing Sharing>
template <of_known_size T>
POOLED_TRACKED_ENTRY std::shared_ptr<T> basic_pool<Sharing>::try_make_shared_for_overwrite() {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::standard_control_block::is_only_weak);
    return detail::try_allocate_shared_in<T, Sharing, initialise::by_default>(*m_core);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY std::shared_ptr<T>
basic_pool<Sharing>::try_make_shared_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    if (count > k_max_count<T>) return {};
    return detail::try_allocate_shared_in<T, Sharing, initialise::by_default>(*m_core, count);
}

// The blocks that the make_ forms of a single T take: make_shared's, and the one that make_unique and make_rc share. Throws
// std::bad_alloc.
template <class T>
[[nodiscard]] std::array<block_shape, 2> reserve_shapes() {
    using counted = counted_object<std::remove_cv_t<T>, from_default>;
    return {shared_block_shape<std::remove_cv_t<T>>(), block_shape{counted::k_bytes, counted::k_align}};
}

template <sharing Sharing>
template <class T>
void basic_pool<Sharing>::reserve(std::size_t count) {
    auto const [shared, counted] = detail::reserve_shapes<T>();
    detail::reserve_classes(
        *m_core, any_class_for(shared.bytes, shared.align), any_class_for(counted.bytes, counted.align),
        count, {detail::larger(shared.bytes, counted.bytes), detail::larger(shared.align, counted.align)});
}

template <class T>
concept pool_type =
    std::is_base_of_v<basic_pool<sharing::shared>, T> || std::is_base_of_v<basic_pool<sharing::local>, T>;

}  // namespace detail

// From the default pool. Thread-safe. Throws std::bad_alloc, and what the constructor throws.
template <detail::not_array T, class... Args>
[[nodiscard]] POOLED_INLINE_ENTRY std::shared_ptr<T> make_shared(Args&&... args) {
    POOLED_ACQUISITION(detail::standard_control_block::is_only_weak);
    return detail::allocate_shared_by_default<T>(std::forward<Args>(args)...);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_by_default<T>(detail::checked_count<T>(count));
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::size_t count,
                                                                  std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_by_default<T>(detail::checked_count<T>(count), value);
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared() {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_by_default<T>();
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_by_default<T>(value);
}
template <detail::of_known_size T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared_for_overwrite() {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::standard_control_block::is_only_weak);
    return detail::allocate_shared_by_default<T, detail::initialise::by_default>();
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::allocate_shared_by_default<T, detail::initialise::by_default>(
        detail::checked_count<T>(count));
}

// pool.make_shared<T>(...) in the form of std::allocate_shared. The latter also works, with a pool_allocator, but its control
// block then holds the allocator: 8 bytes more. Throws what make_shared throws. The parameter has the pool's own type, not its
// base: an unqualified call with an argument from std also finds std::allocate_shared, which would then match better.
template <detail::not_array T, detail::pool_type Pool, class... Args>
[[nodiscard]] POOLED_INLINE_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, Args&&... args) {
    POOLED_ACQUISITION(detail::standard_control_block::is_only_weak);
    return pool.template make_shared<T>(std::forward<Args>(args)...);
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared<T>(count);
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, std::size_t count,
                                                                      std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared<T>(count, value);
}
template <detail::bounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared<T>();
}
template <detail::bounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool,
                                                                      std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared<T>(value);
}

template <detail::of_known_size T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared_for_overwrite(Pool& pool) {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::standard_control_block::is_only_weak);
    return pool.template make_shared_for_overwrite<T>();
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared_for_overwrite(Pool& pool,
                                                                                    std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared_for_overwrite<T>(count);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
