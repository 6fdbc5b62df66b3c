// SPDX-License-Identifier: BSL-1.0
#pragma once

// with_tail<T, Element>, which make_shared_with_tail<T, Element>(count, arguments of T…) and its like make: an object and an array whose
// length is known at run time, in one block; a packet's header and as many bytes as arrived. tail(p) of <pooled/tail.hpp> gives the array.
//
//   control block or header | T | count: 8 | padding to Element | Element 0 | Element 1 | … |
//
// with_tail derives from T: pointers to it convert to pointers to T, and all that counts, defers and destroys objects does so with this
// one. The Elements are made after the T, in ascending order, and destroyed before it, in descending order; also if a constructor
// throws. The block's size is not kept: the pool knows it by the address.
//
// They are as thread-safe as the pool. O(count), or O(1) where nothing is to be initialised or destroyed.

#include "pooled/destroy_in_place.hpp"
#include "pooled/fwd.hpp"
#include "pooled/smart/counted_object.hpp"

POOLED_BEGIN_NAMESPACE

namespace detail {

// How many elements a constructor makes, and how: see construct_rows().
template <class Row, class Initial>
struct tail_length {
    std::size_t count;
    Initial const& initial;
};

// The last base of with_tail: the elements lie after it. Its only names are ones that no T has.
template <class Element>
class tail_elements {
public:
    using pooled_tail_element = std::remove_const_t<Element>;

    template <class Row, class Initial>
    explicit tail_elements(tail_length<Row, Initial> made) : pooled_tail_count(made.count) {
        detail::construct_rows<Row>(pooled_tail_first(), made.count, made.initial);
    }
    tail_elements(tail_elements const&) = delete;
    tail_elements& operator=(tail_elements const&) = delete;
    ~tail_elements()
        requires std::is_trivially_destructible_v<Element>
    = default;
    ~tail_elements() { counted_array<pooled_tail_element>::destroy(pooled_tail_first(), pooled_tail_count); }

    [[nodiscard]] pooled_tail_element* pooled_tail_first() noexcept {
        return reinterpret_cast<pooled_tail_element*>(
            round_up(detail::address_of(this + 1), alignof(Element)));
    }

    std::size_t const pooled_tail_count;
};

// What a std::shared_ptr to an array owns: the tail of nothing.
template <class Element>
struct alignas(detail::larger(alignof(Element), alignof(std::size_t))) shared_elements
    : tail_elements<Element> {
    using tail_elements<Element>::tail_elements;
};

}  // namespace detail

// The constructors' parameters may have the name of a member of T, and T's constructor may convert its arguments.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

// A T followed by a number of Element. Made by make_ functions alone: its own size does not include the Elements. T is a class that can be
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
    template <class Row, class Initial, class... Args>
    explicit with_tail(detail::tail_length<Row, Initial> made, Args&&... args)
        : T(std::forward<Args>(args)...), tail_base(made) {}
    template <class Row>
    explicit with_tail(detail::tail_length<Row, detail::for_overwrite> made)  // NOLINT: T is not written
        : tail_base(made) {}
};

#pragma GCC diagnostic pop

// One with a tail is destroyed in place if either part must be.
template <class T, class Element>
inline constexpr bool destroy_in_place<with_tail<T, Element>> =
    destroy_in_place<T> || destroy_in_place<std::remove_const_t<Element>>;
// An array is never deferred; objects that its elements own may be.
template <class Element>
inline constexpr bool destroy_in_place<detail::shared_elements<Element>> = true;

namespace detail {

// What make_shared_with_tail<T, Element> and its like make.
template <class T, class Element>
using tailed = std::conditional_t<std::is_const_v<T>, with_tail<std::remove_cv_t<T>, Element> const,
                                  with_tail<T, Element>>;
// The first argument of its constructor: how many elements, value-initialised or default-initialised.
template <class Element>
[[nodiscard]] constexpr auto tail_of(std::size_t count, by_value const& initial = {}) noexcept {
    return tail_length<std::remove_const_t<Element>, by_value>{count, initial};
}
template <class Element>
[[nodiscard]] constexpr auto raw_tail(std::size_t count, for_overwrite const& initial = {}) noexcept {
    return tail_length<std::remove_const_t<Element>, for_overwrite>{count, initial};
}

}  // namespace detail

POOLED_END_NAMESPACE
