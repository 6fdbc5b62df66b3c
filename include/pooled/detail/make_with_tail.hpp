// SPDX-License-Identifier: BSL-1.0
#pragma once

// make_shared_with_tail<T, Element>(count, arguments of T…), make_unique_with_tail, make_rc_with_tail: an object and an array whose length
// is known at run time, in one block; a packet's header and as many bytes as arrived.
//
//   control block or header | T | count: 8 | padding to Element | Element 0 | Element 1 | … |
//
// The object is a with_tail<T, Element>, which derives from T: pointers to it convert to pointers to T, and all that counts, defers and
// destroys objects does so with this one. tail(p) (tail.hpp) gives the array. The Elements are made after the T, in ascending order, and destroyed
// before it, in descending order; also if a constructor throws. The block's size is not kept: the pool knows it by the address.
//
// As thread-safe as the pool. O(count), or O(1) where nothing is to be initialised or destroyed.

#include "pooled/config.hpp"
#include "pooled/destroy_in_place.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/block_shape.hpp"
#include "pooled/detail/control_block.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/counted_elements.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/make_counted.hpp"
#include "pooled/detail/make_elements.hpp"
#include "pooled/detail/make_rc.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/detail/standard_control_block.hpp"
#include "pooled/fwd.hpp"
#include "pooled/impl/teardown/block_type.hpp"
#include "pooled/rc_ptr.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE {

namespace detail {

// How many elements a constructor of with_tail makes, and how.
template <initialise How>
struct tail_length {
    std::size_t count;
};

template <class Element>
class tail_elements;
template <class Element>
[[nodiscard]] std::remove_const_t<Element>* first_of(tail_elements<Element>& tail) noexcept {
    return reinterpret_cast<std::remove_const_t<Element>*>(round_up(address_of(&tail + 1), alignof(Element)));
}

// The last base of with_tail: the elements lie after it. Its only name is one that no T has.
template <class Element>
class tail_elements {
public:
    template <initialise How>
    explicit tail_elements(tail_length<How> made) : pooled_tail_count(made.count) {
        detail::construct_elements<How>(detail::first_of(*this), pooled_tail_count);
    }
    tail_elements(tail_elements const&) = delete;
    tail_elements& operator=(tail_elements const&) = delete;
    ~tail_elements()
        requires std::is_trivially_destructible_v<Element>
    = default;
    ~tail_elements() {
        counted_elements<std::remove_const_t<Element>, from_default>::destroy(detail::first_of(*this),
                                                                              pooled_tail_count);
    }

    std::size_t const pooled_tail_count;
};

}  // namespace detail

// The constructors' parameters may have the name of a member of T, and T's constructor may convert its arguments.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

// A T followed by a number of Element. Made by the functions below alone: its own size does not include the Elements. T is a class that can be
// derived from.
template <class T, class Element>
class alignas(detail::larger(detail::larger(alignof(T), alignof(Element)),
                             alignof(std::size_t))) with_tail final : public T,
                                                                      public detail::tail_elements<Element> {
    static_assert(std::is_class_v<T> && !std::is_final_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T>,
                  "pooled::with_tail: T must be a class that is not final");
    static_assert(std::is_object_v<Element> && !std::is_array_v<Element> && !std::is_volatile_v<Element>,
                  "pooled::with_tail: Element must be an object type and no array");
    using tail_base = detail::tail_elements<Element>;

public:
    template <detail::initialise How, class... Args>
    explicit with_tail(detail::tail_length<How> made, Args&&... args)
        : T(std::forward<Args>(args)...), tail_base(made) {}
    explicit with_tail(detail::tail_length<detail::initialise::by_default> made)  // NOLINT: T is not written
        : tail_base(made) {}
};

#pragma GCC diagnostic pop

// One with a tail is destroyed in place if either part must be.
template <class T, class Element>
inline constexpr bool destroy_in_place<with_tail<T, Element>> =
    destroy_in_place<T> || destroy_in_place<std::remove_const_t<Element>>;

namespace detail {

// What make_shared_with_tail<T, Element> and its like make.
template <class T, class Element>
using tailed = std::conditional_t<std::is_const_v<T>, with_tail<std::remove_cv_t<T>, Element> const,
                                  with_tail<T, Element>>;

// The bytes of a block in which `count` elements follow `bytes` of an Object and of what precedes it; k_size_max if they exceed the
// address space.
template <class Element>
[[nodiscard]] constexpr std::size_t bytes_with_tail(std::size_t bytes, std::size_t count) noexcept {
    return saturating_add(bytes, saturating_multiply(count, sizeof(Element)));
}

template <class Object>
[[nodiscard]] bool is_to_be_deferred([[maybe_unused]] pool_core& core) {
    if constexpr (k_is_deferrable_type<Object>) return !core.is_immediate() && detail::prepare_deferral(core);
    return false;
}

template <class T, class Element, sharing Sharing, on_failure OnFailure, initialise How, class... Args>
[[nodiscard]] std::shared_ptr<tailed<T, Element>> make_shared_with_tail(pool_core& core, std::size_t count,
                                                                        Args&&... args) {
    using object = std::remove_cv_t<tailed<T, Element>>;
    using control = standard_control_block;
    bool const is_deferred = detail::is_to_be_deferred<object>(core);
    block_shape const shape = control::k_is_known
                                  ? block_shape{control::k_bytes<object>, control::k_align<object>}
                                  : detail::shared_block_shape<object>();
    void* const block = detail::allocate_elements<Sharing, OnFailure>(
        core, detail::bytes_with_tail<Element>(shape.bytes, count), shape.align);
    if (block == nullptr) return {};
    t_given_block = block;
    tail_length<How> const length{count};
    if constexpr (k_is_deferrable_type<object>)
        if (is_deferred) [[unlikely]]
            return std::allocate_shared<tailed<T, Element>>(
                control_block_allocator<object, given_block<false>>(), length, std::forward<Args>(args)...);
    return std::allocate_shared<tailed<T, Element>>(control_block_allocator<object, given_block<>>(), length,
                                                    std::forward<Args>(args)...);
}

// `counts`: count_header::k_sole or k_unique.
template <class T, class Element, sharing Sharing, on_failure OnFailure, initialise How, class... Args>
[[nodiscard]] with_tail<std::remove_cv_t<T>, Element>*
make_counted_with_tail(pool_core& core, std::uint64_t counts, std::size_t count, Args&&... args) {
    using object = std::remove_cv_t<tailed<T, Element>>;
    using counted = counted_object<object, given_block<>>;
    type_tag const type = detail::is_to_be_deferred<object>(core)
                              ? counted_object<object, given_block<false>>::tag()
                              : counted::tag();
    void* const block = detail::allocate_elements<Sharing, OnFailure>(
        core, detail::bytes_with_tail<Element>(counted::k_bytes, count), counted::k_align);
    if (block == nullptr) return nullptr;
    return detail::construct_counted<object, given_block<>>(block, type, counts, tail_length<How>{count},
                                                            std::forward<Args>(args)...);
}

}  // namespace detail

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
