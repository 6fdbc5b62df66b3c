// SPDX-License-Identifier: BSL-1.0
// What a contender is: one way to create and drop objects. Workloads are templates over this concept.
//
//   struct example {
//       static constexpr bool k_counted = true;       // pointers drop what they own; false: drop() must be called
//       static constexpr bool k_thread_safe = true;   // one instance may serve many threads
//       template <class T> using pointer = std::shared_ptr<T>;
//       template <class T, class... Args> pointer<T> make(Args&&...);
//       template <class T> void drop(pointer<T>&);
//   };
//
// An instance is constructed before the clock starts and outlives every pointer that it returned.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

namespace bench {

template <class C>
concept contender = std::default_initializable<C> && requires(C c, typename C::template pointer<int> p) {
    { C::k_counted } -> std::convertible_to<bool>;
    { C::k_thread_safe } -> std::convertible_to<bool>;
    { c.template make<int>(1) } -> std::same_as<typename C::template pointer<int>>;
    c.drop(p);
};

// The base of every contender whose pointer is a std::shared_ptr.
struct shared_contender {
    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = std::shared_ptr<T>;
    template <class T>
    void drop(std::shared_ptr<T>& p) {
        p.reset();
    }
};

// allocate_shared on a stateless allocator.
template <template <class> class Allocator>
struct allocate_shared_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return std::allocate_shared<T>(Allocator<T>{}, std::forward<Args>(args)...);
    }
};

// For a contender that can destroy several structures together: a scope around their drops. Empty for others.
template <contender C>
auto together(C&) {
    if constexpr (requires { typename C::together_scope; })
        return typename C::together_scope();
    else
        return 0;
}

// Empties a container of pointers, front to back like std::vector::clear.
template <contender C, class Pointers>
void drop_all(C& c, Pointers& pointers) {
    if constexpr (!C::k_counted) {
        for (auto& p : pointers)
            c.drop(p);
    }
    pointers.clear();
}

}  // namespace bench
