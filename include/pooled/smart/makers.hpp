// SPDX-License-Identifier: BSL-1.0
#pragma once

// The make_ functions of a pool: one for each pointer and form.
//
//   pointer   shared   unique   rc   local_rc
//   form      make_P<T>(arguments...)   make_P<T[]>(count)   make_P<T[]>(count, value)   make_P<T[N]>()   make_P<T[N]>(value)
//             make_P_for_overwrite<T>()   make_P_with_tail<T, Element>(count, arguments...)   and try_ before each
//
// Those of the process-wide pool are in make_shared.hpp. As thread-safe as the pool.

#include "pooled/fwd.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/smart/make.hpp"
#include "pooled/smart/tailed.hpp"

POOLED_BEGIN_DETAIL

// A base of `Pool`, whose place() says where blocks come from.
template <class Pool, sharing Sharing>
class makers {
    using by_own_rc = by_rc<counting_of<Sharing>>;
    template <class T>
    using own_rc_ptr = rc_ptr_of<T, counting_of<Sharing>>;
    static constexpr on_failure returns_empty = on_failure::returns_empty;

public:
    // A new object of this pool, or an array: `args` are its constructor's; a T[] takes its length, a T[N] nothing. Throws what allocate() and the
    // constructor throw; the pool is then as before. Always inlined: a std::shared_ptr that is returned through memory is written in two
    // halves, and a move from it then waits for both (store forwarding: 6.0 against 4.5 ns in E7).
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> make_shared(Args&&... args) {
        return detail::make<by_shared, T>(self().place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...> && (!bounded_array<T>)
    [[nodiscard]] POOLED_ALWAYS_INLINE unique_ptr<T> make_unique(Args&&... args) {
        return detail::make<by_unique, T>(self().place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE own_rc_ptr<T> make_rc(Args&&... args) {
        return detail::make<by_own_rc, T>(self().place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE local_rc_ptr<T> make_local_rc(Args&&... args) {
        return detail::make<by_rc<on_one_thread>, T>(self().place(), std::forward<Args>(args)...);
    }
    template <array_type T>
    [[nodiscard]] std::shared_ptr<T> make_shared(length_or_row<T> first) {
        return detail::make<by_shared, T>(self().place(), first);
    }
    template <unbounded_array T>
    [[nodiscard]] unique_ptr<T> make_unique(std::size_t count) {
        return detail::make<by_unique, T>(self().place(), count);
    }
    template <array_type T>
    [[nodiscard]] own_rc_ptr<T> make_rc(length_or_row<T> first) {
        return detail::make<by_own_rc, T>(self().place(), first);
    }
    template <array_type T>
    [[nodiscard]] local_rc_ptr<T> make_local_rc(length_or_row<T> first) {
        return detail::make<by_rc<on_one_thread>, T>(self().place(), first);
    }

    // An array of copies of `value`.
    template <unbounded_array T>
    [[nodiscard]] std::shared_ptr<T> make_shared(std::size_t count, row_of<T> const& value) {
        return detail::make<by_shared, T>(self().place(), count, value);
    }
    template <unbounded_array T>
    [[nodiscard]] own_rc_ptr<T> make_rc(std::size_t count, row_of<T> const& value) {
        return detail::make<by_own_rc, T>(self().place(), count, value);
    }
    template <unbounded_array T>
    [[nodiscard]] local_rc_ptr<T> make_local_rc(std::size_t count, row_of<T> const& value) {
        return detail::make<by_rc<on_one_thread>, T>(self().place(), count, value);
    }

    // Default-initialised: a trivial T is not written at all.
    template <class T, class... Count>
        requires made_of_length<T, Count...>
    [[nodiscard]] std::shared_ptr<T> make_shared_for_overwrite(Count... count) {
        return detail::make<by_shared, T>(self().place(), count..., detail::for_overwrite());
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...> && (!bounded_array<T>)
    [[nodiscard]] unique_ptr<T> make_unique_for_overwrite(Count... count) {
        return detail::make<by_unique, T>(self().place(), count..., detail::for_overwrite());
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...>
    [[nodiscard]] own_rc_ptr<T> make_rc_for_overwrite(Count... count) {
        return detail::make<by_own_rc, T>(self().place(), count..., detail::for_overwrite());
    }

    // A T of `args`, followed in the same block by `count` objects of Element: value-initialised, or default-initialised (the T as well
    // if there are no `args`). tail() gives them.
    template <class T, class Element, class... Args>
    [[nodiscard]] std::shared_ptr<tailed<T, Element>> make_shared_with_tail(std::size_t count,
                                                                            Args&&... args) {
        return make_shared<tailed<T, Element>>(tail_of<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] std::shared_ptr<tailed<T, Element>> make_shared_with_tail_for_overwrite(std::size_t count,
                                                                                          Args&&... args) {
        return make_shared<tailed<T, Element>>(raw_tail<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] unique_ptr<tailed<T, Element>> make_unique_with_tail(std::size_t count, Args&&... args) {
        return make_unique<tailed<T, Element>>(tail_of<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] unique_ptr<tailed<T, Element>> make_unique_with_tail_for_overwrite(std::size_t count,
                                                                                     Args&&... args) {
        return make_unique<tailed<T, Element>>(raw_tail<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] own_rc_ptr<tailed<T, Element>> make_rc_with_tail(std::size_t count, Args&&... args) {
        return make_rc<tailed<T, Element>>(tail_of<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] own_rc_ptr<tailed<T, Element>> make_rc_with_tail_for_overwrite(std::size_t count,
                                                                                 Args&&... args) {
        return make_rc<tailed<T, Element>>(raw_tail<Element>(count), std::forward<Args>(args)...);
    }

    // The same; an empty pointer when the pool is exhausted or upstream has no more. What the constructor throws is still
    // thrown.
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] std::shared_ptr<T> try_make_shared(Args&&... args) {
        return detail::make<by_shared, T, returns_empty>(self().place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...> && (!bounded_array<T>)
    [[nodiscard]] unique_ptr<T> try_make_unique(Args&&... args) {
        return detail::make<by_unique, T, returns_empty>(self().place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] own_rc_ptr<T> try_make_rc(Args&&... args) {
        return detail::make<by_own_rc, T, returns_empty>(self().place(), std::forward<Args>(args)...);
    }
    template <array_type T>
    [[nodiscard]] std::shared_ptr<T> try_make_shared(length_or_row<T> first) {
        return detail::make<by_shared, T, returns_empty>(self().place(), first);
    }
    template <unbounded_array T>
    [[nodiscard]] unique_ptr<T> try_make_unique(std::size_t count) {
        return detail::make<by_unique, T, returns_empty>(self().place(), count);
    }
    template <array_type T>
    [[nodiscard]] own_rc_ptr<T> try_make_rc(length_or_row<T> first) {
        return detail::make<by_own_rc, T, returns_empty>(self().place(), first);
    }
    template <unbounded_array T>
    [[nodiscard]] std::shared_ptr<T> try_make_shared(std::size_t count, row_of<T> const& value) {
        return detail::make<by_shared, T, returns_empty>(self().place(), count, value);
    }
    template <unbounded_array T>
    [[nodiscard]] own_rc_ptr<T> try_make_rc(std::size_t count, row_of<T> const& value) {
        return detail::make<by_own_rc, T, returns_empty>(self().place(), count, value);
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...>
    [[nodiscard]] std::shared_ptr<T> try_make_shared_for_overwrite(Count... count) {
        return detail::make<by_shared, T, returns_empty>(self().place(), count..., detail::for_overwrite());
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...> && (!bounded_array<T>)
    [[nodiscard]] unique_ptr<T> try_make_unique_for_overwrite(Count... count) {
        return detail::make<by_unique, T, returns_empty>(self().place(), count..., detail::for_overwrite());
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...>
    [[nodiscard]] own_rc_ptr<T> try_make_rc_for_overwrite(Count... count) {
        return detail::make<by_own_rc, T, returns_empty>(self().place(), count..., detail::for_overwrite());
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] std::shared_ptr<tailed<T, Element>> try_make_shared_with_tail(std::size_t count,
                                                                                Args&&... args) {
        return try_make_shared<tailed<T, Element>>(tail_of<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] std::shared_ptr<tailed<T, Element>>
    try_make_shared_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        return try_make_shared<tailed<T, Element>>(raw_tail<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] unique_ptr<tailed<T, Element>> try_make_unique_with_tail(std::size_t count,
                                                                           Args&&... args) {
        return try_make_unique<tailed<T, Element>>(tail_of<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] unique_ptr<tailed<T, Element>> try_make_unique_with_tail_for_overwrite(std::size_t count,
                                                                                         Args&&... args) {
        return try_make_unique<tailed<T, Element>>(raw_tail<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] own_rc_ptr<tailed<T, Element>> try_make_rc_with_tail(std::size_t count, Args&&... args) {
        return try_make_rc<tailed<T, Element>>(tail_of<Element>(count), std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] own_rc_ptr<tailed<T, Element>> try_make_rc_with_tail_for_overwrite(std::size_t count,
                                                                                     Args&&... args) {
        return try_make_rc<tailed<T, Element>>(raw_tail<Element>(count), std::forward<Args>(args)...);
    }

private:
    friend Pool;
    makers() = default;
    [[nodiscard]] POOLED_ALWAYS_INLINE Pool const& self() const noexcept {
        return static_cast<Pool const&>(*this);
    }
};

POOLED_END_DETAIL
