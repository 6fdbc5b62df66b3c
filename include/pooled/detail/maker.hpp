// SPDX-License-Identifier: BSL-1.0
#pragma once

// maker: the make_ functions of a pool, for each kind of pointer. <pooled/make_shared.hpp> has those of the default pool.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/make.hpp"
#include "pooled/fwd.hpp"

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <sharing Sharing>
class maker {
    using by_own_rc = by_rc<counting_of<Sharing>>;
    template <class T>
    using own_rc_ptr = rc_ptr_of<T, counting_of<Sharing>>;

public:
    // A new object of this pool, or an array: `args` are its constructor's; a T[] takes its length, a T[N] nothing. Throws what allocate() and the
    // constructor throw; the pool is then as before. Always inlined: a std::shared_ptr that is returned through memory is written in two
    // halves, and a move from it then waits for both (store forwarding: 6.0 against 4.5 ns in E7).
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_INLINE_ENTRY std::shared_ptr<T> make_shared(Args&&... args) {
        return detail::make<by_shared, T>(place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...> && (!bounded_array<T>)
    [[nodiscard]] POOLED_INLINE_ENTRY unique_ptr<T> make_unique(Args&&... args) {
        return detail::make<by_unique, T>(place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_INLINE_ENTRY own_rc_ptr<T> make_rc(Args&&... args) {
        return detail::make<by_own_rc, T>(place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_INLINE_ENTRY local_rc_ptr<T> make_local_rc(Args&&... args) {
        return detail::make<by_rc<on_one_thread>, T>(place(), std::forward<Args>(args)...);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::size_t count) {
        return detail::make<by_shared, T>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique(std::size_t count) {
        return detail::make<by_unique, T>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> make_rc(std::size_t count) {
        return detail::make<by_own_rc, T>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::size_t count) {
        return detail::make<by_rc<on_one_thread>, T>(place(), count);
    }

    // An array of copies of `value`.
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::size_t count,
                                                                      row_of<T> const& value) {
        return detail::make<by_shared, T>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(row_of<T> const& value) {
        return detail::make<by_shared, T>(place(), value);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> make_rc(std::size_t count, row_of<T> const& value) {
        return detail::make<by_own_rc, T>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> make_rc(row_of<T> const& value) {
        return detail::make<by_own_rc, T>(place(), value);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::size_t count,
                                                                     row_of<T> const& value) {
        return detail::make<by_rc<on_one_thread>, T>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(row_of<T> const& value) {
        return detail::make<by_rc<on_one_thread>, T>(place(), value);
    }

    // Default-initialised: a trivial T is not written at all.
    template <class T, class... Count>
        requires made_of_length<T, Count...>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared_for_overwrite(Count... count) {
        return detail::make<by_shared, T>(place(), count..., detail::for_overwrite());
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...> && (!bounded_array<T>)
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique_for_overwrite(Count... count) {
        return detail::make<by_unique, T>(place(), count..., detail::for_overwrite());
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> make_rc_for_overwrite(Count... count) {
        return detail::make<by_own_rc, T>(place(), count..., detail::for_overwrite());
    }

    // A T of `args`, followed in the same block by `count` objects of Element: value-initialised, or default-initialised (the T as well
    // if there are no `args`). tail() gives them.
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<tailed<T, Element>>
    make_shared_with_tail(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_shared, T, Element>(place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<tailed<T, Element>>
    make_shared_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_shared, T, Element, for_overwrite>(place(), count,
                                                                            std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<tailed<T, Element>> make_unique_with_tail(std::size_t count,
                                                                                            Args&&... args) {
        return detail::make_with_tail<by_unique, T, Element>(place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<tailed<T, Element>>
    make_unique_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_unique, T, Element, for_overwrite>(place(), count,
                                                                            std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<tailed<T, Element>> make_rc_with_tail(std::size_t count,
                                                                                        Args&&... args) {
        return detail::make_with_tail<by_own_rc, T, Element>(place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<tailed<T, Element>>
    make_rc_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_own_rc, T, Element, for_overwrite>(place(), count,
                                                                            std::forward<Args>(args)...);
    }

    // The same; an empty pointer when the pool is exhausted or upstream has no more. What the constructor throws is still
    // thrown.
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared(Args&&... args) {
        return detail::make<by_shared, T, returns_empty>(place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...> && (!bounded_array<T>)
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> try_make_unique(Args&&... args) {
        return detail::make<by_unique, T, returns_empty>(place(), std::forward<Args>(args)...);
    }
    template <class T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> try_make_rc(Args&&... args) {
        return detail::make<by_own_rc, T, returns_empty>(place(), std::forward<Args>(args)...);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared(std::size_t count) {
        return detail::make<by_shared, T, returns_empty>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> try_make_unique(std::size_t count) {
        return detail::make<by_unique, T, returns_empty>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> try_make_rc(std::size_t count) {
        return detail::make<by_own_rc, T, returns_empty>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared(std::size_t count,
                                                                          row_of<T> const& value) {
        return detail::make<by_shared, T, returns_empty>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared(row_of<T> const& value) {
        return detail::make<by_shared, T, returns_empty>(place(), value);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> try_make_rc(std::size_t count, row_of<T> const& value) {
        return detail::make<by_own_rc, T, returns_empty>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> try_make_rc(row_of<T> const& value) {
        return detail::make<by_own_rc, T, returns_empty>(place(), value);
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared_for_overwrite(Count... count) {
        return detail::make<by_shared, T, returns_empty>(place(), count..., detail::for_overwrite());
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...> && (!bounded_array<T>)
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> try_make_unique_for_overwrite(Count... count) {
        return detail::make<by_unique, T, returns_empty>(place(), count..., detail::for_overwrite());
    }
    template <class T, class... Count>
        requires made_of_length<T, Count...>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<T> try_make_rc_for_overwrite(Count... count) {
        return detail::make<by_own_rc, T, returns_empty>(place(), count..., detail::for_overwrite());
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<tailed<T, Element>>
    try_make_shared_with_tail(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_shared, T, Element, by_value, returns_empty>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<tailed<T, Element>>
    try_make_shared_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_shared, T, Element, for_overwrite, returns_empty>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<tailed<T, Element>>
    try_make_unique_with_tail(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_unique, T, Element, by_value, returns_empty>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<tailed<T, Element>>
    try_make_unique_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_unique, T, Element, for_overwrite, returns_empty>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<tailed<T, Element>> try_make_rc_with_tail(std::size_t count,
                                                                                            Args&&... args) {
        return detail::make_with_tail<by_own_rc, T, Element, by_value, returns_empty>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY own_rc_ptr<tailed<T, Element>>
    try_make_rc_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        return detail::make_with_tail<by_own_rc, T, Element, for_overwrite, returns_empty>(
            place(), count, std::forward<Args>(args)...);
    }

protected:
    explicit maker(pool_core& core) noexcept : m_core(&core) {}
    ~maker() = default;
    maker(maker const&) = delete;
    maker& operator=(maker const&) = delete;

    pool_core* m_core;

private:
    static constexpr on_failure returns_empty = on_failure::returns_empty;

    [[nodiscard]] in_pool<Sharing> place() const noexcept { return in_pool<Sharing>(*m_core); }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
