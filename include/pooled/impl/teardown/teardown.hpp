// SPDX-License-Identifier: BSL-1.0
#pragma once

// When to defer. A drop destroys its object at once, inside whichever destructor is running, as std::shared_ptr does. Only a drop
// that finds the stack nearly used up becomes an outermost drop: it destroys its object and then, one after the other, the objects
// in its queue, while drops further down only add theirs to that queue. The stack therefore does not grow with the depth of a
// structure, whatever types, pools and handles it mixes.
//
//   thread's own stack            the system is asked for its bounds once, when a drop is 12 KiB below the first one; until
//                                 then, the thread's first drop is an outermost drop as on any other stack
//     high ┐
//          │ plain recursion      half of the stack, or all but 256 KiB of it
//     limit│ outermost drop ─▶ 12 KiB of plain recursion, below that deferred
//     low  ┘
//   any other stack (fibre, sigaltstack): the first drop is an outermost drop, with 12 KiB of plain recursion
//
// Nothing else decides: no clock, no count, no other thread. The fast path is one comparison: is the stack pointer in the
// *window*, the range of addresses where plain recursion is known to be safe? The window only caches that answer, which is
// computed again whenever the stack pointer is outside of it, so a thread may change stacks at any moment. The window is empty
// while drops are gathered (reclaim_scope, teardown::unordered).
//
// One state per thread: constant-initialised and trivially destroyed, so it works while the thread or the process ends. No
// function that runs a destructor uses the state afterwards: a fibre may have moved to another thread by then.

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/plugins/copies.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/impl/teardown/deferred_queue.hpp"
#include "pooled/impl/teardown/outermost_drop.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

[[nodiscard]] POOLED_ALWAYS_INLINE std::uintptr_t stack_pointer() noexcept {
#if defined(__x86_64__)
    std::uintptr_t pointer = 0;
    asm("mov %%rsp, %0" : "=r"(pointer));  // the builtin would cost each caller a frame pointer
    return pointer;
#else
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#endif
}

// What to do with an object whose last owner drops it.
enum class drop_way : unsigned char {
    destroy,    // immediately, within the destructor that drops it, if any
    outermost,  // immediately, as an outermost drop
    defer,      // to the outermost drop
};

bool relieve_pressure(pool_core& core, std::uint64_t& seen) noexcept;
void finish_deferred_at_exit() noexcept;

struct stack_bounds {
    std::uintptr_t low = 0;
    std::uintptr_t high = 0;
    [[nodiscard]] bool contains(std::uintptr_t address) const noexcept { return address - low < high - low; }
    [[nodiscard]] std::uintptr_t bytes() const noexcept { return high - low; }
};

#if POOLED_HAS_CODE
// Those of the calling thread's own stack; empty where the system does not say.
[[nodiscard]] POOLED_NOINLINE inline stack_bounds find_stack_bounds() noexcept {
    stack_bounds found;
    platform::find_stack(found.low, found.high);
    return found;
}

// From now on, the pool calls this layer, in the code of the calling file, which may share the state of another one. Called before
// the first object is deferred.
inline void install_hooks() noexcept {
    if (g_pressure_hook.load(std::memory_order_relaxed) != nullptr) return;
    detail::pin_this_library();
    g_exit_hook.store(finish_deferred_at_exit, std::memory_order_relaxed);
    g_pressure_hook.store(relieve_pressure, std::memory_order_relaxed);
}
#endif

class teardown_state {
public:
    // True: the object must be destroyed immediately.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool may_recurse() const noexcept {
        return stack_pointer() - m_window_low < m_window_bytes;
    }

#if POOLED_HAS_CODE
    // Called when may_recurse() is false, or for an object of an unordered pool. After `defer`, the caller must push the object
    // to take_recipient() before any destructor runs, or destroy it.
    [[nodiscard]] drop_way choose(std::uintptr_t here, bool is_unordered) noexcept {
        // As below, sooner: each drop within a scope.
        if (is_own(here) && m_innermost != nullptr && here < m_innermost->low) return defer_to(*m_innermost);
        if (!m_knows_bounds && !is_unordered && here > m_first_drop) {
            m_first_drop = here;  // the highest so far; the bounds of the stack are not needed yet
            // Otherwise a fibre that another thread started, or a small stack right below another thread's: the bounds decide.
            if (g_outermost_drops.find(here) == nullptr) return drop_way::outermost;
        }
        if (outermost_drop* const outermost = find(here)) {
            if (here < outermost->low || (is_unordered && outermost->takes_unordered))
                return defer_to(*outermost);
            if (is_unordered) return drop_way::outermost;
            open_window(outermost->low,
                        is_own(here) ? m_bounds.high : outermost->top + outermost_drop::k_above);
            return drop_way::destroy;
        }
        if (is_unordered || !is_own(here) || here < limit()) return drop_way::outermost;
        open_window(limit(), m_bounds.high);
        return drop_way::destroy;
    }

    // To which choose() deferred the object that the caller now passes on; null: it was not called.
    [[nodiscard]] outermost_drop* take_recipient() noexcept { return std::exchange(m_recipient, nullptr); }

    // The innermost outermost_drop around a drop at this stack pointer, to which it may be deferred; null: none.
    [[nodiscard]] outermost_drop* find(std::uintptr_t here) noexcept {
        ask_bounds();
        return is_own(here) ? m_innermost : g_outermost_drops.find(here);
    }

    void begin(outermost_drop& drop, std::uintptr_t here, outermost_kind kind) noexcept {
        install_hooks();
        drop.top = here;
        if (!m_knows_bounds && kind == outermost_kind::immediate) {
            // The thread's first drop. If this is a fibre's stack, the next thread that runs it must find the record.
            drop.low = here - outermost_drop::k_depth;
            g_outermost_drops.insert(drop);
            return open_window_around(drop);
        }
        ask_bounds();
        drop.is_on_own_stack = is_own(here);
        drop.takes_unordered = kind != outermost_kind::immediate;
        drop.low = here - outermost_drop::k_depth;
        if (kind == outermost_kind::scope)
            drop.low = outermost_drop::k_gathers;
        else if (kind == outermost_kind::unordered && drop.is_on_own_stack)
            drop.low = detail::smaller(drop.low, limit());
        if (drop.is_on_own_stack) {
            drop.outer = m_innermost;
            m_innermost = &drop;
        } else {
            g_outermost_drops.insert(drop);
        }
        close_window();
    }
    void end(outermost_drop& drop) noexcept {
        if (drop.is_on_own_stack)
            m_innermost = drop.outer;
        else
            g_outermost_drops.remove(drop);
        if (m_recipient == &drop) m_recipient = nullptr;
        if (m_knows_bounds)
            close_window();
        else
            open_window_around(drop);
    }

    // exit() was called, perhaps by a destructor or within a reclaim_scope. The outermost drops of this stack will not
    // continue: objects deferred to them are destroyed here, and later drops of static objects must not use them.
    void finish_at_exit() noexcept {
        outermost_drop* drop = find(stack_pointer());
        while (drop != nullptr) {
            drop->queue.finish();
            end(*drop);
            drop = find(stack_pointer());
        }
        if (redirect != nullptr) redirect->finish();
        redirect = nullptr;
    }
#endif

    // An object was deferred; std::shared_ptr is about to deallocate its block.
    type_tag awaited = k_no_type;

    // While pooled::pending destroys objects: the queue for objects of incremental pools that they drop.
    deferred_queue* redirect = nullptr;

private:
#if POOLED_HAS_CODE
    static constexpr std::uintptr_t k_largest_reserve = std::uintptr_t{256} << 10;

    [[nodiscard]] bool is_own(std::uintptr_t here) const noexcept { return m_bounds.contains(here); }

    // The stack below the limit must suffice for the frames of two nested destructors, and for signal handlers.
    [[nodiscard]] std::uintptr_t limit() const noexcept {
#if POOLED_THREAD_SANITIZER
        // ThreadSanitizer records the calls of a thread in its own stack of 64 Ki entries.
        constexpr std::uintptr_t k_most = std::uintptr_t{512} << 10;
        if (m_bounds.bytes() > 2 * k_most) return m_bounds.high - k_most;
#endif
        return m_bounds.low + detail::smaller(m_bounds.bytes() / 2, k_largest_reserve);
    }

    [[nodiscard]] drop_way defer_to(outermost_drop& drop) noexcept {
        m_recipient = &drop;
        return drop_way::defer;
    }

    void ask_bounds() noexcept {
        if (m_knows_bounds) return;
        m_bounds = find_stack_bounds();
        m_knows_bounds = true;
    }

    void open_window(std::uintptr_t low, std::uintptr_t high) noexcept {
        m_window_low = low;
        m_window_bytes = high - low;
    }
    void close_window() noexcept { m_window_bytes = 0; }
    // For plain recursion on a stack of unknown bounds.
    void open_window_around(outermost_drop const& drop) noexcept {
        open_window(drop.low, drop.top + outermost_drop::k_above);
    }
#endif

    std::uintptr_t m_window_low = 0;
    std::uintptr_t m_window_bytes = 0;
    std::uintptr_t m_first_drop = 0;
    stack_bounds m_bounds;
    bool m_knows_bounds = false;
    outermost_drop* m_innermost = nullptr;  // on the thread's own stack
    outermost_drop* m_recipient = nullptr;
};
static_assert(std::is_trivially_destructible_v<teardown_state>);

POOLED_STATE(thread_local teardown_state, t_teardown, {});

// Out of line, so that a fibre that moves to another thread between two calls uses the state of its present thread.
[[nodiscard]] POOLED_API drop_way choose_way(bool is_unordered) noexcept;
POOLED_API void begin_outermost(outermost_drop& drop, outermost_kind kind) noexcept;
POOLED_API void end_outermost(outermost_drop& drop) noexcept;
[[nodiscard]] POOLED_API outermost_drop* find_outermost() noexcept;

// Calls `destroy()`, then destroys the objects deferred to this drop, and those that they drop, until none is left.
template <class Destroy>
POOLED_NOINLINE void drop_outermost(outermost_kind kind, Destroy destroy) noexcept {
    outermost_drop self;
    begin_outermost(self, kind);
    destroy();
    self.queue.finish();
    end_outermost(self);
}

// Destroys the object immediately and returns true, or returns false: it must be deferred.
template <class T>
[[nodiscard]] bool try_destroy(T* object, bool is_unordered) noexcept {
    switch (detail::choose_way(is_unordered)) {
    case drop_way::destroy:
        std::destroy_at(object);
        return true;
    case drop_way::outermost:
        detail::drop_outermost(is_unordered ? outermost_kind::unordered : outermost_kind::immediate,
                               [object] { std::destroy_at(object); });
        return true;
    case drop_way::defer:
        break;
    }
    return false;
}

// Defers an object for which choose_way() returned drop_way::defer. If there is no memory to record it, it is destroyed
// immediately, within the destructor that dropped it.
POOLED_API void defer_to_outermost(deferred d, void const* object, std::size_t object_bytes) noexcept;

// Destroys an object that cannot be deferred, or whose deferral ends.
POOLED_API void finish_now(deferred d) noexcept;

// Objects destroyed at a time when an allocation finds no memory.
inline constexpr std::size_t k_objects_per_retry = 256;

#if POOLED_HAS_CODE

POOLED_CODE drop_way choose_way(bool is_unordered) noexcept {
    return t_teardown.choose(stack_pointer(), is_unordered);
}

POOLED_CODE void begin_outermost(outermost_drop& drop, outermost_kind kind) noexcept {
    t_teardown.begin(drop, stack_pointer(), kind);
}

POOLED_CODE void end_outermost(outermost_drop& drop) noexcept { t_teardown.end(drop); }

POOLED_CODE outermost_drop* find_outermost() noexcept { return t_teardown.find(stack_pointer()); }

POOLED_CODE void defer_to_outermost(deferred d, void const* object, std::size_t object_bytes) noexcept {
    outermost_drop* const to = t_teardown.take_recipient();
    if (to == nullptr || !to->queue.push(d, object, object_bytes)) d.finish();
}

POOLED_CODE void finish_now(deferred d) noexcept {
    switch (detail::choose_way(false)) {
    case drop_way::destroy:
        return d.finish();
    case drop_way::outermost:
        return detail::drop_outermost(outermost_kind::immediate, [d] { d.finish(); });
    case drop_way::defer:
        return detail::defer_to_outermost(d, d.object(), d.type().object_bytes);
    }
}

// Destroys some of the objects that are deferred on this stack. Returns their number. Does not nest: an allocation in one of
// their destructors destroys no objects of the same record.
inline std::size_t relieve_outermost() noexcept {
    for (outermost_drop* drop = find_outermost(); drop != nullptr; drop = drop->outer) {
        if (drop->is_relieving || drop->queue.empty()) continue;
        drop->is_relieving = true;
        std::size_t const done = drop->queue.finish(k_objects_per_retry);
        drop->is_relieving = false;
        return done;
    }
    return 0;
}

// The pool calls this for an allocation that found no memory: see impl/pool/extension.hpp.
inline bool relieve_pressure(pool_core& core, std::uint64_t& seen) noexcept {
    if (detail::relieve_outermost() != 0) return true;
    pool_extension* const deferred_here = core.is_incremental() ? core.extension() : nullptr;
    return deferred_here != nullptr && deferred_here->relieve(seen);
}

inline void finish_deferred_at_exit() noexcept { t_teardown.finish_at_exit(); }

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
