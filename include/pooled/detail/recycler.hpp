// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of an object_pool that outlives its handle: a list of slots, and the operations on the T in them. It lies in a
// block of its own core, and is destroyed when the handle is gone and the last slot was recycled; the core is destroyed with
// that block.
//
//   acquire    a slot from a cache or the list, else a new one ─▶ on_acquire ─▶ handle
//   release    the last owner is gone: on_release, or the object is destroyed
//   recycle    nothing refers to the slot any more: to cache or list, or its memory to the core
//
// Weak pointers separate release and recycle; without them the two are one step.
// Any thread may call; a local one's for one thread at a time.

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/callable.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/own_core.hpp"
#include "pooled/detail/recycle_list.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/detail/slot.hpp"
#include "pooled/error.hpp"
#include "pooled/impl/instrument/checked_memory.hpp"
#include "pooled/impl/instrument/tracked.hpp"
#include "pooled/impl/object/deadline.hpp"
#include "pooled/impl/object/recycle_operations.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/lifecycle.hpp"
#include "pooled/options.hpp"

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Null for a pool that builds its objects with its lifecycle.
using object_factory = callable<void(void* where)>;

// What an acquire does when no object is idle and none may be built. Otherwise it waits, as long as a duration, a time point or a
// stop token says.
struct or_throw {};
struct or_empty {};

// More objects than the address space holds are refused before the first is built, as are more than the machine has
// memory for. A single object that is too large fails with std::bad_alloc when it is requested.
[[nodiscard]] constexpr std::size_t most_objects(std::size_t bytes) noexcept {
    return detail::larger<std::size_t>(k_max_reserved_bytes / bytes, 1);
}

[[nodiscard]] constexpr std::size_t bound_of(object_pool_options const& options) noexcept {
    std::size_t const bound = options.growth == 0 ? options.initial_objects : options.max_objects;
    return bound != 0 ? bound : (std::numeric_limits<std::size_t>::max)();
}

inline void check(object_pool_options const& options, std::size_t slot_bytes) {
    auto const require = [](bool holds, char const* otherwise) {
        if (!holds) POOLED_THROW(std::invalid_argument(otherwise));
    };
    require(options.growth != 0 || options.initial_objects != 0,
            "pooled: object_pool_options: with growth = 0 and initial_objects = 0 there would never be an "
            "object");
    require(options.initial_objects <= detail::bound_of(options),
            "pooled: object_pool_options: initial_objects is larger than max_objects");
    require(options.growth_factor >= 1 &&  // false for NaN
                options.growth_factor <= (std::numeric_limits<double>::max)(),
            "pooled: object_pool_options: growth_factor must be 1 or more, and finite");
    auto const initial = static_cast<double>(options.initial_objects);
    double const growth = detail::larger(static_cast<double>(options.growth),
                                         options.growth_factor * detail::larger(initial, 1.0));
    double const most =
        detail::larger(initial, detail::smaller(growth, static_cast<double>(detail::bound_of(options))));
    if (most > static_cast<double>(detail::most_objects(slot_bytes)))
        POOLED_THROW(
            std::length_error("pooled: object_pool_options: initial_objects, growth or growth_factor "
                              "asks for more objects than the address space holds"));
}

template <class T, class Lifecycle, sharing Sharing>
class recycler final : public recycle_list {
public:
    using layout = slot_layout<T>;

    // Throws std::bad_alloc, std::invalid_argument for invalid options, and what building an object throws.
    [[nodiscard]] static recycler& make(object_pool_options const& options, Lifecycle&& lifecycle,
                                        object_factory&& factory) {
        detail::check(options, layout::k_bytes);
        auto& made =
            own_core<Sharing>::template make<recycler>({.name = options.name, .upstream = options.upstream},
                                                       options, std::move(lifecycle), std::move(factory));
        POOLED_TRY { made.build_fresh(made.set_aside(options.initial_objects)); }
        POOLED_CATCH(...) {
            made.close();
            POOLED_RETHROW;
        }
        return made;
    }
    // The pool's handle is destroyed.
    void close() noexcept {
        discard(take_idle(in_use::close));
        core().close();
        if (abandon()) destroy();
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
            if (!detail::call_validate(m_lifecycle, layout::object_of(*s))) [[unlikely]] {
                unless_done.s = nullptr;
                rebuild(*s);
                unless_done.s = s;
            }
            detail::call_on_acquire(m_lifecycle, layout::object_of(*s), std::forward<Args>(args)...);
            unless_done.s = nullptr;
        }
        return s;
    }

    POOLED_ALWAYS_INLINE void release(slot& s) noexcept {
        T& object = layout::object_of(s);
        detail::forget_owners(object);
        if (s.node.generation == generation()) [[likely]] {
            if constexpr (!k_on_release_throws<T, Lifecycle>) {
                detail::call_on_release(m_lifecycle, object);
                return;
            } else {
                // An object that could not be reset is not recycled. The exception is discarded, since this runs in a destructor.
                POOLED_TRY {
                    detail::call_on_release(m_lifecycle, object);
                    return;
                }
                POOLED_CATCH(...) {  // NOLINT(bugprone-empty-catch)
                }
            }
        }
        destroy_object(s);
    }

    POOLED_ALWAYS_INLINE void recycle(slot& s) noexcept {
        tracking::on_deallocate(&s);
        static_assert(sizeof(stale_owner) <= k_control_bytes);
        detail::write_stale_owner(s.control);
        if (!this->template push<Sharing>(&s, s.node)) [[unlikely]]
            recycle_slow(s);
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
        build_fresh(set_aside(count));
    }
    // Destroys all idle objects, and returns their memory to upstream. Returns their number.
    std::size_t discard_idle(in_use what) noexcept {
        std::size_t const count = discard(take_idle(what));
        core().trim();
        return count;
    }

private:
    friend struct own_core<Sharing>;
    recycler(pool_core& core, object_pool_options const& options, Lifecycle&& lifecycle,
             object_factory&& factory) noexcept
        : recycle_list(core, {.bound = detail::bound_of(options),
                              .growth = detail::larger<std::size_t>(options.growth, 1),
                              .growth_factor = options.growth_factor,
                              .node_at = offsetof(slot, node)}),
          m_lifecycle(std::move(lifecycle)),
          m_factory(std::move(factory)) {}
    ~recycler() = default;

    template <class Otherwise>
    [[nodiscard]] POOLED_NOINLINE slot* take_slow(Otherwise const& otherwise) {
        constexpr bool is_thrown = std::is_same_v<Otherwise, or_throw>;
        constexpr bool is_empty = std::is_same_v<Otherwise, or_empty>;
        grant g;
        if constexpr (is_thrown || is_empty)
            g = take();
        else
            g = wait(deadline<Otherwise>(otherwise));
        if (g) {
            slot* const s = take_granted(g);
            if (s == nullptr && !is_empty) POOLED_THROW(std::bad_alloc());
            return s;
        }
        if constexpr (is_thrown) POOLED_THROW(exhausted(core().name(), bound()));
        return nullptr;
    }
    // Null when memory has run out. The caller needs one object: if a growth by many does not fit, fewer are built.
    [[nodiscard]] slot* take_granted(grant g) {
        if (g.object != nullptr) return static_cast<slot*>(g.object);
        recycle_stack built = build(g.to_build, shortage::keep_built);
        auto* const s = static_cast<slot*>(object_of(built.pop()));
        if (s == nullptr) return nullptr;
        add_used(s, counted::as_built);
        if (built.size() != 0) add(std::move(built), 0);
        return s;
    }

    // Requires that the list already counts them.
    void build_fresh(std::size_t count) {
        recycle_stack built = build(count, shortage::give_up);
        if (built.size() != count) POOLED_THROW(std::bad_alloc());
        add(std::move(built), 0);
    }

    // `count` slots; none after an exception. When memory has run out: none, or those that were built until then.
    enum class shortage : bool { give_up, keep_built };
    [[nodiscard]] recycle_stack build(std::size_t count, shortage when_out_of_memory) {
        recycle_stack built;
        auto const give_up = [&](shortage how) noexcept {
            std::size_t const missing = count - built.size();
            if (how == shortage::give_up) discard(std::move(built));
            add({}, missing);
        };
        POOLED_TRY {
            // What the operating system does not have is refused now, the first growth included: to build until memory ends takes
            // minutes.
            std::size_t const most = detail::larger(count, growth());
            if (when_out_of_memory == shortage::give_up && most > 1)
                static_cast<void>(core().may_give(most * layout::k_bytes));
            while (built.size() != count) {
                slot* const s = build_one();
                if (s == nullptr) {
                    give_up(when_out_of_memory);
                    break;
                }
                built.push(s->node);
            }
        }
        POOLED_CATCH(...) {
            give_up(shortage::give_up);
            POOLED_RETHROW;
        }
        return built;
    }
    [[nodiscard]] slot* build_one() {
        void* memory = nullptr;
        {
            [[maybe_unused]] tracking::for_itself const until_acquired{};
            memory = detail::try_allocate_bytes(in_pool<Sharing>(core()), layout::k_bytes, layout::k_align);
        }
        if (memory == nullptr) return nullptr;
        slot* const s = ::new (memory) slot(this);
        detail::write_stale_owner(s->control);  // upstream's memory may contain another one
        POOLED_TRY { create_in(*s); }
        POOLED_CATCH(...) {
            free_slot(*s);
            POOLED_RETHROW;
        }
        return s;
    }
    void create_in(slot& s) {
        if (m_factory != nullptr)
            m_factory(layout::memory_of(s));
        else
            detail::create_object<T>(m_lifecycle, layout::memory_of(s));
    }
    // A new object in place of an acquired one that is invalid.
    POOLED_NOINLINE void rebuild(slot& s) {
        destroy_object(s);
        POOLED_TRY { create_in(s); }
        POOLED_CATCH(...) {
            free_slot(s);
            static_cast<void>(
                remove(counted::as_used));  // never the last object: the caller holds the handle
            POOLED_RETHROW;
        }
        add_used(&s, counted::as_used);
    }

    POOLED_NOINLINE void recycle_slow(slot& s) noexcept {
        if (s.node.generation != recycle_node::k_no_object) {
            if (put(&s)) return;
            destroy_object(s);
        }
        free_slot(s);
        if (remove(counted::as_used)) destroy();
    }
    void destroy_object(slot& s) noexcept {
        s.node.generation = recycle_node::k_no_object;
        std::destroy_at(std::addressof(layout::object_of(s)));
    }
    void free_slot(slot& s) noexcept {
        [[maybe_unused]] frees_control_block const how(offsetof(slot, control));
        detail::deallocate_bytes(in_pool<Sharing>(core()), &s, layout::k_bytes, layout::k_align);
    }
    // Requires objects that are counted as built and as nothing else.
    std::size_t discard(recycle_stack&& slots) noexcept {
        std::size_t count = 0;
        for (; auto* const s = static_cast<slot*>(object_of(slots.pop())); ++count) {
            destroy_object(*s);
            free_slot(*s);
            static_cast<void>(remove(counted::as_built));  // never the last object: the handle still exists
        }
        return count;
    }
    // Requires that no other thread can refer to the recycler.
    void destroy() noexcept { own_core<Sharing>::destroy(*this, core()); }

    [[no_unique_address]] Lifecycle m_lifecycle;
    object_factory m_factory;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
