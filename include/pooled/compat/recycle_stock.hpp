// SPDX-License-Identifier: BSL-1.0
#pragma once

// The common part of the two pools of recycle.hpp: the idle objects, and how one is made and recycled.
//
// Calls no function of the user and destroys no object while it holds the lock, so allocate functions, recycle functions and
// destructors may use the pool. Any thread may call any member, unless the user's locking policy does not lock. The idle
// objects are in a std::vector on the heap, since leak checkers do not search mapped pages.

#include "pooled/config.hpp"
#include "pooled/impl/os/mutex.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace recycle::inline POOLED_ABI_NAMESPACE {

// The default: the pool uses a mutex of its own, four bytes and two locked instructions.
struct no_locking_policy {
    struct mutex_type {};
    struct lock_type {
        explicit lock_type(mutex_type&) noexcept {}
    };
};

namespace detail {

template <class LockingPolicy>
struct locking : LockingPolicy {};
template <>
struct locking<no_locking_policy> {
    using mutex_type = pooled::detail::mutex;
    using lock_type = std::lock_guard<mutex_type>;
};

// Holds a function that takes the pointer by value or by reference; converts from and to std::function of both kinds.
template <class ValuePtr>
class recycle_function : public std::function<void(ValuePtr&)> {
    using base = std::function<void(ValuePtr&)>;

public:
    recycle_function() noexcept = default;
    template <class Function>
        requires(!std::is_same_v<std::remove_cvref_t<Function>, recycle_function> &&
                 std::is_constructible_v<base, Function>)
    recycle_function(Function&& f) : base(std::forward<Function>(f)) {}  // NOLINT: converts

    operator std::function<void(ValuePtr)>() const {  // NOLINT: converts
        if (!*this) return nullptr;
        return [f = base(*this)](ValuePtr value) { f(value); };
    }
};

// ValuePtr: what owns an idle object.
template <class ValuePtr, class LockingPolicy>
class stock {
public:
    using allocate_function = std::function<ValuePtr()>;
    using recycle_function = detail::recycle_function<ValuePtr>;

    stock(allocate_function allocate, recycle_function recycle)
        : m_allocate(std::move(allocate)), m_recycle(std::move(recycle)) {}

    // As many fresh objects as `other` has idle ones now. Throws what the allocate function throws.
    stock(stock const& other) : m_allocate(other.m_allocate), m_recycle(other.m_recycle) {
        std::size_t const count = other.idle();
        m_idle.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            if (ValuePtr value = m_allocate()) m_idle.push_back(std::move(value));
    }
    stock& operator=(stock const&) = delete;

    // The object that was recycled last, or a fresh one. Passes on what the allocate function throws or returns, null
    // included; the pool is then as before. std::bad_function_call when there is no allocate function.
    [[nodiscard]] ValuePtr take() {
        {
            [[maybe_unused]] lock_type lock(m_mutex);
            if (!m_idle.empty()) {
                ValuePtr value = std::move(m_idle.back());
                m_idle.pop_back();
                return value;
            }
        }
        return m_allocate();
    }

    // An object that cannot be recycled is destroyed: the recycle function threw or kept it, or there is no memory for
    // the list. This runs in destructors, where nothing may be thrown.
    void put(ValuePtr value) noexcept {
        try {
            if (m_recycle) m_recycle(value);
            if (value == nullptr) return;
            [[maybe_unused]] lock_type lock(m_mutex);
            m_idle.push_back(std::move(value));
        } catch (...) {
            value = nullptr;
        }
    }

    [[nodiscard]] std::size_t idle() const {
        [[maybe_unused]] lock_type lock(m_mutex);
        return m_idle.size();
    }

    void clear() {
        std::vector<ValuePtr> last;
        [[maybe_unused]] lock_type lock(m_mutex);
        last.swap(m_idle);
    }

private:
    using mutex_type = typename locking<LockingPolicy>::mutex_type;
    using lock_type = typename locking<LockingPolicy>::lock_type;

    allocate_function const m_allocate;
    recycle_function const m_recycle;
    mutable mutex_type m_mutex;
    std::vector<ValuePtr> m_idle;
};

}  // namespace detail

}  // namespace recycle::inline POOLED_ABI_NAMESPACE
