// SPDX-License-Identifier: BSL-1.0
#pragma once

// A type-erased function object, or none. It replaces std::function, whose header costs 6,000 more lines (GCC 12; libc++
// 17,000). A copy copies the function object into memory from operator new. Assignment is for one thread at a time; a call is as
// thread-safe as the function object.

#include "pooled/config.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <class Signature>
class callable;

template <class Result, class... Args>
class callable<Result(Args...)> {
public:
    callable() noexcept = default;
    callable(std::nullptr_t) noexcept {}  // NOLINT: as std::function converts
    // Empty when `function` can be empty and is.
    template <class F>
        requires(!std::same_as<std::decay_t<F>, callable>) &&
                (!std::same_as<std::decay_t<F>, std::nullptr_t>) &&
                (!std::is_member_object_pointer_v<std::decay_t<F>>) &&
                std::is_invocable_r_v<Result, std::decay_t<F>&, Args...> &&
                std::copy_constructible<std::decay_t<F>>
    callable(F&& function) {  // NOLINT: as std::function converts
        if constexpr (std::constructible_from<bool, std::decay_t<F> const&> &&
                      !std::is_function_v<std::remove_cvref_t<F>>)
            if (!static_cast<bool>(function)) return;
        m_held = std::make_unique<held<std::decay_t<F>>>(std::in_place, std::forward<F>(function));
    }
    callable(callable const& other) : m_held(other.m_held != nullptr ? other.m_held->clone() : nullptr) {}
    callable(callable&&) noexcept = default;
    callable& operator=(callable const& other) {
        m_held = callable(other).m_held;
        return *this;
    }
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
        any() = default;
        any(any const&) = delete;
        any& operator=(any const&) = delete;
        virtual ~any() = default;
        [[nodiscard]] virtual std::unique_ptr<any> clone() const = 0;
        virtual Result call(Args... args) = 0;
    };
    template <class F>
    struct held final : any {
        template <class From>
        explicit held(std::in_place_t, From&& from) : function(std::forward<From>(from)) {}
        [[nodiscard]] std::unique_ptr<any> clone() const override {
            return std::make_unique<held>(std::in_place, function);
        }
        Result call(Args... args) override { return static_cast<Result>(apply(std::forward<Args>(args)...)); }

        // std::invoke is in <functional>.
        decltype(auto) apply(Args... args)
            requires(!std::is_member_pointer_v<F>)
        {
            return function(std::forward<Args>(args)...);
        }
        template <class Object, class... Rest>
            requires std::is_member_pointer_v<F>
        decltype(auto) apply(Object&& object, Rest&&... rest) {
            if constexpr (std::is_pointer_v<std::remove_cvref_t<Object>>)
                return (object->*function)(std::forward<Rest>(rest)...);
            else
                return (std::forward<Object>(object).*function)(std::forward<Rest>(rest)...);
        }
        F function;
    };

    std::unique_ptr<any> m_held;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
