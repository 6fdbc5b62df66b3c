// SPDX-License-Identifier: BSL-1.0
#pragma once

// The core of an object_pool: how its objects are built, acquired, released and recycled.
//
// Any thread may call; a local one's for one thread at a time. O(1), but for reserve() and discard_idle(): O(objects).

#include "pooled/error.hpp"
#include "pooled/heap/checked_memory.hpp"
#include "pooled/lifecycle.hpp"
#include "pooled/object/deadline.hpp"
#include "pooled/object/recycle_list.hpp"
#include "pooled/object/recycle_list_slow.hpp"
#include "pooled/object/slot.hpp"
#include "pooled/options.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/smart/counted_object.hpp"

POOLED_BEGIN_DETAIL

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
        if ((s.node.generation & recycle_node::k_destroyed) == 0) destroy_object(s);
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
    // A new object instead of an acquired one that is invalid.
    POOLED_NOINLINE void rebuild(slot& s) {
        destroy_object(s);
        create_in(s);
        renew(&s);
    }
    void destroy_object(slot& s) noexcept {
        s.node.generation |= recycle_node::k_destroyed;
        std::destroy_at(std::addressof(layout::object_of(s)));
    }
    void free_slot(slot& s) noexcept {
        detail::deallocate_bytes(in_pool<Sharing>(core()), &s, layout::k_bytes, layout::k_align);
    }

    [[no_unique_address]] Lifecycle m_lifecycle;
    object_factory m_factory;
};

POOLED_END_DETAIL
