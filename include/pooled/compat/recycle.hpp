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
// docs/migration.md lists the differences.

#include "pooled/allocator.hpp"
#include "pooled/compat/recycle_stock.hpp"
#include "pooled/compat/shared_from_this.hpp"
#include "pooled/config.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace recycle::inline POOLED_ABI_NAMESPACE {

namespace detail {

// Owns a stock: a copy has its own. Both pools are this and an allocate().
template <class ValuePtr, class LockingPolicy>
class pool_base {
protected:
    using stock_type = stock<ValuePtr, LockingPolicy>;

public:
    using value_ptr = ValuePtr;
    using allocate_function = typename stock_type::allocate_function;
    using recycle_function = typename stock_type::recycle_function;
    using mutex_type = typename LockingPolicy::mutex_type;
    using lock_type = typename LockingPolicy::lock_type;

    // The number of idle objects.
    std::size_t unused_resources() const { return contents().idle(); }

    // Destroys the idle objects.
    void free_unused() { contents().clear(); }

protected:
    pool_base(allocate_function allocate, recycle_function recycle)
        : m_stock(std::make_shared<stock_type>(std::move(allocate), std::move(recycle))) {}

    pool_base(pool_base const& other) : m_stock(std::make_shared<stock_type>(other.contents())) {}
    pool_base(pool_base&&) noexcept = default;
    pool_base& operator=(pool_base const& other) {
        m_stock = std::make_shared<stock_type>(other.contents());
        return *this;
    }
    pool_base& operator=(pool_base&&) noexcept = default;
    ~pool_base() = default;

    [[nodiscard]] stock_type& contents() const {
        POOLED_CHECK(m_stock != nullptr,
                     "recycle: a pool was used after it was moved from; assign another pool to it first");
        return *m_stock;
    }

    // For deleters: does not keep the pool alive.
    [[nodiscard]] std::weak_ptr<stock_type> observe() const noexcept { return m_stock; }

private:
    std::shared_ptr<stock_type> m_stock;
};

}  // namespace detail

// Objects as std::shared_ptr.
template <class Value, class LockingPolicy = no_locking_policy>
class shared_pool : public detail::pool_base<std::shared_ptr<Value>, LockingPolicy> {
    using base = detail::pool_base<std::shared_ptr<Value>, LockingPolicy>;

public:
    using value_type = Value;
    using value_ptr = typename base::value_ptr;
    using allocate_function = typename base::allocate_function;
    using recycle_function = typename base::recycle_function;

    shared_pool()
        requires std::is_default_constructible_v<Value>
        : shared_pool([] { return std::make_shared<Value>(); }) {}

    // `allocate` makes an object when none is idle; `recycle`, unless empty, is called with each object that is released,
    // and may keep or replace it. Both are called without a lock, on the thread that allocates or releases.
    shared_pool(allocate_function allocate, recycle_function recycle = {})
        : base(std::move(allocate), std::move(recycle)) {}

    // Empty when the allocate function returned null. Throws what that throws; the pool is then as before.
    value_ptr allocate() {
        value_ptr value = this->contents().take();
        if (value == nullptr) return value;
        Value* const object = value.get();
        value_ptr handle(object, deleter(this->observe(), std::move(value)), pooled::allocator<std::byte>());
        pooled::compat::detail::let_share(handle);
        return handle;
    }

private:
    // Releases what it holds when it is called; weak pointers delay its destruction.
    class deleter {
    public:
        deleter(std::weak_ptr<typename base::stock_type> pool, value_ptr value) noexcept
            : m_pool(std::move(pool)), m_value(std::move(value)) {}

        void operator()(Value*) noexcept {
            pooled::compat::detail::let_share(m_value);
            if (auto const stock = std::exchange(m_pool, {}).lock())
                stock->put(std::move(m_value));
            else
                m_value.reset();
        }

    private:
        std::weak_ptr<typename base::stock_type> m_pool;
        value_ptr m_value;
    };
};

// Objects as std::unique_ptr with a deleter that recycles. release() removes an object from the pool: the caller then owns
// it, and deletes it as a std::unique_ptr<Value> would.
template <class Value, class LockingPolicy = no_locking_policy>
class unique_pool : public detail::pool_base<std::unique_ptr<Value>, LockingPolicy> {
    using base = detail::pool_base<std::unique_ptr<Value>, LockingPolicy>;
    class deleter;

public:
    using value_type = Value;
    using value_ptr = typename base::value_ptr;
    using allocate_function = typename base::allocate_function;
    using recycle_function = typename base::recycle_function;
    using pool_ptr = std::unique_ptr<Value, deleter>;

    unique_pool()
        requires std::is_default_constructible_v<Value>
        : unique_pool([] { return std::make_unique<Value>(); }) {}

    // As shared_pool's.
    unique_pool(allocate_function allocate, recycle_function recycle = {})
        : base(std::move(allocate), std::move(recycle)) {}

    // Empty when the allocate function returned null. Throws what that throws; the pool is then as before.
    pool_ptr allocate() {
        value_ptr value = this->contents().take();
        return pool_ptr(value.release(), deleter(this->observe()));
    }

private:
    // Without a pool it deletes.
    class deleter {
    public:
        deleter() noexcept = default;
        explicit deleter(std::weak_ptr<typename base::stock_type> pool) noexcept : m_pool(std::move(pool)) {}

        void operator()(Value* object) const noexcept {
            value_ptr value(object);
            if (auto const stock = m_pool.lock()) stock->put(std::move(value));
        }

    private:
        std::weak_ptr<typename base::stock_type> m_pool;
    };
};

}  // namespace recycle::inline POOLED_ABI_NAMESPACE
