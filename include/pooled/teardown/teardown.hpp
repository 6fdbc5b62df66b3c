// SPDX-License-Identifier: BSL-1.0
#pragma once

// When to defer: docs/teardown.md says what a program sees of it. A drop destroys its object at once, unless the stack is nearly used up.
// Then it becomes an outermost drop: drops further down only add their objects to its queue, which it destroys one after the other.
//
//   thread's own stack            the system is asked for its bounds once, when a drop is 4 KiB below the first one; until
//                                 then, the thread's first drop is an outermost drop as on any other stack
//     high ┐
//          │ plain recursion      half of the stack, or all but 256 KiB of it
//     limit│ outermost drop ─▶ 4 KiB of plain recursion, at most an eighth of the stack, below that deferred
//     low  ┘
//   any other stack (fibre, sigaltstack): the first drop is an outermost drop, with 4 KiB of plain recursion
//
// The fast path is one comparison: is the stack pointer in the *window*, the range of addresses where plain recursion is known to be
// safe? The window only caches that answer, which is computed again whenever the stack pointer is outside of it, so a thread may change
// stacks at any moment. The window is empty while drops are gathered (reclaim_scope, teardown::unordered).
//
// Each thread has one state. It is constant-initialised and trivially destroyed, so it works while the thread or the process ends. No
// function that runs a destructor uses the state afterwards: a fibre may have moved to another thread by then.
//
// The records of outermost drops lie on the stacks that they represent. The table of those on other stacks than a thread's own is keyed
// by address, so a fibre finds its own, whichever thread runs it and whatever other fibres did meanwhile.
//
//   top + 4 KiB   ┐ a drop in this range is on the same stack: of several records that match, the lowest is the innermost
//   top           │ where the record was made
//   low           │ = top − 4 KiB: below it, drops are deferred to this record (a record that gathers: everywhere)
//   top − 32 KiB  ┘ the rest is for the frames of a single destructor
//
// Table: any thread may call; a lock for each 64 KiB of addresses (shared by those that have the same hash). O(1).

#include "pooled/os/platform.hpp"
#include "pooled/plugins/copies.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/teardown/deferred_queue.hpp"
#if POOLED_HAS_CODE
#include "pooled/cache/cache_set.hpp"
#include "pooled/os/mutex.hpp"
#endif

POOLED_BEGIN_DETAIL

[[nodiscard]] POOLED_ALWAYS_INLINE std::uintptr_t stack_pointer() noexcept {
#if defined(__x86_64__)
    std::uintptr_t pointer = 0;
    asm("{movq %%rsp, %0|mov %0, rsp}"
        : "=r"(pointer));  // the builtin would cost each caller a frame pointer
    return pointer;
#else
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#endif
}

enum class outermost_kind : unsigned char {
    immediate,  // because the stack is nearly used up
    unordered,  // of an object of an unordered pool: other objects of such pools are deferred to it
    scope,      // a reclaim_scope: all objects are deferred to it
};

struct outermost_drop {
    // How far plain recursion may go below an outermost drop. What it does not count, a slow call of the pool and the loader that binds a
    // function, takes as much again: with 12 KiB, lists overflowed stacks of 16 to 32.
    static constexpr std::uintptr_t k_depth = std::uintptr_t{4} << 10;
    // A drop at most this far below (above) a record, on a stack of unknown bounds, is on the same stack.
    static constexpr std::uintptr_t k_below = std::uintptr_t{32} << 10;
    static constexpr std::uintptr_t k_above = std::uintptr_t{4} << 10;
    static constexpr std::uintptr_t k_gathers = ~std::uintptr_t{0};  // above every stack pointer

    std::uintptr_t top = 0;
    std::uintptr_t low = 0;
    outermost_drop* outer = nullptr;   // on a thread's own stack: the record around this one
    list_links<outermost_drop> links;  // in the table
    bool is_on_own_stack = false;
    bool takes_unordered = false;  // objects of unordered pools are deferred to it at any depth
    bool is_relieving = false;     // objects are being destroyed for an allocation that found no memory
    deferred_queue queue;

    [[nodiscard]] bool covers(std::uintptr_t here) const noexcept {
        return here - (top - k_below) < k_below + k_above;
    }
};

#if POOLED_HAS_CODE
// From now on, the pool calls this layer, in the code of the calling file, which may share the state of another one. Called before
// the first object is deferred.
inline void install_hooks() noexcept;

class outermost_drop_table {
public:
    void insert(outermost_drop& drop) noexcept {
        shard& s = shard_of(drop.top);
        scoped_lock const lock(s);
        s.drops.push_front(drop);
    }

    // In a forked child, the table may have forgotten it.
    void remove(outermost_drop& drop) noexcept {
        shard& s = shard_of(drop.top);
        scoped_lock const lock(s);
        for (outermost_drop& each : s.drops)
            if (&each == &drop) return s.drops.remove(drop);
    }

    // The innermost record on the stack that `here` is on, or null.
    [[nodiscard]] POOLED_NOINLINE outermost_drop* find(std::uintptr_t here) noexcept {
        outermost_drop* found = nullptr;
        shard& first = shard_of(here - outermost_drop::k_above);
        shard& last = shard_of(here + outermost_drop::k_below);
        first.look(here, found);
        if (&last != &first) last.look(here, found);
        return found;
    }

private:
    static constexpr unsigned k_shift = 16;
    static constexpr std::size_t k_shards = 64;
    static_assert(outermost_drop::k_below + outermost_drop::k_above < std::uintptr_t{1} << k_shift);

    struct alignas(64) shard {
        detail::mutex mutex;
        std::uint32_t forks_survived = 0;
        intrusive_list<outermost_drop> drops;

        // A forked child may reuse the stacks of the parent's other threads, so it forgets all records. The drop that made a record of
        // its own thread still empties its queue; a drop further down makes another record.
        void lock() noexcept {
            mutex.lock();
            if (std::exchange(forks_survived, std::uint32_t{g_forks_survived}) != g_forks_survived)
                drops = {};
        }
        void unlock() noexcept { mutex.unlock(); }
        void look(std::uintptr_t here, outermost_drop*& found) noexcept {
            scoped_lock const own(*this);
            for (outermost_drop& d : drops)
                if (d.covers(here) && (found == nullptr || d.top < found->top)) found = &d;
        }
    };

    // The stacks of threads lie at regular distances, so the hash uses all bits of the address (Fibonacci hashing, Knuth).
    [[nodiscard]] shard& shard_of(std::uintptr_t address) noexcept {
        static_assert(k_shards == 64);
        return m_shards[std::uint64_t{address >> k_shift} * 0x9e37'79b9'7f4a'7c15U >> 58];
    }

    std::array<shard, k_shards> m_shards{};
};

POOLED_STATE(outermost_drop_table, g_outermost_drops);
#endif

// What to do with an object whose last owner drops it.
enum class drop_way : unsigned char {
    destroy,    // immediately, within the destructor that drops it, if any
    outermost,  // immediately, as an outermost drop
    defer,      // to the outermost drop
};

// Empty where they are not known.
struct stack_bounds {
    std::uintptr_t low = 0;
    std::uintptr_t high = 0;
    [[nodiscard]] bool contains(std::uintptr_t address) const noexcept { return address - low < high - low; }
    [[nodiscard]] std::uintptr_t bytes() const noexcept { return high - low; }
};

// What each drop asks the calling thread: where its stack has space for plain recursion.
struct drop_window {
    std::uintptr_t low = 0;
    std::uintptr_t bytes = 0;
    type_tag awaited =
        k_no_type;  // of an object that was deferred: std::shared_ptr is about to deallocate its block
};
POOLED_HOT_THREAD_STATE(drop_window, t_drop_window, {});

// True: the object must be destroyed immediately.
[[nodiscard]] POOLED_ALWAYS_INLINE bool may_recurse() noexcept {
    return POOLED_THREAD_SPANS(t_drop_window, low, bytes, stack_pointer());
}
[[nodiscard]] POOLED_ALWAYS_INLINE bool is_block_awaited() noexcept {
    return !POOLED_THREAD_EQUALS(t_drop_window, awaited, k_no_type);
}

class teardown_state {
public:
#if POOLED_HAS_CODE
    // Called when may_recurse() is false, or for an object of an unordered pool. After `defer`, the caller must push the object
    // to `recipient` before any destructor runs, or destroy it.
    [[nodiscard]] drop_way choose(std::uintptr_t here, bool is_unordered) noexcept {
        // Each drop within a scope comes here: choose_slow() would decide the same in more instructions.
        if (is_own(here) && m_innermost != nullptr && here < m_innermost->low) return defer_to(*m_innermost);
        return choose_slow(here, is_unordered);
    }

    // The innermost outermost_drop around a drop at this stack pointer, to which it may be deferred; null: none.
    [[nodiscard]] outermost_drop* find(std::uintptr_t here) noexcept {
        ask_bounds();
        return is_own(here) ? m_innermost : g_outermost_drops.find(here);
    }

    // False: not done, because a scope would gather nothing that is not deferred already.
    bool begin(outermost_drop& drop, std::uintptr_t here, outermost_kind kind) noexcept {
        if (kind == outermost_kind::scope)
            if (outermost_drop const* const around = find(here); around != nullptr && here < around->low)
                return false;
        install_hooks();
        // The bounds stay unknown for the thread's first drop. If this is a fibre's stack, the next thread that runs it must find the record.
        if (kind != outermost_kind::immediate) ask_bounds();
        drop.top = here;
        drop.is_on_own_stack = is_own(here);
        drop.takes_unordered = kind != outermost_kind::immediate;
        drop.low =
            here - (drop.is_on_own_stack ? detail::smaller(outermost_drop::k_depth, m_bounds.bytes() / 8)
                                         : outermost_drop::k_depth);
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
        reset_window(drop);
        return true;
    }
    void end(outermost_drop& drop) noexcept {
        if (drop.is_on_own_stack)
            m_innermost = drop.outer;
        else
            g_outermost_drops.remove(drop);
        if (recipient == &drop) recipient = nullptr;
        reset_window(drop);
    }

    // exit() was called, perhaps by a destructor or within a reclaim_scope. The outermost drops of this stack will not
    // continue: objects deferred to them are destroyed here, and later drops of static objects must not use them.
    void finish_at_exit() noexcept {
        while (outermost_drop* const drop = find(stack_pointer())) {
            drop->queue.finish();
            end(*drop);
        }
        if (redirect != nullptr) redirect->finish();
        redirect = nullptr;
    }
#endif

    // To which choose() deferred an object that is to be pushed.
    outermost_drop* recipient = nullptr;

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

    [[nodiscard]] POOLED_NOINLINE drop_way choose_slow(std::uintptr_t here, bool is_unordered) noexcept {
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

    [[nodiscard]] drop_way defer_to(outermost_drop& drop) noexcept {
        recipient = &drop;
        return drop_way::defer;
    }

    void ask_bounds() noexcept {
        if (m_knows_bounds) return;
        platform::find_stack(m_bounds.low, m_bounds.high);
        m_knows_bounds = true;
    }

    void open_window(std::uintptr_t low, std::uintptr_t high) noexcept {
        t_drop_window().low = low;
        t_drop_window().bytes = high - low;
    }
    // It is open only for plain recursion on a stack of unknown bounds.
    void reset_window(outermost_drop const& drop) noexcept {
        open_window(drop.low, m_knows_bounds ? drop.low : drop.top + outermost_drop::k_above);
    }
#endif

    [[maybe_unused]] std::uintptr_t m_first_drop = 0;
    stack_bounds m_bounds;
    [[maybe_unused]] bool m_knows_bounds = false;
    [[maybe_unused]] outermost_drop* m_innermost = nullptr;  // on the thread's own stack
};
static_assert(std::is_trivially_destructible_v<teardown_state>);

POOLED_THREAD_STATE(teardown_state, t_teardown, {});

// Out of line, so that a fibre that moves to another thread between two calls uses the state of its present thread.
POOLED_API bool begin_outermost(outermost_drop& drop, outermost_kind kind) noexcept;
POOLED_API void end_outermost(outermost_drop& drop) noexcept;

// Calls destroy(object) immediately and returns true, or returns false: the object must be deferred.
[[nodiscard]] POOLED_API bool run_unless_deferred(bool is_unordered, void (*destroy)(void* object) noexcept,
                                                  void* object) noexcept;

// Defers an object for which run_unless_deferred() was false. If there is no memory to record it, it is destroyed
// immediately, within the destructor that dropped it.
POOLED_API void defer_to_outermost(deferred d, void const* object, std::size_t object_bytes) noexcept;

// Objects destroyed at a time when an allocation finds no memory.
inline constexpr std::size_t k_objects_per_retry = 256;

#if POOLED_HAS_CODE

POOLED_NOINLINE POOLED_CODE bool begin_outermost(outermost_drop& drop, outermost_kind kind) noexcept {
    return t_teardown().begin(drop, stack_pointer(), kind);
}

POOLED_NOINLINE POOLED_CODE void end_outermost(outermost_drop& drop) noexcept { t_teardown().end(drop); }

// Destroys the object, then those that were deferred to this drop, and those that they drop, until none is left.
POOLED_NOINLINE inline void drop_outermost(outermost_kind kind, void (*destroy)(void* object) noexcept,
                                           void* object) noexcept {
    outermost_drop self;
    begin_outermost(self, kind);
    destroy(object);
    self.queue.finish();
    end_outermost(self);
}

POOLED_CODE bool run_unless_deferred(bool is_unordered, void (*destroy)(void* object) noexcept,
                                     void* object) noexcept {
    drop_way const way = t_teardown().choose(stack_pointer(), is_unordered);
    if (way == drop_way::destroy)
        destroy(object);
    else if (way == drop_way::outermost)
        detail::drop_outermost(is_unordered ? outermost_kind::unordered : outermost_kind::immediate, destroy,
                               object);
    return way != drop_way::defer;
}

POOLED_CODE void defer_to_outermost(deferred d, void const* object, std::size_t object_bytes) noexcept {
    outermost_drop* const to = std::exchange(t_teardown().recipient, nullptr);
    if (to == nullptr || !to->queue.push(d, object, object_bytes)) d.finish();
}

// Destroys an object that cannot be deferred by its pool.
inline void finish_now(deferred d) noexcept {
    auto const finish = [](void* one) noexcept { static_cast<deferred const*>(one)->finish(); };
    if (!detail::run_unless_deferred(false, finish, &d))
        detail::defer_to_outermost(d, d.object(), d.type().object_bytes);
}

// The pool calls this for an allocation that found no memory: see pool/core.hpp. Destroys some of the objects that are deferred on this
// stack; that does not nest: an allocation in one of their destructors destroys no objects of the same record.
inline bool relieve_pressure(pool_core& core, std::uint64_t& seen) noexcept {
    for (outermost_drop* drop = t_teardown().find(stack_pointer()); drop != nullptr; drop = drop->outer) {
        if (drop->is_relieving || drop->queue.empty()) continue;
        drop->is_relieving = true;
        drop->queue.finish(k_objects_per_retry);
        drop->is_relieving = false;
        return true;
    }
    pool_extension* const deferred_here = core.is_incremental() ? core.extension() : nullptr;
    return deferred_here != nullptr && deferred_here->relieve(seen);
}

inline void install_hooks() noexcept {
    if (g_pressure_hook.load(std::memory_order_relaxed) != nullptr) return;
    detail::pin_this_library();
    g_exit_hook.store([]() noexcept { t_teardown().finish_at_exit(); }, std::memory_order_relaxed);
    g_anew_hook.store([]() noexcept { ::new (static_cast<void*>(&g_outermost_drops)) outermost_drop_table; },
                      std::memory_order_relaxed);
    g_pressure_hook.store(relieve_pressure, std::memory_order_release);
}

#endif

POOLED_END_DETAIL
