// SPDX-License-Identifier: BSL-1.0
#pragma once

// memorypool: a drop-in replacement for f18m's boost-intrusive-pool, with the same public interface. A pool keeps its items
// constructed between uses and hands them out as boost::intrusive_ptr; the last handle returns the item.
//
//   class Packet : public memorypool::boost_intrusive_pool_item { … };
//
//   memorypool::boost_intrusive_pool<Packet> pool(1024, 64);          // 1024 packets now, 64 more whenever they are used up
//   boost::intrusive_ptr<Packet> p = pool.allocate_through_init(7);   // a free packet, and p->init(7)
//
// Any number of threads may take and drop items, query, check() and clear() a pool. Constructing, destroying, moving or init()
// of a pool, and setting its recycle method, are for one thread alone. docs/migration.md lists the differences.

#include "pooled/compat/boost_intrusive_pool/stock.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/recycle_list.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <cstddef>
#include <functional>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace memorypool::inline POOLED_ABI_NAMESPACE {

// Requires an Item that is default-constructible and derives from boost_intrusive_pool_item publicly.
template <class Item>
class boost_intrusive_pool {
public:
    using item_ptr = boost::intrusive_ptr<Item>;
    using allocate_function = std::function<void(Item&)>;
    using recycle_function = std::function<void(Item&)>;

    // A pool without items, which gives none until init() is called.
    boost_intrusive_pool() noexcept {
        static_assert(std::is_convertible_v<Item*, boost_intrusive_pool_item*>,
                      "memorypool: an item must derive publicly from memorypool::boost_intrusive_pool_item");
        static_assert(std::is_default_constructible_v<Item>,
                      "memorypool: an item must be default-constructible: the pool constructs it in advance");
        static_assert(std::is_nothrow_destructible_v<Item>,
                      "memorypool: an item's destructor must not throw");
    }

    // As init(), but throws std::bad_alloc. Not explicit: pool = {64, 64}.
    boost_intrusive_pool(std::size_t init_size, std::size_t enlarge_size = BOOST_INTRUSIVE_POOL_INCREASE_STEP,
                         std::size_t max_size = BOOST_INTRUSIVE_POOL_NO_MAX_SIZE,
                         recycle_method_e method = RECYCLE_METHOD_NONE, recycle_function function = nullptr)
        : boost_intrusive_pool() {
        begin_anew({init_size, enlarge_size, max_size}, method, std::move(function));
    }

    // Items in use live until their last handle is dropped, and are destroyed then, after destroy() if that is the method. A
    // recycle function is not called: it may refer to objects that were destroyed with the pool.
    virtual ~boost_intrusive_pool() { close(); }

    boost_intrusive_pool(boost_intrusive_pool const&) = delete;
    boost_intrusive_pool& operator=(boost_intrusive_pool const&) = delete;
    boost_intrusive_pool(boost_intrusive_pool&& other) noexcept { std::swap(m_stock, other.m_stock); }
    boost_intrusive_pool& operator=(boost_intrusive_pool&& other) noexcept {
        boost_intrusive_pool old(std::move(other));
        std::swap(m_stock, old.m_stock);
        return *this;
    }

    // Constructs `init_size` items, and `enlarge_size` more whenever the last free one is taken (0: never, the pool is bounded), up
    // to `max_size`. Resets a pool that was in use. False when there is no memory for them. Throws std::invalid_argument if
    // init_size > max_size, or for a custom method without a function; and what Item's constructor throws. If it fails, the pool is
    // as before.
    bool init(std::size_t init_size = BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE,
              std::size_t enlarge_size = BOOST_INTRUSIVE_POOL_INCREASE_STEP,
              std::size_t max_size = BOOST_INTRUSIVE_POOL_NO_MAX_SIZE,
              recycle_method_e method = RECYCLE_METHOD_NONE, recycle_function function = nullptr) {
        try {
            begin_anew({init_size, enlarge_size, max_size}, method, std::move(function));
            return true;
        } catch (std::bad_alloc const&) {
            return false;
        }
    }

    // Sets what is called on an item whose last handle is gone: any callable, including pointers to members. Throws
    // std::invalid_argument as init(), and std::logic_error before init().
    void set_recycle_method(recycle_method_e method, recycle_function function = nullptr) {
        require_function(method, function);
        if (m_stock == nullptr) throw std::logic_error("memorypool: set_recycle_method() before init()");
        m_stock->set_method(method, std::move(function));
    }

    // A free item; null when there is none and the pool may not grow, or was not initialised. It is as its last user, or the
    // recycle method, left it. Throws std::bad_alloc, and what Item's constructor throws when the pool grows; the pool is
    // then as before. O(1), besides growing.
    item_ptr allocate() { return item_ptr(take(), false); }

    // The same, after item->init(arguments...). If that throws, the item is returned.
    template <class... Arguments>
    item_ptr allocate_through_init(Arguments&&... arguments) {
        static_assert(
            requires(Item& it) { it.init(std::forward<Arguments>(arguments)...); },
            "memorypool: allocate_through_init needs a member init() of the item that takes these arguments");
        return prepared([&](Item& it) { static_cast<void>(it.init(std::forward<Arguments>(arguments)...)); });
    }

    // The same, after f(item&), which may be a pointer to a member.
    template <class Function>
    item_ptr allocate_through_function(Function&& f) {
        return prepared([&](Item& it) { static_cast<void>(std::invoke(std::forward<Function>(f), it)); });
    }

    // Destroys the free items; those in use live on until dropped and are not counted any more. The capacity is 0 then; with
    // the next allocate() the pool grows by a step, a bounded one to its initial size.
    void clear() {
        if (m_stock != nullptr) m_stock->clear();
    }

    // Reports (POOLED_FAIL) counts that make no sense, and a damaged item that would be given next. O(1).
    void check() const {
        if (m_stock != nullptr) m_stock->check();
    }

    // No item is in use.
    [[nodiscard]] bool empty() const { return inuse_count() == 0; }
    // The pool never grows.
    [[nodiscard]] bool is_bounded() const noexcept { return m_stock && m_stock->limits().step == 0; }
    // It has max_size() items at most.
    [[nodiscard]] bool is_limited() const noexcept {
        return is_bounded() || max_size() != BOOST_INTRUSIVE_POOL_NO_MAX_SIZE;
    }
    [[nodiscard]] std::size_t max_size() const noexcept {
        if (is_bounded()) return m_stock->limits().initial;
        return m_stock != nullptr ? m_stock->limits().max : BOOST_INTRUSIVE_POOL_NO_MAX_SIZE;
    }
    // No item is free and the pool may not grow, or there was no memory when it tried last.
    [[nodiscard]] bool is_memory_exhausted() const { return m_stock && m_stock->is_exhausted(); }

    // Exact while no other thread takes or drops items; capacity = unused + in use.
    [[nodiscard]] std::size_t capacity() const noexcept { return counts().capacity; }
    [[nodiscard]] std::size_t unused_count() const { return counts().idle; }
    [[nodiscard]] std::size_t inuse_count() const {
        auto const now = counts();
        return now.capacity - now.idle;
    }
    // The number of steps since init() or clear(), including the initial items.
    [[nodiscard]] std::size_t enlarge_steps_done() const noexcept { return m_stock ? m_stock->steps() : 0; }

private:
    using stock = detail::item_stock<Item>;

    static void require_function(recycle_method_e method, recycle_function const& function) {
        if (method == RECYCLE_METHOD_CUSTOM_FUNCTION && !function)
            throw std::invalid_argument("memorypool: RECYCLE_METHOD_CUSTOM_FUNCTION needs a function");
    }

    void begin_anew(detail::growth_limits limits, recycle_method_e method, recycle_function&& function) {
        if (limits.max != BOOST_INTRUSIVE_POOL_NO_MAX_SIZE && limits.initial > limits.max)
            throw std::invalid_argument("memorypool: init_size is larger than max_size");
        require_function(method, function);
        stock& fresh = stock::create(limits, method, std::move(function));
        close();
        m_stock = &fresh;
    }

    void close() noexcept {
        if (stock* const old = std::exchange(m_stock, nullptr)) old->close();
    }

    [[nodiscard]] pooled::detail::object_counts counts() const noexcept {
        return m_stock != nullptr ? m_stock->count() : pooled::detail::object_counts();
    }
    [[nodiscard]] Item* take() { return m_stock != nullptr ? m_stock->take() : nullptr; }

    // `prepare` sees the count 0, as in the original; handles that it makes are kept.
    template <class Prepare>
    item_ptr prepared(Prepare const& prepare) {
        Item* const it = take();
        if (it == nullptr) return nullptr;
        struct hook {
            Item* it;
            ~hook() { static_cast<void>(it->m_boost_intrusive_pool_refcount.end_hook(1)); }
        };
        item_ptr handle(it, false);  // what is thrown drops it when the hook has ended
        it->m_boost_intrusive_pool_refcount.begin_hook();
        hook const until_prepared{it};
        prepare(*it);
        return handle;
    }

    stock* m_stock = nullptr;
};

}  // namespace memorypool::inline POOLED_ABI_NAMESPACE
