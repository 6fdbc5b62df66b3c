// SPDX-License-Identifier: BSL-1.0
#pragma once

// What an object_pool is behind its handle: a stock of slots, and what to do with the T in them. It lies in a block of its
// own core, and is destroyed when the handle is gone and the last slot was recycled; the core is destroyed with that block.
//
//   acquire    a slot from cache or stock, else a new one ─▶ on_acquire ─▶ handle
//   release    the last owner is gone: on_release, or the object is destroyed
//   recycle    nothing refers to the slot any more: to cache or stock, or its memory to the core
//
// Between release and recycle lie the weak_ptrs; for handles without them the two are one step.
// Any thread may call; a local one's for one thread at a time.

#include "pooled/base/error.hpp"
#include "pooled/config.hpp"
#include "pooled/object/lifecycle.hpp"
#include "pooled/object/object_stock.hpp"
#include "pooled/object/options.hpp"
#include "pooled/object/slot.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/options.hpp"
#include "pooled/pool/registry.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace pooled::detail {

// Null, for a pool that builds its objects with its lifecycle.
using object_factory = std::function<void(void* where)>;

template <class T, class Lifecycle, sharing Sharing>
class recycler final : public object_stock {
public:
    using layout = slot_layout<T>;

    // Throws std::bad_alloc, std::invalid_argument for options that make no sense, and what building an object throws.
    [[nodiscard]] static recycler& make(object_pool_options const& options, Lifecycle&& lifecycle,
                                        object_factory&& factory);
    // The pool's handle is destroyed.
    void close() noexcept;

    [[nodiscard]] static recycler& of(slot& s) noexcept { return static_cast<recycler&>(*s.stock); }
    [[nodiscard]] Lifecycle& lifecycle() noexcept { return m_lifecycle; }

    // A slot with an object that on_acquire has seen. `otherwise` says what to do when this thread has none cached: one of
    // the three below. Null when that gave none. Throws what building the object and on_acquire throw; all is then as
    // before.
    template <class Otherwise, class... Args>
    [[nodiscard]] POOLED_ALWAYS_INLINE slot* acquire(Otherwise&& otherwise, Args&&... args);

    // Throws exhausted, or std::bad_alloc when memory runs out.
    [[nodiscard]] slot* take_or_throw();
    // Null in both cases.
    [[nodiscard]] slot* try_take();
    // Null when the deadline is over.
    template <class DeadlinePolicy>
    [[nodiscard]] slot* wait_and_take(DeadlinePolicy const& deadline);

    void release(slot& s) noexcept;
    void recycle(slot& s) noexcept;

    // Builds objects until there are `count`. Throws std::length_error when the bound does not allow that, and what building
    // throws; all is then as before.
    void reserve(std::size_t count);
    // Destroys what is idle. Returns how many.
    std::size_t discard_idle(in_use what) noexcept;

private:
    recycler(pool_core& core, object_pool_options const& options, Lifecycle&& lifecycle,
             object_factory&& factory) noexcept
        : object_stock(core, options), m_lifecycle(std::move(lifecycle)), m_factory(std::move(factory)) {}
    ~recycler() = default;

    [[nodiscard]] slot* take_granted(grant g);
    void build_fresh(std::size_t count);
    void add_all_fresh(slot_chain&& built) noexcept;
    [[nodiscard]] slot_chain build(std::size_t count);
    [[nodiscard]] slot* build_one();
    void destroy_object(slot& s) noexcept;
    void free_slot(slot& s) noexcept;
    std::size_t discard(slot_chain&& slots) noexcept;
    void recycle_slow(slot& s) noexcept;
    void destroy() noexcept;

    [[no_unique_address]] Lifecycle m_lifecycle;
    object_factory m_factory;
};

template <class T, class Lifecycle, sharing Sharing>
template <class Otherwise, class... Args>
POOLED_ALWAYS_INLINE slot* recycler<T, Lifecycle, Sharing>::acquire(Otherwise&& otherwise, Args&&... args) {
    slot* s = caches().template pop<Sharing>();
    if (s == nullptr) [[unlikely]] {
        s = otherwise(*this);
        if (s == nullptr) return nullptr;
    }
    if constexpr (k_has_on_acquire<Lifecycle>) {
        struct guard {
            slot* s;
            ~guard() {
                if (s != nullptr) of(*s).recycle(*s);
            }
        } unless_done{s};
        detail::call_on_acquire(m_lifecycle, layout::object_of(*s), std::forward<Args>(args)...);
        unless_done.s = nullptr;
    }
    return s;
}

template <class T, class Lifecycle, sharing Sharing>
POOLED_NOINLINE slot* recycler<T, Lifecycle, Sharing>::take_or_throw() {
    grant const g = take();
    if (!g) POOLED_THROW(exhausted(core().name(), bound()));
    slot* const s = take_granted(g);
    if (s == nullptr) POOLED_THROW(std::bad_alloc());
    return s;
}

template <class T, class Lifecycle, sharing Sharing>
POOLED_NOINLINE slot* recycler<T, Lifecycle, Sharing>::try_take() {
    grant const g = take();
    return g ? take_granted(g) : nullptr;
}

template <class T, class Lifecycle, sharing Sharing>
template <class DeadlinePolicy>
POOLED_NOINLINE slot* recycler<T, Lifecycle, Sharing>::wait_and_take(DeadlinePolicy const& deadline) {
    grant const g = wait(deadline);
    if (!g) return nullptr;
    slot* const s = take_granted(g);
    if (s == nullptr) POOLED_THROW(std::bad_alloc());
    return s;
}

template <class T, class Lifecycle, sharing Sharing>
POOLED_ALWAYS_INLINE void recycler<T, Lifecycle, Sharing>::release(slot& s) noexcept {
    T& object = layout::object_of(s);
    detail::forget_owners(object);
    if (s.generation == generation()) [[likely]] {
        if constexpr (!k_on_release_throws<T, Lifecycle>) {
            detail::call_on_release(m_lifecycle, object);
            return;
        } else {
            // An object that could not be reset is not recycled. Nobody can handle the exception: this is a destructor.
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

template <class T, class Lifecycle, sharing Sharing>
POOLED_ALWAYS_INLINE void recycler<T, Lifecycle, Sharing>::recycle(slot& s) noexcept {
    if (!caches().template push<Sharing>(s)) [[unlikely]]
        recycle_slow(s);
}

template <class T, class Lifecycle, sharing Sharing>
POOLED_NOINLINE void recycler<T, Lifecycle, Sharing>::recycle_slow(slot& s) noexcept {
    if (s.generation != k_no_object) {
        if (put(s)) return;
        destroy_object(s);
    }
    free_slot(s);
    if (remove(counted::as_used)) destroy();
}

// Null when memory has run out.
template <class T, class Lifecycle, sharing Sharing>
slot* recycler<T, Lifecycle, Sharing>::take_granted(grant g) {
    if (g.object != nullptr) return g.object;
    slot_chain built = build(g.to_build);
    slot* const s = built.pop();
    if (s == nullptr) return nullptr;
    add_used(*s);
    add_all_fresh(std::move(built));
    return s;
}

template <class T, class Lifecycle, sharing Sharing>
void recycler<T, Lifecycle, Sharing>::add_all_fresh(slot_chain&& built) noexcept {
    while (slot* const s = built.pop())
        add_fresh(*s);
}

// Requires that the stock already counts them.
template <class T, class Lifecycle, sharing Sharing>
void recycler<T, Lifecycle, Sharing>::build_fresh(std::size_t count) {
    if (count == 0) return;
    slot_chain built = build(count);
    if (built.empty()) POOLED_THROW(std::bad_alloc());
    add_all_fresh(std::move(built));
}

template <class T, class Lifecycle, sharing Sharing>
void recycler<T, Lifecycle, Sharing>::reserve(std::size_t count) {
    if (count > bound())
        POOLED_THROW(std::length_error("pooled: object_pool::reserve: more objects than max_objects allows"));
    build_fresh(set_aside(count));
}

// All or nothing: `count` slots, or none when memory has run out.
template <class T, class Lifecycle, sharing Sharing>
slot_chain recycler<T, Lifecycle, Sharing>::build(std::size_t count) {
    slot_chain built;
    auto const give_up = [&]() noexcept {
        std::size_t missing = count - built.size();
        discard(std::move(built));
        for (; missing != 0; --missing)
            static_cast<void>(remove(counted::as_built));  // never the last: the builder holds the handle
    };
    POOLED_TRY {
        while (built.size() != count) {
            slot* const s = build_one();
            if (s == nullptr) {
                give_up();
                break;
            }
            built.push(*s);
        }
    }
    POOLED_CATCH(...) {
        give_up();
        POOLED_RETHROW;
    }
    return built;
}

template <class T, class Lifecycle, sharing Sharing>
slot* recycler<T, Lifecycle, Sharing>::build_one() {
    void* const memory =
        detail::try_allocate_bytes(in_pool<Sharing>(core()), layout::k_bytes, layout::k_align);
    if (memory == nullptr) return nullptr;
    slot* const s = ::new (memory) slot(this);
    POOLED_TRY {
        if (m_factory != nullptr)
            m_factory(layout::memory_of(*s));
        else
            detail::create_object<T>(m_lifecycle, layout::memory_of(*s));
    }
    POOLED_CATCH(...) {
        free_slot(*s);
        POOLED_RETHROW;
    }
    return s;
}

template <class T, class Lifecycle, sharing Sharing>
void recycler<T, Lifecycle, Sharing>::destroy_object(slot& s) noexcept {
    s.generation = k_no_object;
    std::destroy_at(std::addressof(layout::object_of(s)));
}

template <class T, class Lifecycle, sharing Sharing>
void recycler<T, Lifecycle, Sharing>::free_slot(slot& s) noexcept {
    detail::deallocate_bytes(in_pool<Sharing>(core()), &s, layout::k_bytes, layout::k_align);
}

// Requires objects that are counted as built and as nothing else.
template <class T, class Lifecycle, sharing Sharing>
std::size_t recycler<T, Lifecycle, Sharing>::discard(slot_chain&& slots) noexcept {
    std::size_t count = 0;
    for (; slot* const s = slots.pop(); ++count) {
        destroy_object(*s);
        free_slot(*s);
        static_cast<void>(remove(counted::as_built));  // never the last: the handle is still there
    }
    return count;
}

template <class T, class Lifecycle, sharing Sharing>
std::size_t recycler<T, Lifecycle, Sharing>::discard_idle(in_use what) noexcept {
    return discard(take_idle(what));
}

template <class T, class Lifecycle, sharing Sharing>
recycler<T, Lifecycle, Sharing>& recycler<T, Lifecycle, Sharing>::make(object_pool_options const& options,
                                                                       Lifecycle&& lifecycle,
                                                                       object_factory&& factory) {
    if (options.growth == 0 && options.initial_objects == 0)
        POOLED_THROW(
            std::invalid_argument("pooled: object_pool_options: with growth = 0 and initial_objects = 0 "
                                  "there would never be an object"));
    if (options.initial_objects > detail::bound_of(options))
        POOLED_THROW(
            std::invalid_argument("pooled: object_pool_options: initial_objects is over max_objects"));
    pool_core& core = g_registry.make({.name = options.name}, Sharing);
    void* const memory =
        detail::try_allocate_bytes(in_pool<Sharing>(core), sizeof(recycler), alignof(recycler));
    if (memory == nullptr) {
        g_registry.close(core);
        POOLED_THROW(std::bad_alloc());
    }
    auto& made = *::new (memory) recycler(core, options, std::move(lifecycle), std::move(factory));
    core.set_extension(std::addressof(made));
    POOLED_TRY { made.build_fresh(options.initial_objects); }
    POOLED_CATCH(...) {
        made.close();
        POOLED_RETHROW;
    }
    return made;
}

template <class T, class Lifecycle, sharing Sharing>
void recycler<T, Lifecycle, Sharing>::close() noexcept {
    discard(object_stock::close());
    g_registry.close(core());
    if (abandon()) destroy();
}

// Requires that no other thread can refer to the recycler.
template <class T, class Lifecycle, sharing Sharing>
void recycler<T, Lifecycle, Sharing>::destroy() noexcept {
    pool_core& below = core();
    below.set_extension(nullptr);
    this->~recycler();
    detail::deallocate_bytes(in_pool<Sharing>(below), this, sizeof(recycler), alignof(recycler));
}

}  // namespace pooled::detail
