// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the elements of arrays are constructed and destroyed, and the layout of an array of make_unique or make_rc in its block. One of make_rc has
// the header of a single object, so the same pointers count it.
//
//   block  | count: 8 | padding to alignof(T) | header: 8, or none | element 0 | element 1 | …
//
// T is an element without extents: the rows of int[n][4] are 4 n elements. Elements are destroyed from last to first. An array is
// never deferred; objects that its elements own may be. Any thread that may use the pool may call; O(elements).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/impl/instrument/hardened.hpp"
#include "pooled/impl/teardown/block_type.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The element of an array without its extents; the number of them in `rows` elements of T[], k_size_max if that exceeds the address
// space.
template <class T>
using element_of = std::remove_cv_t<std::remove_all_extents_t<T>>;
template <class T, class Element = element_of<T>>
[[nodiscard]] constexpr std::size_t elements_in(auto const& rows) noexcept {
    constexpr std::size_t row_bytes = sizeof(std::remove_extent_t<T>);
    return saturating_multiply(static_cast<std::size_t>(rows), row_bytes / sizeof(Element));
}

// Initial values of elements, besides copies of a row.
struct by_value {};
struct for_overwrite {};

template <class T, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE T* construct_in(void* place, Args&&... args) {
    // std::construct_at is in a system header, so conversions of the user's arguments cause no warning here.
    return std::construct_at(static_cast<T*>(place), std::forward<Args>(args)...);
}
template <class T>
[[nodiscard]] POOLED_ALWAYS_INLINE T* construct_in(void* place, for_overwrite) {
    return ::new (place) T;
}

template <class T, std::size_t Header = 0>
struct counted_array {
    using element = T;
    static constexpr std::size_t k_offset = detail::larger(alignof(T), sizeof(std::size_t) + Header);
    static constexpr std::size_t k_align = detail::larger(alignof(T), alignof(std::size_t));

    [[nodiscard]] static type_tag tag() noexcept { return k_no_type; }
    // Requires elements just constructed in the block.
    static void set_header(void* block, std::size_t count, type_tag) noexcept {
        ::new (block) std::size_t(count);
    }
    [[nodiscard]] static T* first_in(void* block) noexcept {
        return reinterpret_cast<T*>(static_cast<std::byte*>(block) + k_offset);
    }
    [[nodiscard]] static void* block_of(T* first) noexcept {
        return reinterpret_cast<std::byte*>(first) - k_offset;
    }
    // Requires a block in use whose count was written.
    [[nodiscard]] static std::size_t count_in(void* block) noexcept {
        instrument::expect_in_use(block);
        return *static_cast<std::size_t const*>(block);
    }

    POOLED_ALWAYS_INLINE static void destroy(T* first, std::size_t count) noexcept {
        if constexpr (!std::is_trivially_destructible_v<T>)
            for (std::size_t i = count; i-- != 0;)
                std::destroy_at(first + i);
    }
};

// Constructs elements in ascending order, from what a Row, which may itself be an array, is initialised with. If that throws, destroys the
// elements before it from last to first, as std::make_shared does; libstdc++'s own algorithms destroy from first to last.
template <class Row, class T, class Initial>
void construct_rows(T* first, std::size_t count, Initial const& initial) {
    struct constructed {
        T* first;
        std::size_t count = 0;
        ~constructed() { counted_array<T>::destroy(first, count); }
    } made{first};
    for (; made.count != count; ++made.count) {
        // Not std::uninitialized_value_construct_n: libstdc++'s finds functions of the element's namespace by its argument.
        void* const place = first + made.count;
        if constexpr (std::is_same_v<Initial, by_value>)
            ::new (place) T();
        else if constexpr (std::is_same_v<Initial, for_overwrite>)
            ::new (place) T;
        else
            std::construct_at(static_cast<T*>(place), reinterpret_cast<T const*>(std::addressof(
                                                          initial))[made.count % (sizeof(Row) / sizeof(T))]);
    }
    made.count = 0;
}

template <class T>
class counted_elements : public counted_array<T, sizeof(count_header)> {
    using array = counted_array<T, sizeof(count_header)>;

public:
    [[nodiscard]] static type_tag tag() { return tag_or_throw<k_type>(); }
    static void set_header(void* block, std::size_t count, type_tag type) noexcept {
        array::set_header(block, count, type);
        ::new (static_cast<void*>(static_cast<std::byte*>(block) + array::k_offset - sizeof(count_header)))
            count_header{count_header::k_sole | type};
    }

private:
    static void* block_of(void* header) noexcept {
        return static_cast<std::byte*>(header) + sizeof(count_header) - array::k_offset;
    }
    static void destroy_in(void* header) noexcept {
        void* const block = block_of(header);
        array::destroy(std::launder(array::first_in(block)), array::count_in(block));
    }

    static void retire(void* header) noexcept {
        destroy_in(header);
        free(header);
    }
    static void retire_observed(void* header) noexcept {
        destroy_in(header);
        static_cast<count_header*>(header)->release_weak();
    }
    static void free(void* header) noexcept {
        instrument::mark_header(header);
        detail::deallocate_found(block_of(header));
    }

    static constexpr block_type k_type{.retire = retire,
                                       .retire_observed = retire_observed,
                                       .finish = nullptr,
                                       .finish_observed = nullptr,
                                       .free = free,
                                       .object_offset = sizeof(count_header),
                                       .object_bytes = 0};
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
