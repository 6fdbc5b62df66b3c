// SPDX-License-Identifier: BSL-1.0
#pragma once

// The layout of an array of make_rc in its block. It has the header of a single object, so the same pointers count it; the number
// of elements precedes the header.
//
//   block  | padding to alignof(T), none up to 16 | count: 8 | header: 8 | element 0 | element 1 | …
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

template <class T, class Origin>
class counted_elements {
public:
    static constexpr std::size_t k_offset =
        detail::larger(alignof(T), sizeof(std::size_t) + sizeof(count_header));
    static constexpr std::size_t k_align = detail::larger(alignof(T), alignof(count_header));

    // The bytes of a block of `count` elements; k_size_max if they exceed the address space.
    [[nodiscard]] static constexpr std::size_t bytes_of(std::size_t count) noexcept {
        return saturating_add(saturating_multiply(count, sizeof(T)), k_offset);
    }

    [[nodiscard]] static type_tag tag() { return tag_or_throw<k_type>(); }

    [[nodiscard]] static T* first_in(void* block) noexcept {
        return reinterpret_cast<T*>(static_cast<std::byte*>(block) + k_offset);
    }

    // Requires elements just constructed at first_in().
    static void set_header(T* first, std::size_t count, type_tag type) noexcept {
        std::byte* const header = reinterpret_cast<std::byte*>(first) - sizeof(count_header);
        ::new (static_cast<void*>(header - sizeof(count))) std::size_t(count);
        ::new (static_cast<void*>(header)) count_header{count_header::k_sole | type};
    }

    static void destroy(T* first, std::size_t count) noexcept {
        if constexpr (!std::is_trivially_destructible_v<T>)
            for (std::size_t i = count; i-- != 0;)
                std::destroy_at(first + i);
    }

private:
    static T* first_of(void* header) noexcept {
        return std::launder(reinterpret_cast<T*>(static_cast<std::byte*>(header) + sizeof(count_header)));
    }
    static void* block_of(void* header) noexcept {
        return static_cast<std::byte*>(header) + sizeof(count_header) - k_offset;
    }
    static std::size_t count_of(void* header) noexcept {
        hardened::expect_in_use(block_of(header));
        return *reinterpret_cast<std::size_t const*>(static_cast<std::byte*>(header) - sizeof(std::size_t));
    }

    static void retire(void* header) noexcept {
        destroy(first_of(header), count_of(header));
        free(header);
    }
    static void retire_observed(void* header) noexcept {
        destroy(first_of(header), count_of(header));
        static_cast<count_header*>(header)->release_weak();
    }
    static void free(void* header) noexcept {
        std::size_t const bytes = bytes_of(count_of(header));
#if POOLED_HARDENED
        hardened::mark_header(header);
#endif
        // The header is not the first word, whatever the alignment.
        Origin::deallocate_block(block_of(header), bytes, k_align, hardened::origin::padded_object);
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
