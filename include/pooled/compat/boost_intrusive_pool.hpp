// SPDX-License-Identifier: BSL-1.0
#pragma once

// memorypool: a drop-in for f18m's boost-intrusive-pool, whose public interface this re-creates. A pool keeps its items
// constructed between uses and hands them out as boost::intrusive_ptr; the last handle gives the item back.
//
//   class Packet : public memorypool::boost_intrusive_pool_item { … };
//
//   memorypool::boost_intrusive_pool<Packet> pool(1024, 64);          // 1024 packets now, 64 more whenever they are used up
//   boost::intrusive_ptr<Packet> p = pool.allocate_through_init(7);   // a free packet, and p->init(7)
//
// Unlike the original it may be used by any number of threads: taking and dropping items, asking how many there are, check()
// and clear(). To construct, destroy, move or init() a pool, and to set its recycle method, is for one thread alone.
// docs/migration.md tells all that differs.

#include "pooled/compat/boost_intrusive_pool/item.hpp"
#include "pooled/compat/boost_intrusive_pool/settings.hpp"
#include "pooled/compat/boost_intrusive_pool/typed_core.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace memorypool {

// Requires an Item that is default-constructible and derives from boost_intrusive_pool_item publicly.
template <class Item>
class boost_intrusive_pool {
public:
    using item_ptr = boost::intrusive_ptr<Item>;
    using recycle_function = std::function<void(Item&)>;

    // Has no items and gives none, until init() is called.
    boost_intrusive_pool() noexcept {
        static_assert(std::is_convertible_v<Item*, boost_intrusive_pool_item*>,
                      "memorypool: an item must derive publicly from memorypool::boost_intrusive_pool_item");
        static_assert(
            std::is_default_constructible_v<Item>,
            "memorypool: an item must be default-constructible: the pool constructs it before anyone asks");
        static_assert(std::is_nothrow_destructible_v<Item>,
                      "memorypool: an item's destructor must not throw");
    }

    // As init().
    explicit boost_intrusive_pool(std::size_t init_size,
                                  std::size_t enlarge_size = BOOST_INTRUSIVE_POOL_INCREASE_STEP,
                                  std::size_t max_size = BOOST_INTRUSIVE_POOL_NO_MAX_SIZE,
                                  recycle_method_e method = RECYCLE_METHOD_NONE,
                                  recycle_function function = nullptr)
        : boost_intrusive_pool() {
        init(init_size, enlarge_size, max_size, method, std::move(function));
    }

    // Items in use live on until their last handle goes. Then they are destroyed; destroy() is called before if that is the
    // method, a recycle function is not: it may refer to what went with the pool.
    ~boost_intrusive_pool() { close(); }

    boost_intrusive_pool(boost_intrusive_pool const&) = delete;
    boost_intrusive_pool& operator=(boost_intrusive_pool const&) = delete;
    boost_intrusive_pool(boost_intrusive_pool&& other) noexcept
        : m_core(std::exchange(other.m_core, nullptr)) {}
    boost_intrusive_pool& operator=(boost_intrusive_pool&& other) noexcept {
        boost_intrusive_pool old(std::move(other));
        std::swap(m_core, old.m_core);
        return *this;
    }

    // Constructs `init_size` items, and `enlarge_size` more whenever the last free one is taken (0: never, the pool is bounded),
    // as long as there are not more than `max_size`. A pool that was in use before starts anew, its old items are let go of.
    // Throws std::invalid_argument when init_size is over max_size, or when there is a custom method without a function;
    // std::bad_alloc; what Item's constructor throws. The pool is then as before.
    void init(std::size_t init_size = BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE,
              std::size_t enlarge_size = BOOST_INTRUSIVE_POOL_INCREASE_STEP,
              std::size_t max_size = BOOST_INTRUSIVE_POOL_NO_MAX_SIZE,
              recycle_method_e method = RECYCLE_METHOD_NONE, recycle_function function = nullptr) {
        if (max_size != BOOST_INTRUSIVE_POOL_NO_MAX_SIZE && init_size > max_size)
            throw std::invalid_argument("memorypool: init_size is larger than max_size");
        require_function(method, function);
        core& fresh = core::create({init_size, enlarge_size, max_size}, method, std::move(function));
        close();
        m_core = &fresh;
    }

    // From here on, what is called on an item whose last handle is gone. Throws std::invalid_argument as init(); requires a pool
    // that was initialised.
    void set_recycle_method(recycle_method_e method, recycle_function function = nullptr) {
        require_function(method, function);
        if (m_core == nullptr) throw std::logic_error("memorypool: set_recycle_method() before init()");
        m_core->set_method(method, std::move(function));
    }

    // A free item; null when there is none and the pool may not grow, or was not initialised. It is as its last user, or the
    // recycle method, left it. Throws std::bad_alloc, and what Item's constructor throws when the pool grows; the pool is
    // then as before. O(1), besides growing.
    item_ptr allocate() {
        if (m_core == nullptr) [[unlikely]]
            return nullptr;
        detail::item* const it = m_core->template take<core::k_stride>();
        if (it == nullptr) [[unlikely]]
            return nullptr;
        detail::item_access::becomes_used(*it);
        return item_ptr(detail::downcast<Item>(it), false);
    }

    // The same, after item->init(arguments...). If that throws, the item goes back.
    template <class... Arguments>
    item_ptr allocate_through_init(Arguments&&... arguments) {
        static_assert(
            requires(Item& it) { it.init(std::forward<Arguments>(arguments)...); },
            "memorypool: allocate_through_init needs a member init() of the item that takes these arguments");
        item_ptr it = allocate();
        if (it) static_cast<void>(it->init(std::forward<Arguments>(arguments)...));
        return it;
    }

    // The same, after function(item&).
    template <class Function>
    item_ptr allocate_through_function(Function&& function) {
        item_ptr it = allocate();
        if (it) static_cast<void>(std::forward<Function>(function)(*it));
        return it;
    }

    // Lets go of all items: free ones are destroyed, those in use live on until dropped and are not counted any more. The
    // capacity is 0 then; with the next allocate() the pool grows by a step, a bounded one to its initial size.
    void clear() {
        if (m_core != nullptr) m_core->clear();
    }

    // Walks all the pool's structures and reports (POOLED_FAIL) what is wrong with them.
    void check() const {
        if (m_core != nullptr) m_core->check();
    }

    // No item is free.
    [[nodiscard]] bool empty() const { return unused_count() == 0; }
    // The pool never grows.
    [[nodiscard]] bool is_bounded() const noexcept { return m_core != nullptr && m_core->limits().step == 0; }
    // It grows to max_size() at most.
    [[nodiscard]] bool is_limited() const noexcept { return max_size() != BOOST_INTRUSIVE_POOL_NO_MAX_SIZE; }
    // No item is free and the pool may not grow, or there was no memory when it tried last.
    [[nodiscard]] bool is_memory_exhausted() const { return m_core != nullptr && m_core->is_exhausted(); }

    // The counts are exact while no other thread takes or drops items; capacity = unused + in use.
    [[nodiscard]] std::size_t capacity() const noexcept { return m_core != nullptr ? m_core->capacity() : 0; }
    [[nodiscard]] std::size_t unused_count() const { return m_core != nullptr ? m_core->idle() : 0; }
    [[nodiscard]] std::size_t inuse_count() const {
        std::size_t const unused = unused_count();
        std::size_t const all = capacity();
        return all > unused ? all - unused : 0;
    }

    [[nodiscard]] std::size_t max_size() const noexcept {
        return m_core != nullptr ? m_core->limits().max : BOOST_INTRUSIVE_POOL_NO_MAX_SIZE;
    }
    // How often it grew, since it was initialised or cleared.
    [[nodiscard]] std::size_t enlarge_steps_done() const noexcept {
        return m_core != nullptr ? m_core->steps() : 0;
    }

private:
    using core = detail::typed_core<Item>;

    static void require_function(recycle_method_e method, recycle_function const& function) {
        if (method == RECYCLE_METHOD_CUSTOM_FUNCTION && !function)
            throw std::invalid_argument("memorypool: RECYCLE_METHOD_CUSTOM_FUNCTION needs a function");
    }

    void close() noexcept {
        if (core* const old = std::exchange(m_core, nullptr)) old->close();
    }

    core* m_core = nullptr;
};

}  // namespace memorypool
