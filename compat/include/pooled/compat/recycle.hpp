// SPDX-License-Identifier: BSL-1.0
#pragma once

// The pools of Steinwurf's recycle library, for programs written for it: the same names; change one include.
//
//   recycle::shared_pool<Parser> parsers([] { return std::make_shared<Parser>(k_grammar); },
//                                        [](std::shared_ptr<Parser> parser) { parser->reset(); });
//   std::shared_ptr<Parser> p = parsers.allocate();   // idle again when its last copy is gone
//
// Objects stay constructed between uses. A pool may be destroyed before its objects, which are then destroyed, not recycled.
// Once the number of idle objects has reached its maximum, neither allocate() nor a release calls malloc: the control block of a
// std::shared_ptr comes from pooled's default pool.
//
// Threads: any threads may call allocate(), unused_resources(), free_unused() and release objects at the same time; with a
// user's locking policy, only if that locks. Copying, moving, assigning and destroying a pool are for one thread.
// A pool that was moved from may only be assigned to or destroyed. O(1), but for copying and free_unused().
//
// Nothing here is [[nodiscard]]: the original's programs must compile as they are.
//
// The interface and the idea (a deleter that holds the pool weakly) are those of the recycle library of Steinwurf ApS.
// compat/README.md lists the differences.

#include "pooled/allocator.hpp"
#include "pooled/config.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/smart/standard_control_block.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace recycle {
inline namespace POOLED_ABI_NAMESPACE {

// The default: the pool uses a mutex of its own, four bytes and two locked instructions.
struct no_locking_policy {
    struct mutex_type {};
    struct lock_type {
        explicit lock_type(mutex_type&) noexcept {}
    };
};

namespace detail {

struct own_locking {
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

// From here on shared_from_this() shares `owner`. An object joins an owner only while it has none, and a recycled one has two in turn:
// the pool's pointer while it is idle, and while it is in use the handle, whose deleter recycles. Requires an object that nobody else
// is using.
template <class T>
void let_share(std::shared_ptr<T> const& owner) noexcept {
    if constexpr (pooled::detail::shares_from_this<T>)
        pooled::detail::owner_in(*owner) = std::const_pointer_cast<std::remove_cv_t<T>>(owner);
}

// Both pools are this and an allocate(). A copy has idle objects of its own. ValuePtr: what owns one.
template <class ValuePtr, class LockingPolicy>
class pool_base {
public:
    using value_ptr = ValuePtr;
    using allocate_function = std::function<ValuePtr()>;
    using recycle_function = detail::recycle_function<ValuePtr>;
    using mutex_type = typename LockingPolicy::mutex_type;
    using lock_type = typename LockingPolicy::lock_type;

    // `allocate` makes an object when none is idle; `recycle`, unless empty, is called with each object that is released,
    // and may keep or replace it. Both are called without a lock, on the thread that allocates or releases.
    pool_base(allocate_function allocate, recycle_function recycle = {})
        : m_stock(std::make_shared<stock>(std::move(allocate), std::move(recycle))) {}

    // The number of idle objects.
    std::size_t unused_resources() const { return contents().idle(); }

    // Destroys the idle objects.
    void free_unused() {
        std::vector<ValuePtr> last;
        stock& all = contents();
        [[maybe_unused]] typename stock::lock_type lock(all.m_mutex);
        last.swap(all.m_idle);
    }

protected:
    pool_base(pool_base const& other) : m_stock(std::make_shared<stock>(other.contents())) {}
    pool_base(pool_base&&) noexcept = default;
    pool_base& operator=(pool_base const& other) {
        m_stock = std::make_shared<stock>(other.contents());
        return *this;
    }
    pool_base& operator=(pool_base&&) noexcept = default;
    ~pool_base() = default;

    // The idle objects, and how one is made and recycled. Calls no function of the user and destroys no object while it holds the lock,
    // so allocate functions, recycle functions and destructors may use the pool. In a std::vector on the heap, since leak checkers do
    // not search mapped pages.
    struct stock {
        using locking =
            std::conditional_t<std::is_same_v<LockingPolicy, no_locking_policy>, own_locking, LockingPolicy>;
        using mutex_type = typename locking::mutex_type;
        using lock_type = typename locking::lock_type;

        stock(allocate_function allocate, recycle_function recycle)
            : m_allocate(std::move(allocate)), m_recycle(std::move(recycle)) {}
        // As many fresh objects as `other` has idle ones now. Throws what the allocate function throws.
        stock(stock const& other) : m_allocate(other.m_allocate), m_recycle(other.m_recycle) {
            std::size_t const count = other.idle();
            m_idle.reserve(count);
            for (std::size_t i = 0; i < count; ++i)
                if (ValuePtr value = m_allocate()) m_idle.push_back(std::move(value));
        }

        [[nodiscard]] std::size_t idle() const {
            [[maybe_unused]] lock_type lock(m_mutex);
            return m_idle.size();
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

        allocate_function const m_allocate;
        recycle_function const m_recycle;
        mutable mutex_type m_mutex;
        std::vector<ValuePtr> m_idle;
    };

    // The object that was recycled last, or a fresh one. Passes on what the allocate function throws or returns, null
    // included; the pool is then as before. std::bad_function_call when there is no allocate function.
    [[nodiscard]] ValuePtr take() const {
        stock& all = contents();
        {
            [[maybe_unused]] typename stock::lock_type lock(all.m_mutex);
            if (!all.m_idle.empty()) {
                ValuePtr value = std::move(all.m_idle.back());
                all.m_idle.pop_back();
                return value;
            }
        }
        return all.m_allocate();
    }
    // For deleters: does not keep the pool alive.
    [[nodiscard]] std::weak_ptr<stock> observe() const noexcept { return m_stock; }

private:
    [[nodiscard]] stock& contents() const {
        POOLED_CHECK(m_stock != nullptr,
                     "recycle: a pool was used after it was moved from; assign another pool to it first");
        return *m_stock;
    }

    std::shared_ptr<stock> m_stock;
};

}  // namespace detail

// Objects as std::shared_ptr.
template <class Value, class LockingPolicy = no_locking_policy>
class shared_pool : public detail::pool_base<std::shared_ptr<Value>, LockingPolicy> {
    using base = detail::pool_base<std::shared_ptr<Value>, LockingPolicy>;

public:
    using value_type = Value;
    using value_ptr = typename base::value_ptr;

    using base::base;
    shared_pool()
        requires std::is_default_constructible_v<Value>
        : base([] { return std::make_shared<Value>(); }) {}

    // Empty when the allocate function returned null. Throws what that throws; the pool is then as before.
    value_ptr allocate() {
        value_ptr value = this->take();
        if (value == nullptr) return value;
        Value* const object = value.get();
        value_ptr handle(object, deleter{this->observe(), std::move(value)}, pooled::allocator<std::byte>());
        detail::let_share(handle);
        return handle;
    }

private:
    // Releases what it holds when it is called; weak pointers delay its destruction.
    struct deleter {
        std::weak_ptr<typename base::stock> pool;
        value_ptr value;

        void operator()(Value*) noexcept {
            detail::let_share(value);
            if (auto const stock = std::exchange(pool, {}).lock())
                stock->put(std::move(value));
            else
                value.reset();
        }
    };
};

// Objects as std::unique_ptr with a deleter that recycles. release() removes an object from the pool: the caller then owns
// it, and deletes it as a std::unique_ptr<Value> would.
template <class Value, class LockingPolicy = no_locking_policy>
class unique_pool : public detail::pool_base<std::unique_ptr<Value>, LockingPolicy> {
    using base = detail::pool_base<std::unique_ptr<Value>, LockingPolicy>;
    // Without a pool it deletes.
    struct deleter {
        std::weak_ptr<typename base::stock> pool{};

        void operator()(Value* object) const noexcept {
            typename base::value_ptr value(object);
            if (auto const stock = pool.lock()) stock->put(std::move(value));
        }
    };

public:
    using value_type = Value;
    using value_ptr = typename base::value_ptr;
    using pool_ptr = std::unique_ptr<Value, deleter>;

    using base::base;
    unique_pool()
        requires std::is_default_constructible_v<Value>
        : base([] { return std::make_unique<Value>(); }) {}

    // Empty when the allocate function returned null. Throws what that throws; the pool is then as before.
    pool_ptr allocate() { return pool_ptr(this->take().release(), deleter{this->observe()}); }
};

}  // namespace POOLED_ABI_NAMESPACE
}  // namespace recycle
