// SPDX-License-Identifier: BSL-1.0
#pragma once

// What an object pool does when an object is built, acquired and released. A lifecycle is a struct with any of these
// members:
//
//   create(void* where)          constructs a T at `where`; returns it, or nothing. Default: T's default constructor
//   validate(T&)                 before on_acquire; whether the object is still usable. If not, it is destroyed, and another is
//                                built in its place
//   on_acquire(T&, args...)      before acquire returns the object; `args` are those of acquire
//   on_release(T&)               after the object's last owner is gone, before it is idle
//
// They are found by name at compile time and called directly. A lifecycle may have state. A member that is declared but
// cannot be called this way does not compile. A member may also be a callable object, such as std::function; an empty one
// counts as absent.
//
// Several threads may call them at the same time, for different objects. object_pool.hpp says what they may throw.

#include "pooled/config.hpp"
#include "pooled/detail/callable.hpp"
#include "pooled/fwd.hpp"

#include <concepts>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE {

// Default construction, and nothing at acquire and release.
template <class T>
struct default_lifecycle {};

// Calls clear() on each object that is released: for containers and for classes like them.
struct clear_on_release {
    template <class T>
    void on_release(T& object) const noexcept(noexcept(object.clear())) {
        object.clear();
    }
};

// The same with reset(), for classes that restore their initial state by it.
struct reset_on_release {
    template <class T>
    void on_release(T& object) const noexcept(noexcept(object.reset())) {
        object.reset();
    }
};

// Functions set at run time, each a copyable callable as in std::function, or null. `Args` are those of acquire.
template <class T, class... Args>
struct function_lifecycle {
    detail::callable<T*(void* where)> create{};
    detail::callable<void(T&, Args...)> on_acquire{};
    detail::callable<void(T&)> on_release{};
};

namespace detail {

template <class L, class Name>
struct inherits_twice : L, Name {};

// Whether L has a member of the name, with any parameters: in a class that inherits the name twice it is ambiguous.
#define POOLED_NAME_OF_MEMBER(name)                                       \
    struct names_##name {                                                 \
        void name();                                                      \
    };                                                                    \
    template <class L>                                                    \
    inline constexpr bool k_has_##name = [] {                             \
        if constexpr (std::is_final_v<L>)                                 \
            return requires { &L::name; };                                \
        else                                                              \
            return !requires { &inherits_twice<L, names_##name>::name; }; \
    }()
POOLED_NAME_OF_MEMBER(create);
POOLED_NAME_OF_MEMBER(validate);
POOLED_NAME_OF_MEMBER(on_acquire);
POOLED_NAME_OF_MEMBER(on_release);
#undef POOLED_NAME_OF_MEMBER

// A member that is an object and may be empty.
template <class Function>
[[nodiscard]] constexpr bool is_set(Function const& f) noexcept {
    if constexpr (!std::is_function_v<Function> && std::constructible_from<bool, Function const&>)
        return static_cast<bool>(f);
    else
        return true;
}

// A pool with this lifecycle can build objects without a factory.
template <class L, class T>
concept creates = std::is_class_v<L> && (k_has_create<L> || std::is_default_constructible_v<T>);

// Returns a T, or constructs one at an address.
template <class F, class T>
concept factory_of =
    (std::invocable<F&> && std::same_as<std::invoke_result_t<F&>, T>) || std::invocable<F&, void*>;

// acquire may be called with Args.
template <class L, class T, class... Args>
concept acquires_with =
    (!k_has_on_acquire<L> && sizeof...(Args) == 0) ||
    requires(L& l, T& object, Args&&... args) { l.on_acquire(object, std::forward<Args>(args)...); };

template <class T>
void construct_default(void* where) {
    if constexpr (std::is_default_constructible_v<T>)
        ::new (where) T();
    else
        POOLED_FAIL(
            "pooled: object_pool: the lifecycle's `create` is empty, and T has no default constructor");
}

inline void check_created([[maybe_unused]] void const* object, [[maybe_unused]] void const* where) {
    POOLED_CHECK(object == where,
                 "pooled: object_pool: `create` must construct the object at the address passed to it");
}

template <class T, class Create>
void create_with(Create&& make, void* where) {
    if constexpr (std::is_void_v<decltype(make(where))>)
        make(where);
    else
        detail::check_created(make(where), where);
}

template <class T, class L>
void create_object([[maybe_unused]] L& l, void* where) {
    if constexpr (k_has_create<L>) {
        static_assert(
            requires { l.create(where); },
            "pooled: object_pool: Lifecycle::create must be callable with a void*");
        if constexpr (requires { detail::is_set(l.create); })
            if (!detail::is_set(l.create)) return detail::construct_default<T>(where);
        detail::create_with<T>([&](void* at) { return l.create(at); }, where);
    } else {
        detail::construct_default<T>(where);
    }
}

template <class T, class L>
[[nodiscard]] POOLED_ALWAYS_INLINE bool call_validate([[maybe_unused]] L& l, [[maybe_unused]] T& object) {
    if constexpr (k_has_validate<L>) {
        static_assert(
            requires { static_cast<bool>(l.validate(object)); },
            "pooled: object_pool: Lifecycle::validate must be callable with a T& and return a bool");
        if constexpr (requires { detail::is_set(l.validate); })
            if (!detail::is_set(l.validate)) return true;
        return static_cast<bool>(l.validate(object));
    } else {
        return true;
    }
}

template <class T, class L, class... Args>
POOLED_ALWAYS_INLINE void call_on_acquire([[maybe_unused]] L& l, [[maybe_unused]] T& object, Args&&... args) {
    if constexpr (k_has_on_acquire<L>) {
        if constexpr (requires { detail::is_set(l.on_acquire); })
            if (!detail::is_set(l.on_acquire)) return;
        l.on_acquire(object, std::forward<Args>(args)...);
    }
}

template <class T, class L>
inline constexpr bool k_on_release_throws = [] {
    if constexpr (requires(L& l, T& object) { l.on_release(object); })
        return !noexcept(std::declval<L&>().on_release(std::declval<T&>()));
    else
        return false;
}();

template <class T, class L>
POOLED_ALWAYS_INLINE void call_on_release([[maybe_unused]] L& l,
                                          [[maybe_unused]] T& object) noexcept(!k_on_release_throws<T, L>) {
    if constexpr (k_has_on_release<L>) {
        static_assert(
            requires { l.on_release(object); },
            "pooled: object_pool: Lifecycle::on_release must be callable with a T&");
        if constexpr (requires { detail::is_set(l.on_release); })
            if (!detail::is_set(l.on_release)) return;
        l.on_release(object);
    }
}

}  // namespace detail

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
