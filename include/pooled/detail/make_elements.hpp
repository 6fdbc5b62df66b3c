// SPDX-License-Identifier: BSL-1.0
#pragma once

// Creates an array for make_rc or make_unique: its block, its elements, its header. `rows` counts the elements of T, which may themselves be
// arrays; each may be a copy of a given row. If a constructor throws, the elements before it are destroyed and the block returns
// to the pool.

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/control_block.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/counted_elements.hpp"
#include "pooled/detail/counted_ptr.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/handle.hpp"
#include "pooled/detail/make_counted.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/error.hpp"
#include "pooled/fwd.hpp"
#include "pooled/impl/teardown/block_type.hpp"
#include "pooled/unique_ptr.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Calls construct(p) for each element in ascending order. If that throws, destroys the elements before it from last to first,
// as std::make_shared does; libstdc++'s own algorithms destroy from first to last.
template <class T, class Construct>
void construct_each(T* first, std::size_t count, Construct&& construct) {
    struct constructed {
        T* first;
        std::size_t count = 0;
        ~constructed() { counted_array<T>::destroy(first, count); }
    } made{first};
    for (; made.count != count; ++made.count)
        construct(first + made.count);
    made.count = 0;
}

// Not std::uninitialized_value_construct_n: libstdc++'s finds functions of the element's namespace by its argument.
template <initialise How, class T>
void construct_elements(T* first, std::size_t count) {
    detail::construct_each(first, count, [](T* p) {
        if constexpr (How == initialise::by_value)
            ::new (static_cast<void*>(p)) T();
        else
            ::new (static_cast<void*>(p)) T;
    });
}

template <class Row, class T>
void construct_rows(T* first, std::size_t count) {
    detail::construct_elements<initialise::by_value>(first, count);
}
template <class Row, class T>
void construct_rows(T* first, std::size_t count, for_overwrite) {
    detail::construct_elements<initialise::by_default>(first, count);
}
template <class Row, class T>
void construct_rows(T* first, std::size_t count, Row const& value) {
    constexpr std::size_t k_row = sizeof(Row) / sizeof(T);
    auto const* const source = reinterpret_cast<T const*>(std::addressof(value));
    detail::construct_each(first, count, [&](T* p) {
        std::construct_at(p, source[static_cast<std::size_t>(p - first) % k_row]);
    });
}

// A block whose size depends on a number of elements; k_size_max: it exceeds the address space. Throws std::bad_array_new_length
// then, and what the pool throws; or is null.
template <sharing Sharing, on_failure OnFailure>
[[nodiscard]] void* allocate_elements(pool_core& core, std::size_t bytes, std::size_t align) {
    if constexpr (OnFailure == on_failure::throws) {
        if (bytes == k_size_max) POOLED_THROW(std::bad_array_new_length());
        return detail::allocate_bytes_or_throw(detail::in_pool<Sharing>(core), bytes, align);
    } else {
        if (bytes == k_size_max) return nullptr;
        return detail::try_allocate_bytes(detail::in_pool<Sharing>(core), bytes, align);
    }
}

// T: an array type; Initial: nothing, for_overwrite, or the value of a row. Throws std::bad_array_new_length if the rows exceed
// the address space, and what the pool and a constructor throw.
template <class T, class Counting, sharing Sharing, on_failure OnFailure, class... Initial>
[[nodiscard]] rc_ptr_of<T, Counting> make_elements(pool_core& core, std::size_t rows,
                                                   Initial const&... initial) {
    using element = std::remove_cv_t<std::remove_all_extents_t<T>>;
    using row = std::remove_cv_t<std::remove_extent_t<T>>;
    using elements = counted_elements<element, from_pool<Sharing>>;
    std::size_t const count = saturating_multiply(rows, sizeof(row) / sizeof(element));
    std::size_t const bytes = elements::bytes_of(count);
    type_tag const type = elements::tag();
    void* const block = detail::allocate_elements<Sharing, OnFailure>(core, bytes, elements::k_align);
    if (block == nullptr) return {};
    held_block<from_pool<Sharing>> held(block, bytes, elements::k_align);
    element* const first = elements::first_in(block);
    detail::construct_rows<row>(first, count, initial...);
    held.release();
    elements::set_header(block, count, type);
    auto* const start = reinterpret_cast<std::remove_extent_t<T>*>(first);
    return rc_access::adopt<T, Counting>(handle<std::remove_extent_t<T>>(start, start));
}

// As make_elements(); `rows` is the first argument unless the type contains it.
template <class T, class Counting, sharing Sharing, on_failure OnFailure, class... Args>
[[nodiscard]] rc_ptr_of<T, Counting> make_array(pool_core& core, Args const&... args) {
    if constexpr (std::is_bounded_array_v<T>)
        return detail::make_elements<T, Counting, Sharing, OnFailure>(core, std::extent_v<T>, args...);
    else
        return detail::make_elements<T, Counting, Sharing, OnFailure>(core, args...);
}

template <class T, sharing Sharing, on_failure OnFailure, initialise How = initialise::by_value>
[[nodiscard]] unique_ptr<T> make_unique_array(pool_core& core, std::size_t count) {
    using array = counted_array<std::remove_cv_t<std::remove_extent_t<T>>>;
    std::size_t const bytes = array::bytes_of(count);
    void* const memory = detail::allocate_elements<Sharing, OnFailure>(core, bytes, array::k_align);
    if (memory == nullptr) return {};
    held_block<from_pool<Sharing>> block(memory, bytes, array::k_align);
    auto* const first = array::first_in(memory);
    detail::construct_elements<How>(first, count);
    ::new (memory) std::size_t(count);
    block.release();
    return unique_ptr<T>(first);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
