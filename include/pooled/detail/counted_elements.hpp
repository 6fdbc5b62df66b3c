// SPDX-License-Identifier: BSL-1.0
#pragma once

// The layout of an array of make_unique or make_rc in its block. One of make_rc has the header of a single object, so the same
// pointers count it.
//
//   block  | count: 8 | padding to alignof(T) | header: 8, or none | element 0 | element 1 | …
//
// T is an element without extents: the rows of int[n][4] are 4 n elements. Elements are destroyed from last to first. An array is
// never deferred; objects that its elements own may be. Any thread that may use the pool may call; O(elements).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/error.hpp"
#include "pooled/impl/instrument/hardened.hpp"
#include "pooled/impl/teardown/block_type.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <class T, std::size_t Header = 0>
struct counted_array {
    static constexpr std::size_t k_offset = detail::larger(alignof(T), sizeof(std::size_t) + Header);
    static constexpr std::size_t k_align = detail::larger(alignof(T), alignof(std::size_t));

    // The bytes of a block of `count` elements; k_size_max if they exceed the address space.
    [[nodiscard]] static constexpr std::size_t bytes_of(std::size_t count) noexcept {
        return saturating_add(saturating_multiply(count, sizeof(T)), k_offset);
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

template <class T, class Origin>
class counted_elements : public counted_array<T, sizeof(count_header)> {
    using array = counted_array<T, sizeof(count_header)>;

public:
    [[nodiscard]] static type_tag tag() { return tag_or_throw<k_type>(); }

    // Requires elements just constructed in the block.
    static void set_header(void* block, std::size_t count, type_tag type) noexcept {
        ::new (block) std::size_t(count);
        ::new (static_cast<void*>(static_cast<std::byte*>(block) + array::k_offset - sizeof(count_header)))
            count_header{count_header::k_sole | type};
    }

private:
    static void* block_of(void* header) noexcept {
        return static_cast<std::byte*>(header) + sizeof(count_header) - array::k_offset;
    }
    static void destroy_in(void* block) noexcept {
        array::destroy(std::launder(array::first_in(block)), array::count_in(block));
    }

    static void retire(void* header) noexcept {
        destroy_in(block_of(header));
        free(header);
    }
    static void retire_observed(void* header) noexcept {
        destroy_in(block_of(header));
        static_cast<count_header*>(header)->release_weak();
    }
    static void free(void* header) noexcept {
        std::size_t const bytes = array::bytes_of(array::count_in(block_of(header)));
        instrument::mark_header(header);
        Origin::deallocate_block(block_of(header), bytes, array::k_align);
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
