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

#include "pooled/fwd.hpp"

#include <concepts>
#include <utility>

POOLED_BEGIN_NAMESPACE

namespace detail {

// An object that may be empty.
template <class Function>
[[nodiscard]] constexpr bool is_set(Function const& f) noexcept {
    if constexpr (!std::is_function_v<Function> && std::constructible_from<bool, Function const&>)
        return static_cast<bool>(f);
    else
        return true;
}

template <class Signature>
class callable;

// A type-erased function object, or none. It replaces std::function, whose header costs 6,000 more lines (GCC 12; libc++
// 17,000). A copy copies the function object into memory from operator new. Assignment is for one thread at a time; a call is as
// thread-safe as the function object.
template <class Result, class... Args>
class callable<Result(Args...)> {
public:
    callable() noexcept = default;
    callable(std::nullptr_t) noexcept {}  // NOLINT: as std::function converts
    // Empty when `function` can be empty and is.
    template <class F, class Held = std::decay_t<F>>
        requires(!std::same_as<Held, callable>) && (!std::same_as<Held, std::nullptr_t>) &&
                (!std::is_member_object_pointer_v<Held>) && std::is_invocable_r_v<Result, Held&, Args...> &&
                std::copy_constructible<Held>
    callable(F&& function)  // NOLINT: as std::function converts
        : m_held(detail::is_set(function) ? std::make_unique<held<Held>>(std::forward<F>(function))
                                          : nullptr) {}
    callable(callable const& other) : m_held(other.m_held != nullptr ? other.m_held->clone() : nullptr) {}
    callable(callable&&) noexcept = default;
    callable& operator=(callable const& other) { return *this = callable(other); }
    callable& operator=(callable&&) noexcept = default;
    ~callable() = default;

    [[nodiscard]] explicit operator bool() const noexcept { return m_held != nullptr; }
    [[nodiscard]] bool operator==(std::nullptr_t) const noexcept { return m_held == nullptr; }

    // Requires that it is not empty; checked.
    Result operator()(Args... args) const {
        POOLED_CHECK(m_held != nullptr, "pooled: an empty function was called");
        return m_held->call(std::forward<Args>(args)...);
    }

private:
    struct any {
        virtual ~any() = default;
        [[nodiscard]] virtual std::unique_ptr<any> clone() const = 0;
        virtual Result call(Args... args) = 0;
    };
    template <class F>
    struct held final : any {
        template <class From>
            requires(!std::is_same_v<std::remove_cvref_t<From>, held>)
        explicit held(From&& from) : function(std::forward<From>(from)) {}
        [[nodiscard]] std::unique_ptr<any> clone() const override { return std::make_unique<held>(function); }
        Result call(Args... args) override { return static_cast<Result>(apply(std::forward<Args>(args)...)); }

        // std::invoke is in <functional>.
        template <class First, class... Rest>
            requires std::is_member_pointer_v<F>
        decltype(auto) apply(First&& object, Rest&&... rest) {
            if constexpr (std::is_pointer_v<std::remove_cvref_t<First>>)
                return (object->*function)(std::forward<Rest>(rest)...);
            else
                return (std::forward<First>(object).*function)(std::forward<Rest>(rest)...);
        }
        template <class... All>
        decltype(auto) apply(All&&... all) {
            return function(std::forward<All>(all)...);
        }
        F function;
    };

    std::unique_ptr<any> m_held;
};

}  // namespace detail

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

// Calls reset(), for classes that restore their initial state by it.
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

// k_has_…: whether L has a member of the name, with any parameters: in a class that inherits the name twice it is ambiguous.
// has_…(l): and whether it is to be called, as an object that is empty is not.
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
    }();                                                                  \
    template <class L>                                                    \
    [[nodiscard]] constexpr bool has_##name(L& l) noexcept {              \
        if constexpr (requires { detail::is_set(l.name); })               \
            return detail::is_set(l.name);                                \
        else                                                              \
            return k_has_##name<L>;                                       \
    }
#define POOLED_PLUS_HAS(name) +k_has_##name<L>
// What others call them, and slips.
#define POOLED_FOR_EACH_SLIP(name_of)                                                                   \
    name_of(onAcquire) name_of(OnAcquire) name_of(on_aquire) name_of(on_acquired) name_of(onRelease)    \
        name_of(OnRelease) name_of(on_realease) name_of(on_relase) name_of(on_released) name_of(Create) \
            name_of(on_create) name_of(Validate) name_of(on_validate)
POOLED_NAME_OF_MEMBER(create)
POOLED_NAME_OF_MEMBER(validate)
POOLED_NAME_OF_MEMBER(on_acquire)
POOLED_NAME_OF_MEMBER(on_release)
POOLED_FOR_EACH_SLIP(POOLED_NAME_OF_MEMBER)

template <class L>
inline constexpr bool k_has_misspelt_hook = 0 POOLED_FOR_EACH_SLIP(POOLED_PLUS_HAS) != 0;
#undef POOLED_NAME_OF_MEMBER
#undef POOLED_PLUS_HAS
#undef POOLED_FOR_EACH_SLIP
template <class L, class T>
inline constexpr bool k_has_hook = k_has_create<L> || k_has_validate<L> || k_has_on_acquire<L> ||
                                   k_has_on_release<L> || std::is_base_of_v<default_lifecycle<T>, L>;

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

template <class Create>
void create_with(Create&& make, void* where) {
    void const* made = where;
    if constexpr (std::is_void_v<decltype(make(where))>)
        make(where);
    else
        made = make(where);
    POOLED_CHECK(made == where,
                 "pooled: object_pool: `create` must construct the object at the address passed to it");
}

}  // namespace detail

POOLED_END_NAMESPACE
