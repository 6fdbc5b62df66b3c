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
// or on_acquire got is idle again. If `create` throws in place of an invalid object, that object is gone. An object whose
// on_release throws is destroyed and no longer counts under the bound; the exception is discarded.

#include "pooled/base/algorithm.hpp"
#include "pooled/config.hpp"
#include "pooled/error.hpp"
#include "pooled/fwd.hpp"
#include "pooled/heap/checked_memory.hpp"
#include "pooled/lifecycle.hpp"
#include "pooled/object/recycle_list.hpp"
#include "pooled/object/slot.hpp"
#include "pooled/object/wait_queue.hpp"
#include "pooled/options.hpp"
#include "pooled/pool.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/rc_from_this.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/make.hpp"
#include "pooled/smart/standard_control_block.hpp"
#include "pooled/stats.hpp"
#include "pooled/teardown/block_type.hpp"
#include "pooled/unique_ptr.hpp"

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

POOLED_BEGIN_NAMESPACE

namespace detail {

// What an acquire does when no object is idle and none may be built. Otherwise it waits: for a duration, which begins when it may have to,
// or as long as a deadline says.
struct or_throw {};
struct or_empty {};

// The longest single sleep; a longer wait is several of them.
inline constexpr std::chrono::nanoseconds k_longest_sleep = std::chrono::hours(1);
// A century: the sum with the steady clock's time does not overflow.
inline constexpr std::chrono::nanoseconds k_longest_wait = std::chrono::hours(24 * 365 * 100);

// Converts any duration, including NaN and values that nanoseconds cannot represent, to 0 ... most.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::nanoseconds limited(std::chrono::duration<Rep, Period> left,
                                                         std::chrono::nanoseconds most) noexcept {
    using seconds = std::chrono::duration<double>;
    double const s = seconds(left).count();
    if (!(s > 0)) return std::chrono::nanoseconds::zero();
    if (s >= seconds(most).count()) return most;
    return std::chrono::ceil<std::chrono::nanoseconds>(left);
}

// Deadlines: basic_waiter::wait says what their members mean.
template <class Clock, class Duration>
struct deadline {
    explicit deadline(std::chrono::time_point<Clock, Duration> at) noexcept : end(at) {}
    std::chrono::time_point<Clock, Duration> end;

    [[nodiscard]] std::int64_t remaining() const noexcept {
        using seconds = std::chrono::duration<double>;
        auto const now = Clock::now();
        // Compared as seconds first: the clock's unit may be too small to represent an end that counts hours.
        seconds const left = seconds(end.time_since_epoch()) - seconds(now.time_since_epoch());
        bool const is_far = !(left > -k_longest_sleep && left < k_longest_sleep);
        if (is_far) return detail::limited(left, k_longest_sleep).count();
        // Compared first: the difference of unsigned numbers is not negative.
        return end > now ? detail::limited(end - now, k_longest_sleep).count() : 0;
    }
    [[nodiscard]] static int watch(waiter&) noexcept { return 0; }
};

template <class... Args>
inline constexpr bool k_begins_with_stop_token = false;
#if POOLED_HAS_STOP_TOKEN
template <class First, class... Rest>
inline constexpr bool k_begins_with_stop_token<First, Rest...> =
    std::same_as<std::remove_cvref_t<First>, std::stop_token>;

// Without futexes, the destructor of a std::stop_callback of libstdc++ may wait for ever while the callback runs: docs/platforms.md.
// So the waiter asks the token, every 10 ms.
#if defined(__GLIBCXX__) && !defined(_GLIBCXX_HAVE_LINUX_FUTEX)
inline constexpr bool k_asks_stop_token = true;
#else
inline constexpr bool k_asks_stop_token = false;
#endif
struct until_stopped {
    std::stop_token const& token;

    [[nodiscard]] std::int64_t remaining() const noexcept {
        if constexpr (!k_asks_stop_token) return k_longest_sleep.count();
        return token.stop_requested() ? 0 : 10'000'000;
    }
    // Stops the waiter when a stop is requested, or was requested before. Allocates no memory.
    [[nodiscard]] auto watch([[maybe_unused]] waiter& w) const {
        if constexpr (k_asks_stop_token)
            return 0;
        else
            return std::stop_callback(token, [&w]() noexcept { w.stop(); });
    }
};
#endif

// More objects than the address space holds are refused before the first is built, as are more than the machine has
// memory for. A single object that is too large fails with std::bad_alloc when it is requested.
[[nodiscard]] constexpr std::size_t most_objects(std::size_t bytes) noexcept {
    return detail::larger<std::size_t>(k_max_reserved_bytes / bytes, 1);
}

// Throws std::invalid_argument for invalid options, std::length_error for too many objects.
[[nodiscard]] inline recycle_limits limits_of(object_pool_options const& options, std::size_t slot_bytes) {
    auto const require = [](bool holds, char const* otherwise) {
        if (!holds) POOLED_THROW(std::invalid_argument(otherwise));
    };
    std::size_t bound = options.growth == 0 ? options.initial_objects : options.max_objects;
    if (bound == 0) bound = (std::numeric_limits<std::size_t>::max)();
    require(options.growth != 0 || options.initial_objects != 0,
            "pooled: object_pool_options: with growth = 0 and initial_objects = 0 there would never be an "
            "object");
    require(options.initial_objects <= bound,
            "pooled: object_pool_options: initial_objects is larger than max_objects");
    require(options.growth_factor >= 1 &&  // false for NaN
                options.growth_factor <= (std::numeric_limits<double>::max)(),
            "pooled: object_pool_options: growth_factor must be 1 or more, and finite");
    auto const initial = static_cast<double>(options.initial_objects);
    double const growth = detail::larger(static_cast<double>(options.growth),
                                         options.growth_factor * detail::larger(initial, 1.0));
    double const most = detail::larger(initial, detail::smaller(growth, static_cast<double>(bound)));
    if (most > static_cast<double>(detail::most_objects(slot_bytes)))
        POOLED_THROW(
            std::length_error("pooled: object_pool_options: initial_objects, growth or growth_factor "
                              "asks for more objects than the address space holds"));
    return {.bound = bound,
            .growth = detail::larger<std::size_t>(options.growth, 1),
            .growth_factor = options.growth_factor,
            .object_bytes = slot_bytes,
            .node_at = offsetof(slot, node)};
}

// Null for a pool that builds its objects with its lifecycle.
using object_factory = callable<void(void* where)>;

template <class T, class Factory>
[[nodiscard]] object_factory make_factory(Factory&& factory) {
    // In a shared_ptr: a callable is copied, and a factory need not be copyable.
    return [f = std::make_shared<std::decay_t<Factory>>(std::forward<Factory>(factory))](void* where) {
        if constexpr (std::invocable<std::decay_t<Factory>&, void*>)
            detail::create_with(*f, where);
        else
            ::new (where) T((*f)());
    };
}

// The part of an object_pool that outlives its handle: a list of slots, and the operations on the T in them. It lies in a
// block of its own core, and is destroyed when the handle is gone and the last slot was recycled; the core is destroyed with
// that block.
//
//   acquire    a slot from a cache or the list, else a new one ─▶ on_acquire ─▶ handle
//   release    the last owner is gone: on_release, or the object is destroyed
//   recycle    nothing refers to the slot any more: to cache or list, or its memory to the core
//
// Weak pointers separate release and recycle; without them the two are one step.
template <class T, class Lifecycle, sharing Sharing>
class recycler final : public recycle_list {
public:
    using layout = slot_layout<T>;

    // Throws std::bad_alloc, what limits_of() throws for the options, and what building an object throws.
    [[nodiscard]] static recycler& make(object_pool_options const& options, Lifecycle&& lifecycle,
                                        object_factory&& factory) {
        return recycle_list::make<recycler, Sharing>(
            {.name = options.name, .upstream = options.upstream}, detail::limits_of(options, layout::k_bytes),
            options.initial_objects, std::move(lifecycle), std::move(factory));
    }

    [[nodiscard]] static recycler& of(slot& s) noexcept { return static_cast<recycler&>(*s.list); }

    // A slot whose object has passed validate and on_acquire. `otherwise` is or_throw, or_empty or how long to wait. Null if there is
    // none, unless or_throw: throws exhausted. Throws what building the object, validate and on_acquire throw, std::bad_alloc unless
    // or_empty; the pool is then unchanged, except that an invalid object without a replacement was destroyed.
    template <class Otherwise, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE slot* acquire(Otherwise const& otherwise, Args&&... args) {
        auto* s = static_cast<slot*>(this->template pop<Sharing>());
        if (s == nullptr) [[unlikely]] {
            s = take_slow(otherwise);
            if (s == nullptr) return nullptr;
        }
        detail::expect_stale_owner(s, s->control);
        if constexpr (k_has_validate<Lifecycle> || k_has_on_acquire<Lifecycle>) {
            struct guard {
                slot* s;
                ~guard() {
                    if (s != nullptr) of(*s).recycle(*s);
                }
            } unless_done{s};
            T& object = layout::object_of(*s);
            if constexpr (k_has_validate<Lifecycle>) {
                static_assert(
                    requires { static_cast<bool>(m_lifecycle.validate(object)); },
                    "pooled: object_pool: Lifecycle::validate must be callable with a T& and return a bool");
                if (detail::has_validate(m_lifecycle) && !static_cast<bool>(m_lifecycle.validate(object)))
                    rebuild(*s);
            }
            if constexpr (k_has_on_acquire<Lifecycle>)
                if (detail::has_on_acquire(m_lifecycle))
                    m_lifecycle.on_acquire(layout::object_of(*s), std::forward<Args>(args)...);
            unless_done.s = nullptr;
        }
        return s;
    }

    POOLED_ALWAYS_INLINE void release(slot& s) noexcept {
        T& object = layout::object_of(s);
        detail::forget_owners(object);
        if (s.node.generation == generation()) [[likely]] {
            // An object that could not be reset is not recycled. The exception is discarded, since this runs in a destructor.
            POOLED_TRY {
                if constexpr (k_has_on_release<Lifecycle>) {
                    static_assert(
                        requires { m_lifecycle.on_release(object); },
                        "pooled: object_pool: Lifecycle::on_release must be callable with a T&");
                    if (detail::has_on_release(m_lifecycle)) m_lifecycle.on_release(object);
                }
                return;
            }
            POOLED_CATCH(...) {  // NOLINT(bugprone-empty-catch)
            }
        }
        destroy_object(s);
    }

    POOLED_ALWAYS_INLINE void recycle(slot& s) noexcept {
        static_assert(sizeof(stale_owner) <= sizeof(s.control));
        detail::write_stale_owner(s.control);
        if (!this->template push<Sharing>(&s, s.node)) [[unlikely]]
            put(&s);
    }

    // Builds objects until there are `count`. Throws std::length_error when the bound or the address space does not allow that,
    // and what building throws; the pool is then unchanged.
    void reserve(std::size_t count) {
        if (count > bound())
            POOLED_THROW(
                std::length_error("pooled: object_pool::reserve: more objects than max_objects allows"));
        if (count > detail::most_objects(layout::k_bytes))
            POOLED_THROW(
                std::length_error("pooled: object_pool::reserve: more objects than the address space holds"));
        recycle_list::reserve(count);
    }
    // Destroys all idle objects, and returns their memory to upstream. Returns their number.
    std::size_t discard_idle(in_use what) noexcept {
        std::size_t const count = discard(what);
        core().trim();
        return count;
    }

private:
    friend recycle_list;
    recycler(pool_core& core, recycle_limits const& limits, Lifecycle&& lifecycle,
             object_factory&& factory) noexcept
        : recycle_list(core, limits), m_lifecycle(std::move(lifecycle)), m_factory(std::move(factory)) {}
    ~recycler() = default;

    template <class Otherwise>
    [[nodiscard]] POOLED_NOINLINE slot* take_slow(Otherwise const& otherwise) {
        constexpr bool is_thrown = std::is_same_v<Otherwise, or_throw>;
        constexpr bool is_empty = std::is_same_v<Otherwise, or_empty>;
        found const result = [&] {
            if constexpr (is_thrown || is_empty)
                return take();
            else if constexpr (requires { otherwise.remaining(); })
                return wait(otherwise);
            else
                return wait(detail::deadline(std::chrono::steady_clock::now() +
                                             detail::limited(otherwise, k_longest_wait)));
        }();
        if (result.how == outcome::is_out_of_memory && !is_empty) POOLED_THROW(std::bad_alloc());
        if constexpr (is_thrown)
            if (result.object == nullptr) POOLED_THROW(exhausted(core().name(), bound()));
        return static_cast<slot*>(result.object);
    }

    void build_objects(recycle_stack& built, std::size_t count, bool all) override {
        while (built.size() != count) {
            in_pool<Sharing> const place(core());
            void* const memory =
                all ? detail::allocate_bytes_or_throw(place, layout::k_bytes, layout::k_align)
                    : detail::try_allocate_bytes(place, layout::k_bytes, layout::k_align);
            if (memory == nullptr) return;
            slot& s = *::new (memory) slot(this);
            detail::write_stale_owner(s.control);  // upstream's memory may contain another one
            POOLED_TRY { create_in(s); }
            POOLED_CATCH(...) {
                free_slot(s);
                POOLED_RETHROW;
            }
            built.push(s.node);
        }
    }
    void destroy_one(void* p) noexcept override {
        slot& s = *static_cast<slot*>(p);
        if (s.node.generation != recycle_node::k_no_object) destroy_object(s);
        free_slot(s);
    }
    void end() noexcept override { recycle_list::destroy<Sharing>(*this); }

    void create_in(slot& s) {
        void* const where = layout::memory_of(s);
        if (m_factory != nullptr) return m_factory(where);
        if constexpr (k_has_create<Lifecycle>) {
            static_assert(
                requires { m_lifecycle.create(where); },
                "pooled: object_pool: Lifecycle::create must be callable with a void*");
            if (detail::has_create(m_lifecycle))
                return detail::create_with([this](void* at) { return m_lifecycle.create(at); }, where);
        }
        if constexpr (std::is_default_constructible_v<T>)
            ::new (where) T();
        else
            POOLED_FAIL(
                "pooled: object_pool: the lifecycle's `create` is empty, and T has no default constructor");
    }
    // A new object in place of an acquired one that is invalid.
    POOLED_NOINLINE void rebuild(slot& s) {
        destroy_object(s);
        create_in(s);
        renew(&s);
    }
    void destroy_object(slot& s) noexcept {
        s.node.generation = recycle_node::k_no_object;
        std::destroy_at(std::addressof(layout::object_of(s)));
    }
    void free_slot(slot& s) noexcept {
        detail::deallocate_bytes(in_pool<Sharing>(core()), &s, layout::k_bytes, layout::k_align);
    }

    [[no_unique_address]] Lifecycle m_lifecycle;
    object_factory m_factory;
};

// What acquire forwards to the lifecycle's on_acquire.
template <class L, class T, class... Args>
concept acquire_arguments = acquires_with<L, T, Args...> && !k_begins_with_stop_token<Args...>;

// How the handles own a slot; none holds more than the object's address, since the slot begins at a fixed distance in front of it.
//
//   std::shared_ptr       its control block lies in the slot: the deleter releases the object; the allocator's deallocate, called
//                         after the last weak_ptr, recycles the slot
//   unique_ptr, rc_ptr    the word in front of the object counts, and names a type whose functions do both

// Allocates the one control block in the slot.
template <class Other, class Recycler>
class control_allocator {
public:
    using value_type = Other;

    explicit control_allocator(slot& s) noexcept : m_slot(&s) {}
    template <class V>
    control_allocator(control_allocator<V, Recycler> const& other) noexcept  // NOLINT: allocators convert
        : m_slot(other.m_slot) {}

    [[nodiscard]] Other* allocate([[maybe_unused]] std::size_t n) noexcept {
        static_assert(
            sizeof(Other) <= sizeof(slot::control) && alignof(Other) <= alignof(slot),
            "pooled: this standard library's control block is larger than k_bytes_with_deleter says");
        POOLED_ASSERT(n == 1, "pooled: object_pool: a control block is one object");
        return reinterpret_cast<Other*>(m_slot->control);
    }
    void deallocate(Other* p, std::size_t) noexcept {
        slot& s = *std::launder(reinterpret_cast<slot*>(p));
        Recycler::of(s).recycle(s);
    }

    template <class V>
    [[nodiscard]] friend bool operator==(control_allocator const& a,
                                         control_allocator<V, Recycler> const& b) noexcept {
        return a.m_slot == b.m_slot;
    }

private:
    template <class, class>
    friend class control_allocator;
    slot* m_slot;
};

// The Origin of an object: its last owner releases it, and its slot is recycled with its last observer.
// Never deferred: an object rarely drops others when it is released, and a thread may be waiting for it.
template <class T, class Recycler>
struct recycled {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = true;

    static void retire(T* object) noexcept {
        slot& s = Recycler::layout::slot_of(object);
        Recycler::of(s).release(s);
    }
    static void deallocate(void* block, std::size_t, std::size_t) noexcept {
        std::byte* const object = static_cast<std::byte*>(block) + counted_object<T, recycled>::k_offset;
        auto* const header = reinterpret_cast<count_header*>(object) - 1;
        if constexpr (POOLED_CHECKED != 0)
            header->word.store(0, std::memory_order_relaxed);  // a second drop is detected
        instrument::mark_header(header);                       // likewise
        slot& s = Recycler::layout::slot_of(reinterpret_cast<T*>(object));
        Recycler::of(s).recycle(s);
    }
};

// The kinds of handle. Each is constructed before a slot is acquired, because construction may throw, and then owns the slot;
// empty for null. Always inlined, as make_shared is: a std::shared_ptr that is returned through memory is written in two halves.
template <class T, class Recycler>
struct shared_handle {
    using pointer = std::shared_ptr<T>;

    [[nodiscard]] POOLED_ALWAYS_INLINE pointer own(slot* s) const noexcept {
        if (s == nullptr) return {};
        T* const acquired = std::addressof(Recycler::layout::object_of(*s));
        if constexpr (k_hardened && k_has_rc_from_this<T>)  // the mark would be a count
            counted_object<T, recycled<T, Recycler>>::set_header(acquired, k_no_type, 0);
        return pointer(
            acquired, [](T* object) noexcept { recycled<T, Recycler>::retire(object); },
            control_allocator<T, Recycler>(*s));
    }
};

// By their Owner: unique_owner, rc_owner.
template <class T, class Recycler, class Owner>
struct counted_handle {
    using pointer = typename Owner::template pointer<T>;
    using counted = counted_object<T, recycled<T, Recycler>>;
    POOLED_ALWAYS_INLINE counted_handle() : type(counted::tag()) {}  // GCC would call it
    type_tag const type;
    [[nodiscard]] POOLED_ALWAYS_INLINE pointer own(slot* s) const noexcept {
        if (s == nullptr) return {};
        T* const object = std::addressof(Recycler::layout::object_of(*s));
        counted::set_header(object, type, Owner::k_counts);
        detail::introduce(object);
        return Owner::template own<T>(object);
    }
};

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
    // many. O(idle objects).
    std::size_t trim() noexcept { return m_recycler->discard_idle(recycle_list::in_use::keep); }

    // The same; objects in use are destroyed with their last owner, not recycled: every object acquired from now on is new. Those
    // in use still count under the bound.
    std::size_t clear() noexcept { return m_recycler->discard_idle(recycle_list::in_use::outdate); }

    // How many objects exist: capacity() == in_use() + idle(). An object that only weak_ptrs refer to is in use. Exact when
    // no other thread is acquiring or releasing.
    [[nodiscard]] std::size_t capacity() const noexcept { return m_recycler->count().capacity; }
    [[nodiscard]] std::size_t in_use() const noexcept {
        object_counts const counts = m_recycler->count();
        return counts.capacity - counts.idle;
    }
    [[nodiscard]] std::size_t idle() const noexcept { return m_recycler->count().idle; }
    // The most that were ever in use at once.
    [[nodiscard]] std::size_t high_water() const noexcept { return m_recycler->count().high_water; }
    // Threads that wait for an object.
    [[nodiscard]] std::size_t waiting() const noexcept { return m_recycler->count().waiting; }

    // All of these at one moment, and the memory. O(threads).
    [[nodiscard]] object_pool_stats stats() const {
        object_counts const counts = m_recycler->count();
        pool_stats const memory = m_recycler->core().stats();
        std::size_t const bound = m_recycler->bound();
        return {.name = memory.name,
                .capacity = counts.capacity,
                .in_use = counts.capacity - counts.idle,
                .idle = counts.idle,
                .high_water = counts.high_water,
                .waiting = counts.waiting,
                .max_objects = bound != (std::numeric_limits<std::size_t>::max)() ? bound : 0,
                .built = counts.built,
                .slot_bytes = recycler_type::layout::k_bytes,
                .upstream_bytes = memory.upstream_bytes,
                .upstream_calls = memory.upstream_calls};
    }

    [[nodiscard]] std::string_view name() const noexcept { return m_recycler->core().name(); }

    // How many objects are in use, and what else the pool's memory holds. For people: the text is not fixed.
    template <class Traits>
    void live_report(std::basic_ostream<char, Traits>& out) const {
        object_counts const counts = m_recycler->count();
        out << "object_pool '" << name() << "': " << counts.capacity - counts.idle << " objects in use, "
            << counts.idle << " idle\n";
    }

private:
    friend struct object_pool_access;

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

// For tests: walks every structure, with other threads kept out.
struct object_pool_access {
    template <class T, class Lifecycle, sharing Sharing>
    [[nodiscard]] static bool is_valid(basic_object_pool<T, Lifecycle, Sharing> const& one) {
        return one.m_recycler->is_valid();
    }
    template <class T, class Lifecycle, sharing Sharing>
    [[nodiscard]] static pool_core& core(basic_object_pool<T, Lifecycle, Sharing> const& one) {
        return one.m_recycler->core();
    }
};

}  // namespace detail

// Any thread may call, and release its objects.
template <class T, class Lifecycle>
class object_pool : public detail::basic_object_pool<T, Lifecycle, detail::sharing::shared> {
public:
    using detail::basic_object_pool<T, Lifecycle, detail::sharing::shared>::basic_object_pool;
};

// For one thread at a time: the pool, and the release of its objects.
template <class T, class Lifecycle>
class local_object_pool : public detail::basic_object_pool<T, Lifecycle, detail::sharing::local> {
public:
    using detail::basic_object_pool<T, Lifecycle, detail::sharing::local>::basic_object_pool;
};

POOLED_END_NAMESPACE
