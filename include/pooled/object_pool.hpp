// SPDX-License-Identifier: BSL-1.0
#pragma once

// object_pool: objects that stay constructed between uses. local_object_pool: the same for one thread, without atomics.
//
//   pooled::object_pool<Connection> connections{{.max_objects = 64}};
//   std::shared_ptr<Connection> c = connections.acquire();                      // throws exhausted if all 64 are in use
//   std::shared_ptr<Connection> d = connections.acquire_for(10ms);              // waits; empty after 10 ms
//   pooled::unique_ptr<Connection> e = connections.acquire_unique();            // 8 bytes
//   pooled::rc_ptr<Connection> f = connections.acquire_rc();                    // 8 bytes, counted
//
// An object is built once, by the lifecycle's `create`, a factory, or T's default constructor. After its last owner is gone it is
// idle, still constructed, until the next acquire; trim(), clear() or the pool's destructor destroys it. T need not be movable.
// Acquire and release call neither malloc nor the system, and take no lock while the thread's own cache serves them; the control
// block lies with the object. An object is acquired again only after its last weak_ptr is gone, so a weak_ptr never sees the next
// user.
//
// A pool may be destroyed before its objects: those in use stay valid, and their last owner destroys them without recycling and
// without a call of the lifecycle. Acquiring or waiting while the pool is destroyed is undefined.
//
// Exceptions of `create`, `validate` and `on_acquire` propagate to the caller, and the pool is as before; the object that validate
// or on_acquire got is idle again. If `create` throws instead of an invalid object, that object is gone. An object whose
// on_release throws is destroyed and no longer counts under the bound; the exception is discarded.

#include "pooled/error.hpp"
#include "pooled/fwd.hpp"
#include "pooled/lifecycle.hpp"
#include "pooled/object/deadline.hpp"
#include "pooled/object/handles.hpp"
#include "pooled/object/recycler.hpp"
#include "pooled/options.hpp"
#include "pooled/pool.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/stats.hpp"
#include "pooled/unique_ptr.hpp"

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

POOLED_BEGIN_NAMESPACE

namespace detail {

// What acquire forwards to the lifecycle's on_acquire.
template <class L, class T, class... Args>
concept acquire_arguments = acquires_with<L, T, Args...> && !k_begins_with_stop_token<Args...>;

template <class T, class Lifecycle, sharing Sharing>
class basic_object_pool {
    static_assert(std::is_object_v<T> && !std::is_array_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T>,
                  "pooled: object_pool<T>: T must be an object type, not an array, and without const");
    static_assert(
        !k_has_misspelt_hook<Lifecycle>,
        "pooled: object_pool: Lifecycle has a misspelt member, which would never be called: the names are "
        "create, validate, on_acquire and on_release");
    static_assert(
        k_has_misspelt_hook<Lifecycle> || k_has_hook<Lifecycle, T>,
        "pooled: object_pool: Lifecycle has none of the members create, validate, on_acquire and on_release");
    using recycler_type = recycler<T, Lifecycle, Sharing>;

public:
    using value_type = T;
    using lifecycle_type = Lifecycle;
    // rc_ptr; local_rc_ptr in a local pool.
    using rc_pointer = rc_ptr_of<T, counting_of<Sharing>>;

    // Builds initial_objects. Throws std::invalid_argument for invalid options, std::length_error for more objects at a time than
    // the address space holds, std::bad_alloc, and what upstream and building an object throw.
    explicit basic_object_pool(object_pool_options const& options = {}, Lifecycle lifecycle = Lifecycle())
        requires creates<Lifecycle, T>
        : m_recycler(std::addressof(recycler_type::make(options, std::move(lifecycle), {}))) {}

    // Compilers show these lines.
    basic_object_pool()  // pooled: T has no default constructor: pass a factory, or a lifecycle with create
        requires(!creates<Lifecycle, T>)
    = delete;
    explicit basic_object_pool(object_pool_options const&)  // pooled: T has no default constructor
        requires(!creates<Lifecycle, T>)
    = delete;

    // `factory` builds the objects: it returns a T, or constructs one at the void* it is given. Several threads may call it
    // at the same time.
    template <factory_of<T> Factory>
    basic_object_pool(object_pool_options const& options, Factory factory)
        requires std::is_default_constructible_v<Lifecycle>
        : basic_object_pool(options, Lifecycle(), std::move(factory)) {}
    template <factory_of<T> Factory>
    basic_object_pool(object_pool_options const& options, Lifecycle lifecycle, Factory factory)
        : m_recycler(std::addressof(recycler_type::make(options, std::move(lifecycle),
                                                        detail::make_factory<T>(std::move(factory))))) {}

    ~basic_object_pool() { m_recycler->close(); }
    basic_object_pool(basic_object_pool const&) = delete;
    basic_object_pool& operator=(basic_object_pool const&) = delete;

    // An idle object, or a new one. Throws exhausted when as many as the bound allows are in use; idle objects in other
    // threads' caches are found first. Throws std::bad_alloc, what else upstream throws, and what `create` and
    // `on_acquire` throw. `args` are on_acquire's. O(1), or O(threads) when idle objects are taken from other threads' caches.
    template <class... Args>
        requires acquire_arguments<Lifecycle, T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> acquire(Args&&... args) {
        return get<shared>(or_throw(), std::forward<Args>(args)...);
    }
    template <class... Args>
        requires acquire_arguments<Lifecycle, T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE unique_ptr<T> acquire_unique(Args&&... args) {
        return get<unique>(or_throw(), std::forward<Args>(args)...);
    }
    template <class... Args>
        requires acquire_arguments<Lifecycle, T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE rc_pointer acquire_rc(Args&&... args) {
        return get<rc>(or_throw(), std::forward<Args>(args)...);
    }

    // The same; empty when exhausted, or when there is no memory for another object.
    template <class... Args>
        requires acquire_arguments<Lifecycle, T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> try_acquire(Args&&... args) {
        return get<shared>(or_empty(), std::forward<Args>(args)...);
    }
    template <class... Args>
        requires acquire_arguments<Lifecycle, T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE unique_ptr<T> try_acquire_unique(Args&&... args) {
        return get<unique>(or_empty(), std::forward<Args>(args)...);
    }
    template <class... Args>
        requires acquire_arguments<Lifecycle, T, Args...>
    [[nodiscard]] POOLED_ALWAYS_INLINE rc_pointer try_acquire_rc(Args&&... args) {
        return get<rc>(or_empty(), std::forward<Args>(args)...);
    }

    // The same, but wait when exhausted, in the order of arrival; empty after the deadline. A released object goes to the first
    // waiter; for 50 µs at most, threads that acquire before that thread has woken may take it. In a local pool no other thread
    // can release an object, so they return at once.
    template <class Rep, class Period, class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] std::shared_ptr<T> acquire_for(std::chrono::duration<Rep, Period> at_most, Args&&... args) {
        return get<shared>(at_most, std::forward<Args>(args)...);
    }
    template <class Rep, class Period, class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] unique_ptr<T> acquire_unique_for(std::chrono::duration<Rep, Period> at_most,
                                                   Args&&... args) {
        return get<unique>(at_most, std::forward<Args>(args)...);
    }
    template <class Rep, class Period, class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] rc_pointer acquire_rc_for(std::chrono::duration<Rep, Period> at_most, Args&&... args) {
        return get<rc>(at_most, std::forward<Args>(args)...);
    }

    template <class Clock, class Duration, class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] std::shared_ptr<T> acquire_until(std::chrono::time_point<Clock, Duration> end,
                                                   Args&&... args) {
        return get<shared>(detail::deadline(end), std::forward<Args>(args)...);
    }
    template <class Clock, class Duration, class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] unique_ptr<T> acquire_unique_until(std::chrono::time_point<Clock, Duration> end,
                                                     Args&&... args) {
        return get<unique>(detail::deadline(end), std::forward<Args>(args)...);
    }
    template <class Clock, class Duration, class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] rc_pointer acquire_rc_until(std::chrono::time_point<Clock, Duration> end, Args&&... args) {
        return get<rc>(detail::deadline(end), std::forward<Args>(args)...);
    }

#if POOLED_HAS_STOP_TOKEN
    // Wait until a stop is requested, and are empty then, also if the stop was requested before the call and objects are idle.
    template <class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] std::shared_ptr<T> acquire(std::stop_token const& token, Args&&... args) {
        return get<shared>(until_stopped{token}, std::forward<Args>(args)...);
    }
    template <class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] unique_ptr<T> acquire_unique(std::stop_token const& token, Args&&... args) {
        return get<unique>(until_stopped{token}, std::forward<Args>(args)...);
    }
    template <class... Args>
        requires acquires_with<Lifecycle, T, Args...>
    [[nodiscard]] rc_pointer acquire_rc(std::stop_token const& token, Args&&... args) {
        return get<rc>(until_stopped{token}, std::forward<Args>(args)...);
    }
#endif

    // Builds objects until `count` exist, in use or idle; so many can then be in use without another being built. Throws
    // std::length_error if max_objects or the address space does not allow that, std::bad_alloc, and what upstream and building an
    // object throw; the pool is then as before.
    void reserve(std::size_t count) { m_recycler->reserve(count); }

    // Destroys all idle objects, including those in other threads' caches, and returns their memory to upstream. Returns how
    // many: none if another thread has the pool's list locked for 4 ms. O(idle objects).
    std::size_t trim() noexcept { return m_recycler->discard_idle(recycle_list::in_use::keep); }

    // The same; objects in use are destroyed with their last owner, not recycled: every object acquired from now on is new. Those
    // in use still count under the bound.
    std::size_t clear() noexcept { return m_recycler->discard_idle(recycle_list::in_use::outdate); }

    // How many objects exist: capacity() == in_use() + idle(). An object that only weak_ptrs refer to is in use. Exact when
    // no other thread is acquiring or releasing.
    [[nodiscard]] std::size_t capacity() const noexcept { return m_recycler->count().capacity; }
    [[nodiscard]] std::size_t in_use() const noexcept { return m_recycler->count().in_use; }
    [[nodiscard]] std::size_t idle() const noexcept { return m_recycler->count().idle; }
    // The most that were ever in use at once.
    [[nodiscard]] std::size_t high_water() const noexcept { return m_recycler->count().high_water; }
    // Threads that wait for an object.
    [[nodiscard]] std::size_t waiting() const noexcept { return m_recycler->count().waiting; }

    // All of these at one moment, and the memory. O(threads).
    [[nodiscard]] object_pool_stats stats() const {
        object_pool_stats all = m_recycler->count();
        pool_stats const memory = m_recycler->core().stats();
        all.name = memory.name;
        all.slot_bytes = recycler_type::layout::k_bytes;
        all.upstream_bytes = memory.upstream_bytes;
        all.upstream_calls = memory.upstream_calls;
        return all;
    }

    [[nodiscard]] std::string_view name() const noexcept { return m_recycler->core().name(); }

    // How many objects are in use, and what else the pool's memory holds. For people: the text is not fixed.
    template <class Traits>
    void live_report(std::basic_ostream<char, Traits>& out) const {
        object_pool_stats const now = m_recycler->count();
        out << "object_pool '" << name() << "': " << now.in_use << " objects in use, " << now.idle
            << " idle\n";
    }

private:
    friend struct object_pool_access;  // of tests

    using shared = shared_handle<T, recycler_type>;
    using unique = counted_handle<T, recycler_type, unique_owner>;
    using rc = counted_handle<T, recycler_type, rc_owner<counting_of<Sharing>>>;
    template <class Handle, class Otherwise, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE typename Handle::pointer get(Otherwise const& otherwise,
                                                                    Args&&... args) {
        if constexpr (requires { otherwise.token; })
            if (otherwise.token.stop_requested()) return {};
        Handle const handle;
        return handle.own(m_recycler->acquire(otherwise, std::forward<Args>(args)...));
    }

    recycler_type* m_recycler;
};

}  // namespace detail

// Any thread may call, and release its objects.
template <class T, class Lifecycle>
class object_pool : public detail::basic_object_pool<T, Lifecycle, detail::sharing::shared> {
public:
    using detail::basic_object_pool<T, Lifecycle, detail::sharing::shared>::basic_object_pool;
};

// One thread at a time may use the pool or release its objects.
template <class T, class Lifecycle>
class local_object_pool : public detail::basic_object_pool<T, Lifecycle, detail::sharing::local> {
public:
    using detail::basic_object_pool<T, Lifecycle, detail::sharing::local>::basic_object_pool;
};

POOLED_END_NAMESPACE
