// SPDX-License-Identifier: BSL-1.0
#pragma once

// Destruction without recursion. The outermost drop on a thread destroys its object and then, one after the other, what
// that let go of; a drop within it only puts the object into the queue. So the stack does not grow with the depth of a
// structure, whatever types, pools and handles it mixes.
//
//   drop(list) ─▶ gathering? no ─▶ ~node ─▶ drop(next) ─▶ gathering: wait ─┐
//                     ▲                                                   │
//                     └────────────── take from the queue ◀───────────────┘
//
// Invariant: outside of any destruction and of any reclaim_scope, the thread's queue is empty and nothing is gathering.
// Each thread has its own; constant-initialised and trivially destroyed, so it works while the thread or the process ends.

#include "pooled/config.hpp"
#include "pooled/core/bits.hpp"
#include "pooled/pool/block_type.hpp"
#include "pooled/pool/waiting.hpp"
#include "pooled/source/metadata.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::detail {

struct teardown_state {
    // Values of `base` that are not addresses: from neither is a stack pointer in bounds.
    static constexpr std::uintptr_t k_idle = 0;
    static constexpr std::uintptr_t k_gathering = 1;  // every drop is put off

    // Plain recursion is the quickest as long as the processor finds the next object by itself: when it is near the last one
    // (its prefetchers follow), or when all of them are in its caches. It may take so much stack below the outermost drop.
    // Once in a while a few drops are looked at: when they go far again and again, the structure is large and scattered, and
    // worth the queue's own prefetches (measured: docs/teardown.md).
    static constexpr std::uintptr_t k_stack_bytes = 16384;
    static constexpr std::uintptr_t k_recursions_between_samples = 1024;
    static constexpr unsigned k_sample_drops = 4;
    static constexpr unsigned k_far_samples = 32;
    static constexpr std::uintptr_t k_near_bytes = 2048;
    static constexpr std::size_t k_strides = 8;  // objects of a size have slabs of their own

    // Below the stack pointer of the outermost drop by k_stack_bytes, and how far above it a drop may stand to recurse, which
    // is less after each recursion: one comparison bounds both. The lower end never moves, else a structure that is wide and
    // deep would take the stack along with it.
    std::uintptr_t base = k_idle;
    std::uintptr_t room = 0;
    unsigned far_samples = 0;
    type_number awaited =
        k_no_type;  // an object was put off; std::shared_ptr is about to deallocate its block
    waiting_queue* elsewhere =
        nullptr;                  // while an incremental pool's objects are destroyed: where the next ones go
    bool is_making_room = false;  // see make_room()
    waiting_queue queue;

    unsigned sample_left = 0;
    bool is_near = false;
    std::array<std::uintptr_t, k_strides> last{};  // the object last looked at, for each kind of size

    // True: destroy it here and now, within another's destruction.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool may_recurse() noexcept {
        if (stack_pointer() - base >= room) return false;
        --room;
        return true;
    }

    // The same after may_recurse() said no, while something is being torn down.
    [[nodiscard]] POOLED_NOINLINE bool may_recurse_slow(void const* object,
                                                        std::size_t object_bytes) noexcept {
        if (base == k_gathering || stack_pointer() - base > k_stack_bytes) return false;
        sample(address_of(object), object_bytes);
        return true;
    }

    void sample(std::uintptr_t object, std::size_t object_bytes) noexcept {
        if (sample_left == 0) {
            sample_left = k_sample_drops;
            is_near = false;
            room = 0;
        }
        std::uintptr_t& before = last[object_bytes / 8 % k_strides];
        is_near = is_near || object - before + k_near_bytes <= 2 * k_near_bytes;
        before = object;
        if (--sample_left != 0) return;
        if (!is_near)
            ++far_samples;
        else if (far_samples != 0)
            --far_samples;
        if (far_samples < k_far_samples)
            room = k_stack_bytes + k_recursions_between_samples;
        else
            base = k_gathering;
    }

    // The outermost drop begins.
    POOLED_ALWAYS_INLINE void begin() noexcept {
        base = stack_pointer() - k_stack_bytes;
        room = k_stack_bytes + k_recursions_between_samples;
        far_samples = 0;
    }

    [[nodiscard]] POOLED_ALWAYS_INLINE static std::uintptr_t stack_pointer() noexcept {
#if defined(__x86_64__)
        std::uintptr_t pointer = 0;
        asm("mov %%rsp, %0" : "=r"(pointer));  // the builtin would cost each caller a frame pointer
        return pointer;
#else
        return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#endif
    }

    // Where a drop puts an object off to.
    [[nodiscard]] POOLED_ALWAYS_INLINE waiting_queue& current() noexcept {
        return elsewhere != nullptr ? *elsewhere : queue;
    }

    // Takes what is out of bounds, when may_recurse() said no and something is being torn down already. What cannot be noted
    // for want of memory is destroyed here and now, within the destructor that let go of it.
    void push(waiting w, void const* object, std::size_t object_bytes) noexcept {
        if (!current().push(w, object, object_bytes)) w.finish();
    }
};
static_assert(std::is_trivially_destructible_v<teardown_state>);

POOLED_EXPORT inline constinit thread_local teardown_state t_teardown{};

// What has no destructor to speak of owns nothing: it is never put off.
template <class T>
inline constexpr bool k_may_cascade = !std::is_trivially_destructible_v<T>;

// Destroys what waits, and what that lets go of, until nothing is left.
POOLED_NOINLINE inline void tear_down(waiting_queue& queue) noexcept {
    while (!queue.empty())
        queue.take();
}

// Destroys the object here and now, if it is the outermost of a teardown or may recurse. False: it must wait.
template <class T>
[[nodiscard]] POOLED_ALWAYS_INLINE bool try_destroy_slow(T* object) noexcept {
    teardown_state& state = t_teardown;
    if (state.base == teardown_state::k_idle) [[likely]] {
        state.begin();
        std::destroy_at(object);
        if (!state.queue.empty()) [[unlikely]]
            tear_down(state.queue);
        state.base = teardown_state::k_idle;
        return true;
    }
    if (!state.may_recurse_slow(object, sizeof(T))) return false;
    std::destroy_at(object);
    return true;
}

// An object that was to wait, but may not.
POOLED_NOINLINE inline void tear_down_now(waiting w) noexcept {
    teardown_state& state = t_teardown;
    if (state.base != teardown_state::k_idle) return state.push(w, w.object(), w.type().object_bytes);
    state.begin();
    w.finish();
    tear_down(state.queue);
    state.base = teardown_state::k_idle;
}

// Destroys up to `budget` objects of a queue, and leaves in it what they let go of. Returns how many. May be called within
// any teardown.
POOLED_NOINLINE inline std::size_t tear_down_some(waiting_queue& queue, std::size_t budget) noexcept {
    teardown_state& state = t_teardown;
    std::uintptr_t const base = std::exchange(state.base, teardown_state::k_gathering);
    waiting_queue* const elsewhere = std::exchange(state.elsewhere, &queue);
    std::size_t done = 0;
    for (; done != budget && !queue.empty(); ++done)
        queue.take();
    state.base = base;
    state.elsewhere = elsewhere;
    return done;
}

// Destroys some of what a reclaim_scope or a teardown under way on this thread has gathered, for an allocation that found
// no memory. Returns how many objects. Destructors that allocate in their turn find what there is: it does not nest.
POOLED_NOINLINE inline std::size_t make_room(std::size_t budget) noexcept {
    teardown_state& state = t_teardown;
    if (state.is_making_room || state.current().empty()) return 0;
    state.is_making_room = true;
    std::size_t const done = tear_down_some(state.current(), budget);
    state.is_making_room = false;
    return done;
}

// exit() was called, perhaps by a destructor or within a reclaim_scope: nobody comes back to what this thread has gathered,
// and what static objects let go of from here on must not wait for it.
inline void finish_at_exit() noexcept {
    teardown_state& state = t_teardown;
    if (state.base == teardown_state::k_idle) return;
    state.base = teardown_state::k_gathering;
    if (state.elsewhere != nullptr) tear_down(*std::exchange(state.elsewhere, nullptr));
    tear_down(state.queue);
    state.is_making_room = false;
    state.base = teardown_state::k_idle;
}

// All of a list of batches, which are gone afterwards.
inline void tear_down(waiting_batch* list) noexcept {
    while (list != nullptr) {
        waiting_batch* const batch = list;
        list = batch->next;
        tear_down_some(batch->queue, ~std::size_t{0});
        g_metadata.deallocate(batch, sizeof(waiting_batch));
    }
}

}  // namespace pooled::detail
