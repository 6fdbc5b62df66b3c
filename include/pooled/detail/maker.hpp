// SPDX-License-Identifier: BSL-1.0
#pragma once

// maker: the make_ functions of a pool, for each kind of pointer. <pooled/make_shared.hpp> has those of the default pool.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/make_rc.hpp"
#include "pooled/detail/make_shared.hpp"
#include "pooled/detail/make_with_tail.hpp"
#include "pooled/fwd.hpp"
#include "pooled/impl/instrument/tracking.hpp"

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <class T>
concept unbounded_array = std::is_unbounded_array_v<T>;
template <class T>
concept bounded_array = std::is_bounded_array_v<T>;
template <class T>
concept not_array = !std::is_array_v<T>;
template <class T>
concept of_known_size = !std::is_unbounded_array_v<T>;

// What the arguments of an object, or none for an array of known size, make.
template <class T, class... Args>
concept made_from = not_array<T> || sizeof...(Args) == 0;

// Whether T is made of the arguments. If not, the first error says so and names T; others would be deep in a control block.
template <class T, class... Args>
consteval bool is_made_of() {
    static_assert(std::is_array_v<T> || std::is_constructible_v<T, Args...>,
                  "pooled: T has no accessible constructor that takes these arguments, or no destructor");
    return std::is_array_v<T> || std::is_constructible_v<T, Args...>;
}

// How the counted pointers of a pool count: without atomics in a local pool.
template <sharing Sharing>
using counting_of = std::conditional_t<Sharing == sharing::shared, among_threads, on_one_thread>;

// Where objects are made: in the default pool, whose id is a constant, or in a given one.
struct default_place {
    static constexpr bool k_is_default = true;
    static constexpr sharing k_sharing = sharing::shared;
    [[nodiscard]] static pool_core& core() { return g_registry.default_core(); }
};
template <sharing Sharing>
class pool_place {
public:
    static constexpr bool k_is_default = false;
    static constexpr sharing k_sharing = Sharing;
    explicit pool_place(pool_core& core) noexcept : m_core(core) {}
    [[nodiscard]] pool_core& core() const noexcept { return m_core; }

private:
    pool_core& m_core;
};

// How std::shared_ptr are made.
struct by_shared {
    // `args`: of the constructor; for an array, its length if the type has none, and the value of each element.
    template <class T, on_failure OnFailure = on_failure::throws, initialise How = initialise::by_value,
              class Place, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE static std::shared_ptr<T> make(Place place, Args&&... args) {
        if constexpr (std::is_unbounded_array_v<T>)
            if (detail::has_too_many<T>(args...)) {
                if constexpr (OnFailure == on_failure::throws) POOLED_THROW(std::bad_array_new_length());
                return {};
            }
        if constexpr (!detail::is_made_of<T, Args...>())
            return {};
        else if constexpr (Place::k_is_default)
            return detail::allocate_shared_by_default<T, How>(std::forward<Args>(args)...);
        else if constexpr (OnFailure == on_failure::throws)
            return detail::allocate_shared_in<T, Place::k_sharing, How>(place.core(),
                                                                        std::forward<Args>(args)...);
        else
            return detail::try_allocate_shared_in<T, Place::k_sharing, How>(place.core(),
                                                                            std::forward<Args>(args)...);
    }

    template <class T, class Element, on_failure OnFailure = on_failure::throws,
              initialise How = initialise::by_value, class Place, class... Args>
    [[nodiscard]] static std::shared_ptr<tailed<T, Element>> make_with_tail(Place place, std::size_t count,
                                                                            Args&&... args) {
        return detail::make_shared_with_tail<T, Element, Place::k_sharing, OnFailure, How>(
            place.core(), count, std::forward<Args>(args)...);
    }
};

// As by_shared.
template <class Counting>
struct by_rc {
    template <class T, on_failure OnFailure = on_failure::throws, initialise How = initialise::by_value,
              class Place, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE static rc_ptr_of<T, Counting> make(Place place, Args&&... args) {
        if constexpr (!detail::is_made_of<T, Args...>())
            return {};
        else if constexpr (!std::is_array_v<T>)
            return detail::adopt_made<T, Counting>(detail::make_single<std::remove_cv_t<T>, OnFailure, How>(
                place, count_header::k_sole, std::forward<Args>(args)...));
        else if constexpr (How == initialise::by_default)
            return detail::make_array<T, Counting, Place::k_sharing, OnFailure>(place.core(), args...,
                                                                                for_overwrite());
        else
            return detail::make_array<T, Counting, Place::k_sharing, OnFailure>(place.core(), args...);
    }

    template <class T, class Element, on_failure OnFailure = on_failure::throws,
              initialise How = initialise::by_value, class Place, class... Args>
    [[nodiscard]] static rc_ptr_of<tailed<T, Element>, Counting>
    make_with_tail(Place place, std::size_t count, Args&&... args) {
        return detail::adopt_made<tailed<T, Element>, Counting>(
            detail::make_counted_with_tail<T, Element, Place::k_sharing, OnFailure, How>(
                place.core(), count_header::k_sole, count, std::forward<Args>(args)...));
    }
};
struct by_unique {
    template <class T, on_failure OnFailure = on_failure::throws, initialise How = initialise::by_value,
              class Place, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE static unique_ptr<T> make(Place place, Args&&... args) {
        if constexpr (!detail::is_made_of<T, Args...>())
            return {};
        else if constexpr (std::is_array_v<T>)
            return detail::make_unique_array<T, Place::k_sharing, OnFailure, How>(place.core(), args...);
        else
            return unique_ptr<T>(detail::make_single<std::remove_cv_t<T>, OnFailure, How>(
                place, count_header::k_unique, std::forward<Args>(args)...));
    }

    template <class T, class Element, on_failure OnFailure = on_failure::throws,
              initialise How = initialise::by_value, class Place, class... Args>
    [[nodiscard]] static unique_ptr<tailed<T, Element>> make_with_tail(Place place, std::size_t count,
                                                                       Args&&... args) {
        return unique_ptr<tailed<T, Element>>(
            detail::make_counted_with_tail<T, Element, Place::k_sharing, OnFailure, How>(
                place.core(), count_header::k_unique, count, std::forward<Args>(args)...));
    }
};

template <sharing Sharing>
class maker {
public:
    // A new object of this pool. Throws what allocate() and the constructor throw; the pool is then as before. Always inlined: a
    // std::shared_ptr that is returned through memory is written in two halves, and a move from it then waits for both (store
    // forwarding: 6.0 against 4.5 ns in E7).
    template <of_known_size T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_INLINE_ENTRY std::shared_ptr<T> make_shared(Args&&... args) {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : standard_control_block::is_only_weak);
        return by_shared::template make<T>(place(), std::forward<Args>(args)...);
    }
    template <not_array T, class... Args>
    [[nodiscard]] POOLED_INLINE_ENTRY unique_ptr<T> make_unique(Args&&... args) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make<T>(place(), std::forward<Args>(args)...);
    }
    template <of_known_size T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_INLINE_ENTRY rc_ptr_of<T, counting_of<Sharing>> make_rc(Args&&... args) {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : is_only_weakly_counted<T>);
        return by_rc<counting_of<Sharing>>::template make<T>(place(), std::forward<Args>(args)...);
    }
    template <of_known_size T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_INLINE_ENTRY local_rc_ptr<T> make_local_rc(Args&&... args) {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : is_only_weakly_counted<T>);
        return by_rc<on_one_thread>::template make<T>(place(), std::forward<Args>(args)...);
    }

    // The same; an empty pointer when the pool is exhausted or upstream has no more. What the constructor throws is still
    // thrown.
    template <of_known_size T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared(Args&&... args) {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : standard_control_block::is_only_weak);
        return by_shared::template make<T, returns_empty>(place(), std::forward<Args>(args)...);
    }
    template <not_array T, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> try_make_unique(Args&&... args) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make<T, returns_empty>(place(), std::forward<Args>(args)...);
    }
    template <of_known_size T, class... Args>
        requires made_from<T, Args...>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> try_make_rc(Args&&... args) {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : is_only_weakly_counted<T>);
        return by_rc<counting_of<Sharing>>::template make<T, returns_empty>(place(),
                                                                            std::forward<Args>(args)...);
    }

    // Arrays: T[] of `count` elements, or T[N]; value-initialised, or copies of `value`. make_unique takes T[] and no value.
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_shared::template make<T>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::size_t count,
                                                                      std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_shared::template make<T>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_shared::template make<T>(place(), value);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_shared::template make<T, returns_empty>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T>
    try_make_shared(std::size_t count, std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_shared::template make<T, returns_empty>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T>
    try_make_shared(std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_shared::template make<T, returns_empty>(place(), value);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make<T>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> try_make_unique(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make<T, returns_empty>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> make_rc(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<counting_of<Sharing>>::template make<T>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
    make_rc(std::size_t count, std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<counting_of<Sharing>>::template make<T>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
    make_rc(std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<counting_of<Sharing>>::template make<T>(place(), value);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> try_make_rc(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<counting_of<Sharing>>::template make<T, returns_empty>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
    try_make_rc(std::size_t count, std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<counting_of<Sharing>>::template make<T, returns_empty>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
    try_make_rc(std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<counting_of<Sharing>>::template make<T, returns_empty>(place(), value);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<on_one_thread>::template make<T>(place(), count);
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::size_t count,
                                                                     std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<on_one_thread>::template make<T>(place(), count, value);
    }
    template <bounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::remove_extent_t<T> const& value) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<on_one_thread>::template make<T>(place(), value);
    }

    // Default-initialised: a trivial T is not written at all.
    template <of_known_size T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared_for_overwrite() {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : standard_control_block::is_only_weak);
        return by_shared::template make<T, throws, by_default>(place());
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared_for_overwrite(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_shared::template make<T, throws, by_default>(place(), count);
    }
    template <not_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique_for_overwrite() {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make<T, throws, by_default>(place());
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique_for_overwrite(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make<T, throws, by_default>(place(), count);
    }
    template <of_known_size T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> make_rc_for_overwrite() {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : is_only_weakly_counted<T>);
        return by_rc<counting_of<Sharing>>::template make<T, throws, by_default>(place());
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
    make_rc_for_overwrite(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<counting_of<Sharing>>::template make<T, throws, by_default>(place(), count);
    }
    template <of_known_size T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared_for_overwrite() {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : standard_control_block::is_only_weak);
        return by_shared::template make<T, returns_empty, by_default>(place());
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> try_make_shared_for_overwrite(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_shared::template make<T, returns_empty, by_default>(place(), count);
    }
    template <not_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> try_make_unique_for_overwrite() {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make<T, returns_empty, by_default>(place());
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> try_make_unique_for_overwrite(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make<T, returns_empty, by_default>(place(), count);
    }
    template <of_known_size T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> try_make_rc_for_overwrite() {
        POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : is_only_weakly_counted<T>);
        return by_rc<counting_of<Sharing>>::template make<T, returns_empty, by_default>(place());
    }
    template <unbounded_array T>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
    try_make_rc_for_overwrite(std::size_t count) {
        POOLED_ACQUISITION(nullptr);
        return by_rc<counting_of<Sharing>>::template make<T, returns_empty, by_default>(place(), count);
    }

    // A T of `args`, followed in the same block by `count` objects of Element: value-initialised, or default-initialised (the T as well
    // if there are no `args`). tail() gives them.
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<tailed<T, Element>>
    make_shared_with_tail(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(standard_control_block::is_only_weak);
        return by_shared::template make_with_tail<T, Element>(place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<tailed<T, Element>>
    make_shared_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(standard_control_block::is_only_weak);
        return by_shared::template make_with_tail<T, Element, throws, by_default>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<tailed<T, Element>> make_unique_with_tail(std::size_t count,
                                                                                            Args&&... args) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make_with_tail<T, Element>(place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<tailed<T, Element>>
    make_unique_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make_with_tail<T, Element, throws, by_default>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<tailed<T, Element>, counting_of<Sharing>>
    make_rc_with_tail(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(is_only_weakly_counted<tailed<T, Element>>);
        return by_rc<counting_of<Sharing>>::template make_with_tail<T, Element>(place(), count,
                                                                                std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<tailed<T, Element>, counting_of<Sharing>>
    make_rc_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(is_only_weakly_counted<tailed<T, Element>>);
        return by_rc<counting_of<Sharing>>::template make_with_tail<T, Element, throws, by_default>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<tailed<T, Element>>
    try_make_shared_with_tail(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(standard_control_block::is_only_weak);
        return by_shared::template make_with_tail<T, Element, returns_empty>(place(), count,
                                                                             std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<tailed<T, Element>>
    try_make_shared_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(standard_control_block::is_only_weak);
        return by_shared::template make_with_tail<T, Element, returns_empty, by_default>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<tailed<T, Element>>
    try_make_unique_with_tail(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make_with_tail<T, Element, returns_empty>(place(), count,
                                                                             std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<tailed<T, Element>>
    try_make_unique_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(nullptr);
        return by_unique::template make_with_tail<T, Element, returns_empty, by_default>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<tailed<T, Element>, counting_of<Sharing>>
    try_make_rc_with_tail(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(is_only_weakly_counted<tailed<T, Element>>);
        return by_rc<counting_of<Sharing>>::template make_with_tail<T, Element, returns_empty>(
            place(), count, std::forward<Args>(args)...);
    }
    template <class T, class Element, class... Args>
    [[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr_of<tailed<T, Element>, counting_of<Sharing>>
    try_make_rc_with_tail_for_overwrite(std::size_t count, Args&&... args) {
        POOLED_ACQUISITION(is_only_weakly_counted<tailed<T, Element>>);
        return by_rc<counting_of<Sharing>>::template make_with_tail<T, Element, returns_empty, by_default>(
            place(), count, std::forward<Args>(args)...);
    }

protected:
    explicit maker(pool_core& core) noexcept : m_core(&core) {}
    ~maker() = default;
    maker(maker const&) = delete;
    maker& operator=(maker const&) = delete;

    pool_core* m_core;

private:
    using enum on_failure;
    using enum initialise;

    [[nodiscard]] pool_place<Sharing> place() const noexcept { return pool_place<Sharing>(*m_core); }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
