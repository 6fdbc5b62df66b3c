// SPDX-License-Identifier: BSL-1.0
#pragma once

// Destruction that does not recurse deep. A drop destroys its object by plain recursion as long as there is stack for it;
// below that, a drop leads: it destroys its object and then, one after the other, what that let go of, while the drops
// within it only put their objects into the queue. So the stack does not grow with the depth of a structure, whatever
// types, pools and handles it mixes.
//
//   drop(list) ─▶ stack left? yes ─▶ ~node ─▶ drop(next) ─▶ …
//                      no
//                      ▼
//                somebody leads? no ─▶ lead: ~node ─▶ drop(next) ─▶ somebody leads: wait ─┐
//                                               ▲                                        │
//                                               └────────── take from the queue ◀────────┘
//
// Invariant: while nobody leads on a thread, its queue is empty. reclaim_scope leads without an object of its own.
// Each thread has its own; constant-initialised and trivially destroyed, so it works while the thread or the process ends.

#include "pooled/base/bits.hpp"
#include "pooled/config.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/teardown/block_type.hpp"
#include "pooled/teardown/waiting.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::detail {

class teardown_state {
public:
    // How an object goes whose last owner lets go.
    enum class way : unsigned char {
        recurse,  // here and now, within whatever destructor runs
        lead,     // the same, and then what it let go of
        wait,     // somebody leads
    };

    // How far plain recursion goes: the quickest way as long as the processor finds the next object by itself, when it is
    // near the last one (its prefetchers follow), or when all of them are in its caches. Where drops are slow and go far,
    // again and again, the structure is large and scattered, and worth the queue's own prefetches (measured:
    // docs/teardown.md).
    struct reach {
        std::uintptr_t line = k_gather;    // a drop at a stack pointer below it has something to find out
        std::uintptr_t bottom = k_gather;  // below it, there is no recursion
        std::uint32_t looks = 0;           // drops still to be looked at, for the sample under way
        std::uint32_t far_samples = 0;     // in a row, or nearly
    };

    static constexpr std::uintptr_t k_gather = ~std::uintptr_t{0};  // above everything

    // True: destroy it here and now.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool may_recurse() const noexcept {
        return stack_pointer() >= m_reach.line;
    }

    // After may_recurse() said no.
    [[nodiscard]] POOLED_NOINLINE way choose(void const* object, std::size_t object_bytes) noexcept {
        std::uintptr_t const here = stack_pointer();
        if (here < m_reach.bottom) {
            if (m_leads) return way::wait;
            if (m_reach.bottom != k_gather) return way::lead;
            draw_line(here);  // the thread's first drop
            return way::recurse;
        }
        if (m_reach.looks != 0) look(address_of(object), object_bytes);
        if (m_reach.far_samples != k_far_samples) {
            if (!m_leads && here - m_reach.bottom > k_free_stack_bytes) draw_line(here);
            return way::recurse;
        }
        if (!m_leads) return way::lead;
        m_reach.bottom = k_gather;
        return way::wait;
    }

    // A magazine of blocks goes home, so as many objects were dropped: a sample is due, perhaps.
    void on_exchange(std::uint32_t blocks) noexcept {
        m_dropped += blocks;
        if (m_reach.line == k_gather || m_dropped < k_drops_between_samples) return;
        auto const now = std::chrono::steady_clock::now();
        bool const is_slow = now - std::exchange(m_sampled_at, now) > m_dropped * k_slow_drop;
        m_dropped = 0;
        if (!is_slow) return end_sample(false);
        m_is_near = false;
        m_reach.looks = k_sample_drops;  // where do they go?
        m_reach.line = k_gather;
    }

    // Destroys by `destroy()` and then what waits, and what that lets go of, until nothing is left. Requires that nobody
    // leads.
    template <class Destroy>
    void lead(Destroy&& destroy) noexcept {
        reach const outside = m_reach;
        m_leads = true;
        bool const is_scattered = outside.far_samples == k_far_samples;
        m_reach = reach{};
        if (!is_scattered) m_reach.line = m_reach.bottom = stack_pointer() - k_led_stack_bytes;
        destroy();
        std::size_t const waited = empty_queue();
        m_leads = false;
        m_reach = outside;
        if (!is_scattered) return;
        // The first who lead are deep down in a structure, and get little of it.
        m_small_leads = waited < k_large_structure ? m_small_leads + 1 : 0;
        if (m_small_leads != k_small_leads) return;
        m_small_leads = 0;
        m_reach.far_samples = 0;
        m_reach.line = m_reach.bottom;
    }

    // What the thread was at before it began to gather.
    struct phase {
        reach outside;
        bool leads;
    };

    // Everything that is dropped waits, until stop_gathering(). If somebody led before, he does the work.
    [[nodiscard]] phase start_gathering() noexcept {
        return {std::exchange(m_reach, reach{}), std::exchange(m_leads, true)};
    }
    void stop_gathering(phase const& before) noexcept {
        if (!before.leads) empty_queue();
        m_leads = before.leads;
        m_reach = before.outside;
    }

    // Destroys up to `budget` objects of a queue, and leaves in it what they let go of. Returns how many. May be called
    // within any teardown.
    std::size_t take_some(waiting_queue& queue, std::size_t budget) noexcept {
        phase const before = start_gathering();
        waiting_queue* const elsewhere = std::exchange(m_elsewhere, &queue);
        std::size_t done = 0;
        for (; done != budget && !queue.empty(); ++done)
            queue.take();
        m_elsewhere = elsewhere;
        stop_gathering(before);
        return done;
    }

    // Destroys some of what has been gathered, for an allocation that found no memory. Returns how many objects. Destructors
    // that allocate in their turn find what there is: it does not nest.
    std::size_t make_room(std::size_t budget) noexcept {
        if (m_makes_room || current().empty()) return 0;
        m_makes_room = true;
        std::size_t const done = take_some(current(), budget);
        m_makes_room = false;
        return done;
    }

    // Puts off what must wait. If it cannot be noted for want of memory, it is destroyed here and now, within the destructor
    // that let go of it.
    void push(waiting w, void const* object, std::size_t object_bytes) noexcept {
        if (!current().push(w, object, object_bytes)) w.finish();
    }

    // exit() was called, perhaps by a destructor or within a reclaim_scope: nobody comes back to what this thread has
    // gathered, and what static objects let go of from here on must not wait for it.
    void finish_at_exit() noexcept {
        if (!m_leads) return;
        m_reach = reach{};
        if (m_elsewhere != nullptr)
            while (!m_elsewhere->empty())
                m_elsewhere->take();
        m_elsewhere = nullptr;
        m_makes_room = false;
        empty_queue();
        m_leads = false;
    }

    [[nodiscard]] bool leads() const noexcept { return m_leads; }
    // While objects of an incremental pool are destroyed: where those go that they let go of.
    [[nodiscard]] waiting_queue* elsewhere() const noexcept { return m_elsewhere; }

    // An object was put off; std::shared_ptr is about to deallocate its block.
    type_tag awaited = k_no_type;

private:
    static constexpr std::uintptr_t k_free_stack_bytes = 24576;  // below the highest drop of the thread
    static constexpr std::uintptr_t k_led_stack_bytes = 16384;   // below the drop that leads
    static constexpr std::uint32_t k_drops_between_samples = 1024;
    static constexpr std::chrono::nanoseconds k_slow_drop{32};  // slower than from the last level of cache
    static constexpr std::uint32_t k_sample_drops = 4;
    static constexpr std::uint32_t k_far_samples = 32;
    static constexpr std::uintptr_t k_near_bytes = 2048;
    static constexpr std::size_t k_strides = 8;                 // objects of a size have slabs of their own
    static constexpr std::size_t k_large_structure = 1U << 18;  // objects; smaller ones may be in the caches
    static constexpr std::uint32_t k_small_leads = 64;          // in a row, until it is plain recursion again

    // Where drops come from. It may go up later, but never down: a structure that is wide and deep would take it along.
    void draw_line(std::uintptr_t here) noexcept {
        m_reach.bottom = here - k_free_stack_bytes;
        if (m_reach.looks == 0) m_reach.line = m_reach.bottom;
    }

    void look(std::uintptr_t object, std::size_t object_bytes) noexcept {
        std::uintptr_t& before = m_last[object_bytes / 8 % k_strides];
        m_is_near = m_is_near || object - before + k_near_bytes <= 2 * k_near_bytes;
        before = object;
        if (--m_reach.looks == 0) end_sample(!m_is_near);
    }

    void end_sample(bool is_far) noexcept {
        if (is_far)
            ++m_reach.far_samples;
        else if (m_reach.far_samples != 0)
            --m_reach.far_samples;
        if (m_reach.far_samples != k_far_samples) m_reach.line = m_reach.bottom;
    }

    [[nodiscard]] waiting_queue& current() noexcept {
        return m_elsewhere != nullptr ? *m_elsewhere : m_queue;
    }

    std::size_t empty_queue() noexcept {
        std::size_t done = 0;
        for (; !m_queue.empty(); ++done)
            m_queue.take();
        return done;
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

    reach m_reach;
    std::uint32_t m_dropped = 0;  // since the last sample
    std::chrono::steady_clock::time_point m_sampled_at{};
    std::uint32_t m_small_leads = 0;
    bool m_is_near = false;  // one of those looked at
    bool m_leads = false;
    bool m_makes_room = false;
    waiting_queue* m_elsewhere = nullptr;
    std::array<std::uintptr_t, k_strides> m_last{};  // the object last looked at, for each kind of size
    waiting_queue m_queue;
};
static_assert(std::is_trivially_destructible_v<teardown_state>);

POOLED_EXPORT inline constinit thread_local teardown_state t_teardown{};

// What has no destructor to speak of owns nothing: it is never put off.
template <class T>
inline constexpr bool k_may_cascade = !std::is_trivially_destructible_v<T>;

// Destroys the object here and now, with all that it lets go of, unless somebody leads. False: it must wait.
template <class T>
[[nodiscard]] bool try_destroy(T* object) noexcept {
    using way = teardown_state::way;
    switch (t_teardown.choose(object, sizeof(T))) {
    case way::recurse:
        std::destroy_at(object);
        return true;
    case way::lead:
        t_teardown.lead([object] { std::destroy_at(object); });
        return true;
    case way::wait:
        break;
    }
    return false;
}

// An object that was to wait, but may not.
POOLED_NOINLINE inline void tear_down_now(waiting w) noexcept {
    if (t_teardown.leads()) return t_teardown.push(w, w.object(), w.type().object_bytes);
    t_teardown.lead([w] { w.finish(); });
}

// All of a list of batches, which are gone afterwards.
inline void tear_down(waiting_batch* list) noexcept {
    while (list != nullptr) {
        waiting_batch* const batch = list;
        list = batch->next;
        t_teardown.take_some(batch->queue, ~std::size_t{0});
        g_metadata.deallocate(batch, sizeof(waiting_batch));
    }
}

}  // namespace pooled::detail
