// SPDX-License-Identifier: BSL-1.0
#pragma once

// How objects are made. A make_ function is one of three kinds of pointer, and one of three shapes:
//
//                 object                   followed by a tail               array
//   by_shared     std::allocate_shared     the same, in a larger block      a tail, to whose first element the pointer points
//   by_counted    header | object          the same, in a larger block      length | header | elements; see counted_object.hpp
//
// in a place: in_default_pool, whose id is a constant, or in_pool. The block is allocated first, then the object is constructed; the block
// returns to the pool if that throws. Arguments of `for_overwrite` stand for default-initialisation.
//
// The functions are as thread-safe as the pool.

#include "pooled/fwd.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/rc_from_this.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/smart/control_block.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/standard_control_block.hpp"
#include "pooled/smart/tailed.hpp"
#include "pooled/teardown/block_type.hpp"
#include "pooled/teardown/incremental.hpp"
#include "pooled/unique_ptr.hpp"

POOLED_BEGIN_DETAIL

template <class T>
concept unbounded_array = std::is_unbounded_array_v<T>;
template <class T>
concept bounded_array = std::is_bounded_array_v<T>;

// What makes a T: arguments of its constructor, nothing for a T[N]. The length of a T[] is a parameter of type std::size_t, because a bit-field
// or a braced value binds to no reference.
template <class T, class... Args>
concept made_from = !std::is_array_v<T> || (bounded_array<T> && sizeof...(Args) == 0);
// What makes a T that is default-initialised: nothing, or the length of a T[].
template <class T, class... Count>
concept made_of_length =
    (!unbounded_array<T> && sizeof...(Count) == 0) ||
    (unbounded_array<T> && sizeof...(Count) == 1 && (std::convertible_to<Count, std::size_t> && ...));
template <class T>
using row_of = std::remove_extent_t<T>;
template <class T>
concept array_type = std::is_array_v<T>;
// The one argument of an array: of a T[] its length, of a T[N] what is copied to its elements.
template <class T>
using length_or_row = std::conditional_t<unbounded_array<T>, std::size_t, row_of<T> const&>;

// How the counted pointers of a pool count: without atomics in a local pool.
template <sharing Sharing>
using counting_of = std::conditional_t<Sharing == sharing::shared, among_threads, on_one_thread>;

enum class on_failure : bool { throws, returns_empty };

template <class T, class... Args>
inline constexpr bool k_is_constructible = std::is_constructible_v<T, Args...>;
template <class T>
inline constexpr bool k_is_constructible<T, for_overwrite> = std::is_constructible_v<T>;

// Whether T is made of the arguments. If not, the first error says so and names T; others would be deep in a control block.
template <class T, class... Args>
consteval bool is_made_of() {
    static_assert(k_is_constructible<T, Args...>,
                  "pooled: T has no accessible constructor that takes these arguments, or no destructor");
    return k_is_constructible<T, Args...>;
}

// What a block of T returns to: see control_block.hpp. One with a tail has any size.
template <class T>
inline constexpr bool k_has_tail = requires { typename T::pooled_tail_element; };
template <class T, class Place>
using origin_of = std::conditional_t<
    k_has_tail<T>, from_any<>,
    std::conditional_t<std::is_same_v<Place, in_default_pool>, from_default, from_pool<Place::k_sharing>>>;

// The bytes of the tail of an object that is made of the arguments; k_size_max if they exceed the address space.
[[nodiscard]] constexpr std::size_t tail_bytes(auto const&...) noexcept { return 0; }
template <class Row, class Initial>
[[nodiscard]] std::size_t tail_bytes(tail_length<Row, Initial> const& tail, auto const&...) noexcept {
    return saturating_multiply(tail.count, sizeof(std::remove_all_extents_t<Row>));
}

// A block for `bytes`, and `more`. Throws std::bad_array_new_length if they exceed the address space, and what the pool throws; or is null.
template <on_failure OnFailure, class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_block(Place const& place, std::size_t bytes,
                                                        std::size_t more, std::size_t align) {
    bytes = saturating_add(bytes, more);
    if constexpr (OnFailure == on_failure::throws) {
        if (bytes > k_size_max / 2) POOLED_THROW(std::bad_array_new_length());
        return detail::allocate_bytes_or_throw(place, bytes, align);
    } else {
        return bytes <= k_size_max / 2 ? detail::try_allocate_bytes(place, bytes, align) : nullptr;
    }
}

// Returns its block to the pool, unless that is null: a guard while a constructor may throw.
template <class Origin, std::size_t Bytes, std::size_t Align>
struct held_block {
    void* block;
    POOLED_ALWAYS_INLINE ~held_block() {
        if (block != nullptr) detail::free_block<Origin, Bytes, Align>(block);
    }
};

// Whether objects of the pool are to be deferred when they are dropped. Throws std::bad_alloc.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE bool is_to_be_deferred([[maybe_unused]] Place const& place) {
    if constexpr (std::is_same_v<Place, in_default_pool>)
        return false;
    else
        return !place.core().is_immediate() && detail::prepare_deferral(place.core());
}

struct by_shared {
    template <class T>
    using pointer = std::shared_ptr<T>;

    template <class T, on_failure OnFailure, class Place, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE static std::shared_ptr<T> make_object(Place const& place,
                                                                             Args&&... args) {
        using origin = origin_of<T, Place>;
        if constexpr (k_is_deferrable_type<T>)
            if (detail::is_to_be_deferred(place)) [[unlikely]]
                return by_shared::make_in<T, typename origin::deferring, OnFailure>(
                    place, std::forward<Args>(args)...);
        return by_shared::make_in<T, origin, OnFailure>(place, std::forward<Args>(args)...);
    }

    // The control block of std::allocate_shared for an array has another place in each standard library, and no size of which one knows.
    template <class T, on_failure OnFailure, class Place, class Initial = by_value>
    [[nodiscard]] static std::shared_ptr<T> make_array(Place const& place, auto const& rows,
                                                       Initial const& initial = {}) {
        auto owner = by_shared::make_object<shared_elements<element_of<T>>, OnFailure>(
            place, tail_length<std::remove_cv_t<row_of<T>>, Initial>{detail::elements_in<T>(rows), initial});
        if (owner == nullptr) return {};
        auto* const first = reinterpret_cast<row_of<T>*>(owner->pooled_tail_first());
        return std::shared_ptr<T>(std::move(owner), first);
    }

private:
    template <class T, class Origin, on_failure OnFailure, class Place, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE static std::shared_ptr<T> make_in(Place const& place, Args&&... args) {
        using object = std::remove_cv_t<T>;
        using control = standard_control_block;
        void* const block = detail::allocate_block<OnFailure>(
            place, control::k_bytes<object>, detail::tail_bytes(args...), control::k_align<object>);
        if constexpr (OnFailure == on_failure::returns_empty)
            if (block == nullptr) return {};
        POOLED_THREAD_SET(t_given_block, address, block);
        return std::allocate_shared<T>(shared_block_of<char, Origin>(), std::forward<Args>(args)...);
    }
};

// unique_ptr and rc_ptr, by their Owner.
template <class Owner>
struct by_counted : Owner {
    template <class T, on_failure OnFailure, class Place, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE static auto make_object(Place const& place, Args&&... args) {
        using object = std::remove_cv_t<T>;
        using origin = origin_of<T, Place>;
        using counted = counted_object<object, origin>;
        type_tag const type = by_counted::tag<object, origin>(place);
        void* block = nullptr;
        if constexpr (origin::k_is_default && !counted::k_is_plain && OnFailure == on_failure::throws &&
                      k_has_shared_code<counted::k_bytes, counted::k_align>)
            block = detail::allocate_shared(counted::k_class,
                                            detail::packed_request<counted::k_bytes, counted::k_align>());
        else
            block = detail::allocate_block<OnFailure>(place, counted::k_bytes, detail::tail_bytes(args...),
                                                      counted::k_align);
        if constexpr (OnFailure == on_failure::returns_empty)
            if (block == nullptr) return typename Owner::template pointer<T>();
        held_block<origin, counted::k_bytes, counted::k_align> held{block};
        object* const made = by_counted::construct<object>(static_cast<std::byte*>(block) + counted::k_offset,
                                                           std::forward<Args>(args)...);
        held.block = nullptr;
        counted::set_header(made, type, Owner::k_counts);
        detail::introduce(made);
        return Owner::template own<T>(made);
    }

    template <class T, on_failure OnFailure, class Place, class Initial = by_value>
    [[nodiscard]] static auto make_array(Place const& place, auto const& rows, Initial const& initial = {}) {
        using element = element_of<T>;
        using counted = counted_object<element[], from_any<>>;
        using array = counted_array<element, Owner::k_counts_owners ? sizeof(count_header) : 0>;
        std::size_t const count = detail::elements_in<T, element>(rows);
        type_tag type = k_no_type;
        if constexpr (Owner::k_counts_owners) type = counted::tag();
        void* const block = detail::allocate_block<OnFailure>(
            place, array::k_offset, saturating_multiply(count, sizeof(element)), array::k_align);
        if constexpr (OnFailure == on_failure::returns_empty)
            if (block == nullptr) return typename Owner::template pointer<T>();
        held_block<from_any<>, 0, array::k_align> held{block};
        element* const first = array::first_in(block);
        detail::construct_rows<std::remove_cv_t<row_of<T>>>(first, count, initial);
        held.block = nullptr;
        ::new (block) std::size_t(count);
        if constexpr (Owner::k_counts_owners) counted::set_header(first, type, Owner::k_counts);
        return Owner::template own<T>(reinterpret_cast<row_of<T>*>(first));
    }

private:
    template <class T, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE static T* construct(void* place, Args&&... args) {
        if constexpr ((std::is_same_v<std::remove_cvref_t<Args>, for_overwrite> || ...))
            return ::new (place) T;
        else  // in a system header: conversions of the user's arguments cause no warning here
            return std::construct_at(static_cast<T*>(place), std::forward<Args>(args)...);
    }

    // The pool determines how the object is retired, but not its layout.
    template <class T, class Origin, class Place>
    [[nodiscard]] POOLED_ALWAYS_INLINE static type_tag tag([[maybe_unused]] Place const& place) {
        if constexpr (k_is_deferrable_type<T>)
            if (detail::is_to_be_deferred(place)) [[unlikely]]
                return counted_object<T, typename Origin::deferring>::tag();
        return counted_object<T, Origin>::tag();
    }
};

// An array of one that counts no owners has no header. own(): takes over an object, or elements, that were just made; null is allowed.
struct unique_owner {
    template <class T>
    using pointer = unique_ptr<T>;
    static constexpr bool k_counts_owners = false;
    static constexpr std::uint64_t k_counts = count_header::k_unique;

    template <class T>
    [[nodiscard]] POOLED_ALWAYS_INLINE static unique_ptr<T> own(row_of<T>* object) noexcept {
        return unique_ptr<T>(object);
    }
};
template <class Counting>
struct rc_owner {
    template <class T>
    using pointer = rc_ptr_of<T, Counting>;
    static constexpr bool k_counts_owners = true;
    static constexpr std::uint64_t k_counts = count_header::k_sole;

    template <class T>
    [[nodiscard]] POOLED_ALWAYS_INLINE static rc_ptr_of<T, Counting> own(row_of<T>* object) noexcept {
        return rc_access::adopt<T, Counting>(handle<row_of<T>>(object, object));
    }
};
using by_unique = by_counted<unique_owner>;
template <class Counting = among_threads>
using by_rc = by_counted<rc_owner<Counting>>;

// What the make_ functions do. `args`: of the constructor, after the tail's length if T has a tail; for an array, its length if the type has
// none, and what each row is initialised with.
template <class By, class T, on_failure OnFailure = on_failure::throws, class Place, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE typename By::template pointer<T> make(Place place, Args&&... args) {
    if constexpr (std::is_bounded_array_v<T>)
        return By::template make_array<T, OnFailure>(place, std::extent_v<T>, args...);
    else if constexpr (std::is_array_v<T>)
        return By::template make_array<T, OnFailure>(place, args...);
    else if constexpr (!detail::is_made_of<T, Args...>())
        return {};
    else if constexpr (std::is_same_v<By, by_shared> && std::is_same_v<Place, in_default_pool> &&
                       !k_has_tail<T>)
        return std::allocate_shared<T>(std_block(), std::forward<Args>(args)...);
    else
        return By::template make_object<T, OnFailure>(place, std::forward<Args>(args)...);
}

POOLED_END_DETAIL
