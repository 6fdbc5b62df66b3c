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
// An item takes 24 bytes beyond its own members:
//
//   | vptr 8 | owner 8 | count 4, generation 4 | user's members …
//
// Any number of threads may take and drop items, copy and drop handles, query, check() and clear() a pool. Constructing, destroying,
// moving or init() of a pool, and setting its recycle method, are for one thread alone. The drop of an item's only handle runs no
// locked instruction. compat/README.md lists the differences.

#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/config.hpp"
#include "pooled/object/recycle_list.hpp"
#include "pooled/object/recycle_list_slow.hpp"
#include "pooled/os/single_threaded.hpp"
#include "pooled/pool.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/registry.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

// Macros that a user may set: before the first include, the same way in every translation unit.
#ifndef BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE
#define BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE 64  // items constructed at the start
#endif
#ifndef BOOST_INTRUSIVE_POOL_INCREASE_STEP
#define BOOST_INTRUSIVE_POOL_INCREASE_STEP 64  // items constructed when the last free one is taken
#endif
#ifndef BOOST_INTRUSIVE_POOL_NO_MAX_SIZE
#define BOOST_INTRUSIVE_POOL_NO_MAX_SIZE 0  // no limit to the number of items
#endif
// 1: checks for corruption at every copy and drop of a handle, and of every item that is taken.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_CHECKS
#ifdef NDEBUG
#define BOOST_INTRUSIVE_POOL_DEBUG_CHECKS 0
#else
#define BOOST_INTRUSIVE_POOL_DEBUG_CHECKS 1
#endif
#endif
// 1: a pool reports the second thread that takes an item or drops the last handle of one, although that is allowed.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS
#define BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS 0
#endif
// More handles of one item than this are reported as corruption.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT
#define BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT 1000000
#endif

// 1: one thread at a time copies and drops the handles of an item, as in the original: they count without locked instructions. The pools
// stay for any thread: an item may be handed to another thread with all its handles.
#ifndef BOOST_INTRUSIVE_POOL_PLAIN_COUNTS
#define BOOST_INTRUSIVE_POOL_PLAIN_COUNTS 0
#endif

namespace memorypool {
inline namespace POOLED_ABI_NAMESPACE {

// The function to call on an item whose last handle is gone, before it is free again.
enum recycle_method_e {
    RECYCLE_METHOD_NONE,              // nothing
    RECYCLE_METHOD_DESTROY_FUNCTION,  // the item's virtual destroy()
    RECYCLE_METHOD_CUSTOM_FUNCTION,   // the function that was given to the pool
};

class boost_intrusive_pool_item;
namespace detail {

using item = boost_intrusive_pool_item;

// A pool, as its items see it.
struct item_home {
    // The last handle of an item is gone. Afterwards the pool may be, too.
    virtual void take_back(item& it) noexcept = 0;

protected:
    ~item_home() = default;
};

// Handles of an item. The highest bit is set while a hook runs on the item (init(), destroy(), a function of the user), which
// postpones its recycling until the hook returns. An idle item keeps the count 1, so that taking and dropping it need not write
// it; 0 with BOOST_INTRUSIVE_POOL_DEBUG_CHECKS, so that a drop too many is seen.
class handle_count : public pooled::detail::recycle_node {
public:
    static constexpr std::uint32_t k_idle = BOOST_INTRUSIVE_POOL_DEBUG_CHECKS ? 0 : 1;

    operator std::size_t() const noexcept {
        return is_linked() ? 0 : now() & ~k_hook;
    }  // NOLINT: reads as a number
    void add() noexcept {
        if (is_plain())
            write(now() + 1);
        else
            count.fetch_add(1, std::memory_order_relaxed);
    }
    // True if that was the last one: the item is then idle and belongs to the caller.
    [[nodiscard]] bool drop() noexcept {
        // acquire: pairs with the release in the decrement; this thread sees what others did through their handles.
        std::uint32_t const before = count.load(std::memory_order_acquire);
        if (before != 1) {
            if (is_plain()) {
                write(before - 1);
                return false;
            }
            // release: pairs with the acquire of the last drop, this one's included.
            if (count.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
        }
        if (before != k_idle) write(k_idle);
        return true;
    }
    // Requires that no other thread uses the item.
    [[nodiscard]] bool is_idle() const noexcept { return now() == k_idle; }
    void set_used() noexcept {
        if constexpr (k_idle != 1) write(1);
    }
    void begin_hook() noexcept { write(k_hook); }
    // The caller has `mine` handles besides those that the hook kept. False if none is left: the item is idle, and the caller's.
    [[nodiscard]] bool end_hook(std::uint32_t mine) noexcept {
        // acquire: pairs with the release of a handle that the hook gave to another thread.
        if (count.load(std::memory_order_acquire) == k_hook)
            write(mine);
        else if (count.fetch_sub(k_hook - mine, std::memory_order_acq_rel) != k_hook - mine)
            return true;
        if (mine == 0) write(k_idle);
        return mine != 0;
    }

private:
    static constexpr std::uint32_t k_hook = std::uint32_t{1} << 31;
    [[nodiscard]] static bool is_plain() noexcept {
        return BOOST_INTRUSIVE_POOL_PLAIN_COUNTS != 0 || pooled::detail::is_single_threaded();
    }
    [[nodiscard]] std::uint32_t now() const noexcept { return count.load(std::memory_order_relaxed); }
    void write(std::uint32_t n) noexcept { count.store(n, std::memory_order_relaxed); }
};

}  // namespace detail

class boost_intrusive_pool_item {
public:
    boost_intrusive_pool_item() noexcept = default;
    virtual ~boost_intrusive_pool_item() = default;
    // Handles belong to an object, not to its value: a copy has none, and belongs to no pool.
    boost_intrusive_pool_item(boost_intrusive_pool_item const&) noexcept {}
    auto& operator=(boost_intrusive_pool_item const&) noexcept { return *this; }  // NOLINT: assigns nothing
    // Called when the last handle is gone, if the pool's method is RECYCLE_METHOD_DESTROY_FUNCTION.
    virtual void destroy() {}
    // The number of handles.
    [[nodiscard]] std::size_t use_count() const noexcept { return m_boost_intrusive_pool_refcount; }
    // Whether it belongs to a pool. False for an item from new, or on the stack.
    [[nodiscard]] bool is_in_memory_pool() const noexcept { return m_boost_intrusive_pool_owner != nullptr; }
    // Reports an item that was overwritten, or that has more than BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT handles.
    void check() const {
        POOLED_CHECK(use_count() <= BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT,
                     "memorypool: an item has more handles than BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT; it "
                     "was overwritten, or handles leak");
    }
    // Public as in the original, and for reading only. `next` is always null, as it is there while an item is in use.
    static constexpr boost_intrusive_pool_item* m_boost_intrusive_pool_next = nullptr;
    detail::item_home* m_boost_intrusive_pool_owner = nullptr;
    mutable detail::handle_count m_boost_intrusive_pool_refcount;
};
static_assert(sizeof(boost_intrusive_pool_item) == 2 * sizeof(void*) + sizeof(detail::handle_count));

namespace detail {

// Not inlined, so that the frequent path needs no stack frame. As in a hook, handles of itself in its destructor do not count.
POOLED_NOINLINE inline void delete_item(item& it) noexcept {
    it.m_boost_intrusive_pool_refcount.begin_hook();
    delete &it;
}

}  // namespace detail

// What boost::intrusive_ptr finds by argument-dependent lookup.
inline void intrusive_ptr_add_ref(boost_intrusive_pool_item const* item) noexcept {
    item->m_boost_intrusive_pool_refcount.add();
    if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_CHECKS != 0) item->check();
}

inline void intrusive_ptr_release(boost_intrusive_pool_item const* item) noexcept {
    if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_CHECKS != 0)
        POOLED_CHECK(item->use_count() != 0,
                     "memorypool: a handle of an item without handles is dropped; it was overwritten");
    if (!item->m_boost_intrusive_pool_refcount.drop()) return;
    auto& it = const_cast<boost_intrusive_pool_item&>(*item);
    if (it.is_in_memory_pool()) [[likely]]
        it.m_boost_intrusive_pool_owner->take_back(it);
    else
        detail::delete_item(it);
}

namespace detail {

using pooled::detail::observed;
using pooled::detail::recycle_limits;
using pooled::detail::sharing;

inline constexpr std::size_t k_unlimited = (std::numeric_limits<std::size_t>::max)();

// A pool that had more than this gives memory back to the system at its end, as the original gives it to malloc, which returns what is
// large. The next pool then pays for its pages again, a quarter of a microsecond a KiB; a smaller one finds them.
inline constexpr std::size_t k_large_pool_bytes = std::size_t{64} << 20;

// The part of a pool that outlives its handle: a list of items, each a block of the default pool, and what happens to a dropped one. It
// lives until the pool is gone and the last item was returned. No lock is held while a function of the user runs. A step of items is
// constructed completely or not at all.
template <class Item>
class item_stock final : public item_home, public pooled::detail::recycle_list {
public:
    using recycle_function = std::function<void(Item&)>;

    // With the initial items. `step` 0: no others. `most` 0: no limit. Throws std::bad_alloc, and what Item's constructor throws.
    [[nodiscard]] static item_stock& create(std::size_t initial, std::size_t step, std::size_t most,
                                            recycle_method_e method, recycle_function&& function) {
        std::size_t const limit = most != BOOST_INTRUSIVE_POOL_NO_MAX_SIZE ? most : k_unlimited;
        // By the bound, the list decides how many items a thread caches.
        recycle_limits const limits{.bound = step != 0 ? limit : initial,
                                    .growth = 0,
                                    .node_at = k_node_at,
                                    .idle_count = handle_count::k_idle};
        // The list itself lies in a block of its core: a small pool is made without a system call.
        item_stock& made = make<item_stock, sharing::shared>(
            {.name = "memorypool", .upstream = &pooled::detail::g_registry.default_core()}, limits, 0, step,
            limits.bound, method, std::move(function));
        try {
            if (initial != 0) made.build_step(initial);
        } catch (...) {
            made.close();
            throw;
        }
        return made;
    }

    // The pool's handle is destroyed.
    void close() noexcept {
        m_is_closed = true;
        m_is_large = count().capacity > k_large_pool_bytes / sizeof(Item);
        recycle_list::close();
    }
    void clear() noexcept {
        discard(in_use::forget);
        m_steps = 0;
        m_is_short = false;
        m_may_grow = m_step != 0;
    }
    // 0: never, but to its initial size.
    [[nodiscard]] std::size_t step() const noexcept { return m_step; }
    [[nodiscard]] std::size_t most() const noexcept { return m_most; }
    [[nodiscard]] std::size_t steps() const noexcept { return m_steps; }
    // No item is free, and none may be constructed, or there was no memory for the last step.
    [[nodiscard]] bool is_used_up() noexcept {
        auto const now = count();
        return now.idle == 0 && (next_step(now.capacity) == 0 || m_is_short);
    }

    // A free item with one handle, which the caller owns. Null when there is none and no step may be made, or when a constructor of an
    // item calls. Throws what a step throws; the list is then unchanged. A step that runs out of memory is not yet a failure while one
    // item is left.
    [[nodiscard]] POOLED_ALWAYS_INLINE Item* take() {
        check_thread();
        void* p = this->template pop<sharing::shared>();
        if (p == nullptr || (m_may_grow && !has_another())) [[unlikely]] {
            p = take_slow(p);
            if (p == nullptr) return nullptr;
        }
        item& it = *static_cast<item*>(p);
        if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_CHECKS != 0) POOLED_CHECK(is_idle(it), k_not_idle);
        it.m_boost_intrusive_pool_refcount.set_used();
        return downcast(it);
    }

    void take_back(item& it) noexcept override {
        check_thread();
        m_method == RECYCLE_METHOD_NONE ? put_back(it) : recycle(it);
    }

    // Must not run while other threads drop handles.
    void set_method(recycle_method_e method, recycle_function&& function) noexcept {
        m_method = method;
        m_function = std::move(function);
    }

    // The item stays where it is: another thread that finds no other one would not get it meanwhile.
    void check() noexcept {
        using namespace pooled::detail;
        bool is_sound = true;
        {
            far_pass const pass(core().id());
            thread_cache* const mine = t_state().find(core().id());
            if (!pass || mine == nullptr || !mine->gate.enter()) return;
            if (void const* const next = mine->recycled.next())
                is_sound = is_idle(*static_cast<item const*>(next));
            mine->gate.leave();
        }
        POOLED_CHECK(is_sound, k_not_idle);
    }

    // In a forked child, a thread that was constructing items does not exist.
    void after_fork_in_child() noexcept override {
        recycle_list::after_fork_in_child();
        forget_builder();
    }
    void begin_anew() noexcept override {
        recycle_list::begin_anew();
        forget_builder();
    }

private:
    friend recycle_list;
    using thread = pooled::detail::thread_state const*;
    static constexpr std::size_t k_node_at = sizeof(item) - sizeof(handle_count);  // the last member

    item_stock(pooled::detail::pool_core& core, recycle_limits const& limits, std::size_t step,
               std::size_t most, recycle_method_e method, recycle_function&& function) noexcept
        : recycle_list(core, limits),
          m_step(step),
          m_most(most),
          m_method(method),
          m_function(std::move(function)) {}
    ~item_stock() = default;

    // An item that is known to be an Item. The base class may be virtual, then only the object knows where it begins.
    [[nodiscard]] static POOLED_ALWAYS_INLINE Item* downcast(item& it) noexcept {
        if constexpr (requires { static_cast<Item*>(&it); })
            return static_cast<Item*>(&it);
        else
            return dynamic_cast<Item*>(&it);
    }

    static constexpr char const* k_not_idle =
        "memorypool: a free item was overwritten, or used after its last handle had gone";
    [[nodiscard]] static bool is_idle(item const& it) noexcept {
        handle_count const& count = it.m_boost_intrusive_pool_refcount;
        return it.is_in_memory_pool() && count.is_idle() && count.generation % handle_count::k_step == 0;
    }
    void check_thread() noexcept {
        if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS != 0) {
            void const* const me = &pooled::detail::t_state();
            void const* first = nullptr;
            bool const is_first = m_thread.compare_exchange_strong(first, me) || first == me;
            POOLED_CHECK(is_first, "memorypool: a second thread uses the pool, and "
                                   "BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS is 1");
        }
    }

    // How many items to construct when there are `capacity`, and none is free.
    [[nodiscard]] std::size_t next_step(std::size_t capacity) const noexcept {
        if (m_step == 0) return capacity == 0 ? m_most : 0;
        std::size_t const left = m_most - capacity;
        return left < m_step ? left : m_step;
    }
    // `p`: an item that may have been the last free one, or null: none was found without the lock. One thread at a time makes a step, when the
    // last free item is taken; others that find none wait for it, however long that takes, unless it waits for them.
    POOLED_NOINLINE void* take_slow(void* p) {
        struct turn {
            std::atomic<thread>& builder;
            ~turn() { builder.store(nullptr, std::memory_order_release); }  // pairs with the acquire below
        };
        thread const me = &pooled::detail::t_state();
        for (unsigned attempt = 0;; ++attempt) {
            if (p == nullptr) p = recycle_list::take().object;
            if (p != nullptr && is_any_cached()) return p;
            thread builder = nullptr;
            if (m_builder.compare_exchange_strong(builder, me, std::memory_order_acquire)) {
                turn const mine{m_builder};
                if (!grow(p) || p != nullptr) return p;
            } else if (p != nullptr || builder == me || pooled::detail::fork_gate::is_passed()) {
                return p;
            } else {
                pooled::detail::platform::pause(attempt);
            }
        }
    }
    // Whether the thread has cached another item. Requires a result of pop().
    [[nodiscard]] POOLED_ALWAYS_INLINE bool has_another() const noexcept {
        using namespace pooled::detail;
        auto const* const mine = POOLED_THREAD_GET_AT(t_state, near_caches, m_slot);
        if (mine == nullptr) __builtin_unreachable();
        return mine->recycled.size() != 0;
    }
    [[nodiscard]] bool is_any_cached() const noexcept {
        auto const* const mine = pooled::detail::t_state().find(core().id());
        return mine != nullptr && mine->recycled.size() != 0;
    }
    // Makes a step if no item is free. False: none may be made. When memory has run out, that is only a failure for who has no item yet; what
    // a constructor throws is passed on, and `p` is free again.
    [[nodiscard]] bool grow(void* p) {
        auto const now = count();
        if (now.idle != 0) return true;
        std::size_t const more = next_step(now.capacity);
        if (more == 0) return false;
        try {
            build_step(more);
        } catch (std::bad_alloc const&) {
            m_is_short = true;
            if (p == nullptr) throw;
        } catch (...) {
            if (p != nullptr) put(p);
            throw;
        }
        return true;
    }
    // Constructs so many items, all or none, which are free then. Throws std::bad_alloc, and what a constructor throws.
    void build_step(std::size_t count) {
        // As the list asks its core, where objects have their memory from that.
        std::size_t const bytes = pooled::detail::saturating_multiply(count, sizeof(Item));
        if (!pooled::detail::g_registry.default_core().may_give(bytes)) throw std::bad_alloc();
        pooled::detail::recycle_stack built;
        try {
            while (built.size() != count) {
                void* const memory =
                    pooled::detail::allocate_bytes_or_throw(k_place, sizeof(Item), alignof(Item));
                try {
                    built.push(construct_at(memory).m_boost_intrusive_pool_refcount);
                } catch (...) {
                    deallocate(memory);
                    throw;
                }
            }
        } catch (...) {
            while (pooled::detail::recycle_node* const n = built.pop())
                destroy_one(reinterpret_cast<std::byte*>(n) - k_node_at);
            throw;
        }
        add_idle(built);
        m_steps = m_steps + 1;
        m_is_short = false;
        m_may_grow = m_step != 0 && this->count().capacity < m_most;
    }
    void forget_builder() noexcept {
        if (m_builder.load(std::memory_order_relaxed) != &pooled::detail::t_state())
            m_builder.store(nullptr, std::memory_order_relaxed);
    }
    void build_objects(pooled::detail::recycle_stack&, std::size_t, bool) override {}  // the list builds none
    // Default-initialises: writes nothing but what Item's constructor writes.
    [[nodiscard]] item& construct_at(void* memory) {
        item& it = *::new (memory) Item;
        it.m_boost_intrusive_pool_owner = this;
        return it;
    }
    void destroy_one(void* p) noexcept override {
        Item* const whole = downcast(*static_cast<item*>(p));
        whole->Item::~Item();  // not a virtual call: it may be empty
        deallocate(whole);
    }
    void end() noexcept override {
        bool const is_large = m_is_large;
        destroy<sharing::shared>(*this);
        if (is_large) static_cast<void>(pooled::detail::g_registry.default_core().trim());
    }

    // Requires an item without a handle. Afterwards the pool may be gone.
    POOLED_ALWAYS_INLINE void put_back(item& it) noexcept {
        if (!this->template push<sharing::shared>(&it, it.m_boost_intrusive_pool_refcount)) [[unlikely]]
            put(&it);
    }

    // Calls the user's hook. If it keeps a handle, the item stays in use; if it throws, the item's state is unknown, and another is
    // constructed in its place.
    POOLED_NOINLINE void recycle(item& it) noexcept {
        bool has_thrown = false;
        it.m_boost_intrusive_pool_refcount.begin_hook();
        try {
            if (m_method == RECYCLE_METHOD_DESTROY_FUNCTION)
                it.destroy();
            else if (!m_is_closed)
                m_function(*downcast(it));  // belongs to the pool: not called after the pool is gone
        } catch (...) {
            has_thrown = true;
        }
        if (it.m_boost_intrusive_pool_refcount.end_hook(0)) return;
        if (!has_thrown) return put_back(it);
        std::uint32_t const generation = it.m_boost_intrusive_pool_refcount.generation;
        Item* const where = downcast(it);
        std::destroy_at(where);
        try {
            item& again = construct_at(where);
            again.m_boost_intrusive_pool_refcount.set(handle_count::k_idle, generation);
            put_back(again);
        } catch (...) {
            deallocate(where);
            m_may_grow = m_step != 0;
            remove(generation);
        }
    }

    static constexpr pooled::detail::in_default_pool k_place{};
    static void deallocate(void* p) noexcept {
        pooled::detail::deallocate_bytes(k_place, p, sizeof(Item), alignof(Item));
    }

    std::uint32_t const m_slot = core().slot();
    observed<bool> m_may_grow;  // when its last free item is taken
    std::size_t const m_step;
    std::size_t const m_most;
    observed<std::size_t> m_steps;
    observed<bool> m_is_short;  // the last step failed because memory ran out
    std::atomic<thread> m_builder{nullptr};
    observed<recycle_method_e> m_method;
    observed<bool> m_is_closed;
    bool m_is_large = false;  // when it was closed
    recycle_function m_function;
    std::atomic<void const*> m_thread{nullptr};
};

}  // namespace detail

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
        begin_anew(init_size, enlarge_size, max_size, method, std::move(function));
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
            begin_anew(init_size, enlarge_size, max_size, method, std::move(function));
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
    [[nodiscard]] bool is_bounded() const noexcept { return m_stock && m_stock->step() == 0; }
    // It has max_size() items at most.
    [[nodiscard]] bool is_limited() const noexcept {
        return m_stock && m_stock->most() != detail::k_unlimited;
    }
    [[nodiscard]] std::size_t max_size() const noexcept {
        return is_limited() ? m_stock->most() : BOOST_INTRUSIVE_POOL_NO_MAX_SIZE;
    }
    // No item is free and the pool may not grow, or there was no memory when it tried last.
    [[nodiscard]] bool is_memory_exhausted() const { return m_stock && m_stock->is_used_up(); }

    // Exact while no other thread takes or drops items; capacity = unused + in use.
    [[nodiscard]] std::size_t capacity() const noexcept { return counts().capacity; }
    [[nodiscard]] std::size_t unused_count() const { return counts().idle; }
    [[nodiscard]] std::size_t inuse_count() const {
        auto const now = counts();
        return now.capacity - now.idle;
    }
    // The number of steps since init() or clear(), including the initial items.
    [[nodiscard]] std::size_t enlarge_steps_done() const noexcept {
        return m_stock != nullptr ? m_stock->steps() : 0;
    }

private:
    using stock = detail::item_stock<Item>;

    static void require_function(recycle_method_e method, recycle_function const& function) {
        if (method == RECYCLE_METHOD_CUSTOM_FUNCTION && !function)
            throw std::invalid_argument("memorypool: RECYCLE_METHOD_CUSTOM_FUNCTION needs a function");
    }

    void begin_anew(std::size_t initial, std::size_t step, std::size_t most, recycle_method_e method,
                    recycle_function&& function) {
        if (most != BOOST_INTRUSIVE_POOL_NO_MAX_SIZE && initial > most)
            throw std::invalid_argument("memorypool: init_size is larger than max_size");
        require_function(method, function);
        stock& fresh = stock::create(initial, step, most, method, std::move(function));
        close();
        m_stock = &fresh;
    }

    void close() noexcept {
        if (stock* const old = std::exchange(m_stock, nullptr)) old->close();
    }

    [[nodiscard]] pooled::object_pool_stats counts() const noexcept {
        return m_stock != nullptr ? m_stock->count() : pooled::object_pool_stats();
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

}  // namespace POOLED_ABI_NAMESPACE
}  // namespace memorypool
