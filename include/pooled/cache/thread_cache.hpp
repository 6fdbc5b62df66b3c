// SPDX-License-Identifier: BSL-1.0
#pragma once

// A thread's caches, and how it finds them.
//
//   thread_state (thread_local)            thread_cache: one for each thread and pool
//     near_caches[31]  ── pool id ──▶        gate, one class_cache a size class
//     null
//     far_caches ─▶ far_array  ── pool id − 31 ──▶
//
// A pool's small id indexes the thread's own table, so an instance costs what a static pool would. Pools beyond the first 31
// share a slot that is always null, so the fast path needs no comparison; the slow path then looks into `far_caches`. The state is
// constant-initialised and trivially destructible: it works before main, in thread-local destructors and after them.
//
// thread_state: its thread only. thread_cache: see gate.hpp; its links are guarded by the locks named beside them.

#include "pooled/cache/class_cache.hpp"
#include "pooled/cache/gate.hpp"

POOLED_BEGIN_DETAIL

class pool_core;
struct thread_cache;
struct thread_state;

// A thread's caches of pools beyond the near slots. They lie in the metadata arena and are all in a list of the registry, so that
// a forked child finds those of threads that do not exist there. Its lock guards the list and each thread's `far_caches`, so that a fork
// sees both agree.
struct far_array {
    thread_state* owner;
    std::uint32_t count;          // number of caches that follow
    list_links<far_array> links;  // the registry's list
    far_array* next;              // in that of ended threads

    [[nodiscard]] thread_cache** caches() noexcept { return reinterpret_cast<thread_cache**>(this + 1); }
    static far_array*& next_of(far_array& one) noexcept { return one.next; }
    [[nodiscard]] static constexpr std::size_t bytes(std::uint32_t count) noexcept {
        return sizeof(far_array) + count * sizeof(thread_cache*);
    }
};

// What a thread has deferred in an incremental pool (teardown/incremental.hpp), and how many such objects it has begun to destroy, and
// destroyed.
class deferred_queue;
struct thread_deferred {
    deferred_queue* queue = nullptr;
    observed<std::size_t> size;  // of the queue
    observed<std::uint64_t> begun;
    observed<std::uint64_t> ended;
};

// Two cache lines, because the adjacent-line prefetcher of Intel processors fetches pairs, and another thread writes to the
// next cache.
struct alignas(2 * k_cache_line) thread_cache {
    template <class T>
    using plain = std_atomics::plain<T>;

    detail::gate gate;  // first: thread_state::default_gate
    std::uint32_t pool_id = 0;
    observed<std::uint32_t> slow_calls;  // of the owner; unchanged: the owner is idle
    std::uint32_t slow_calls_seen = 0;   // guarded by the lock of the pool's caches
    plain<pool_core*> core = nullptr;    // null once the pool is closed: the owner finds its gate closed, too
    thread_state* owner = nullptr;       // null: belongs to a local_pool
    list_links<thread_cache> owned;      // the owner's list: owner only
    list_links<thread_cache, plain<thread_cache*>> links;  // the pool's: guarded by the lock of its caches
    class_cache recycled;                                  // used by the pool's extension
    // What the thread caches at most, but for the first array of each small class. Of each large class that is not inlined that is one
    // block, which has no array.
    static constexpr std::size_t k_most_bytes = std::size_t{4} << 20;
    observed<std::size_t> large_bytes;  // of these blocks; one of any size may be cached
    std::size_t array_bytes = 0;        // of the blocks that arrays have room for: owner only
    thread_cache* next_left = nullptr;  // in thread_state::closed, or in that of ended threads
    std::int64_t freed = 0;             // bytes that are not in cache_set::freed() yet: owner only
    alignas(k_cache_line) class_cache classes[k_class_count];
    thread_deferred deferred;

    static thread_cache*& next_of(thread_cache& cache) noexcept { return cache.next_left; }
    // Where the cache of a class is, in bytes: a constant for a class known at compile time, so that code out of line does not
    // multiply.
    [[nodiscard]] static constexpr std::size_t offset_of(class_index c) noexcept {
        return c * sizeof(class_cache);
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE class_cache& class_at(std::size_t offset) noexcept {
        return *reinterpret_cast<class_cache*>(reinterpret_cast<std::byte*>(classes) + offset);
    }

#if POOLED_HAS_CODE
    // A thread that rarely uses a class has a small array for it: 16 addresses or an eighth of the class's usual maximum, then four times
    // as many, and so on, as far as k_most_bytes goes. An array whose blocks were not needed is freed. Beyond
    // class_geometry::cache_blocks, to burst_blocks(), the array doubles for a thread that has taken a quarter more blocks than it holds: it is
    // likely to free these itself. What others allocated is exchanged often, while its lines are in the processor's caches.
    static constexpr std::uint32_t k_first_capacity = 16;
    static constexpr std::uint32_t k_growth = 4;
    [[nodiscard]] static constexpr std::uint32_t next_capacity(std::uint32_t capacity, class_index c,
                                                               std::uint32_t most) noexcept {
        std::uint32_t const usual = k_geometry[c].cache_blocks;
        if (capacity == 0) return detail::clamp<std::uint32_t>(usual / 8, 2, k_first_capacity);
        return capacity < usual ? detail::smaller(usual, k_growth * capacity)
                                : detail::smaller(most, 2 * capacity);
    }

    // Inside the gate. The block of the class that was freed last, or null.
    [[nodiscard]] void* pop(class_index c) noexcept {
        void* const block = classes[c].pop();
        if (c >= k_inlined_classes && block != nullptr) large_bytes.subtract(k_geometry[c].block_bytes);
        return block;
    }
    // False: the caller keeps the block. The class gets an array before its first block.
    [[nodiscard]] bool push(class_index c, void* block) noexcept {
        if (c < k_inlined_classes) [[likely]]
            return classes[c].capacity() != 0 && classes[c].push(block);
        std::size_t const bytes = k_geometry[c].block_bytes;
        bool const is_too_much = large_bytes != 0 && array_bytes + large_bytes + bytes > k_most_bytes;
        if (is_too_much || !classes[c].push(block)) return false;
        large_bytes.add(bytes);
        return true;
    }

    // The owner calls this and the next two. False when the array, or all of them, have their full size, or when there is no memory for a
    // larger one. `is_burst`: what it allocated is likely to come back.
    bool grow(class_index c, bool is_burst = false) noexcept {
        std::uint32_t const most = is_burst ? k_geometry[c].burst_blocks() : k_geometry[c].cache_blocks;
        std::uint32_t const capacity = classes[c].capacity();
        if (capacity >= most) return false;
        std::uint32_t const next = next_capacity(capacity, c, most);
        std::size_t const added = std::size_t{next - capacity} * k_geometry[c].block_bytes;
        bool const is_small = capacity == 0 && c < k_first_large;
        if (!is_small && array_bytes + added > k_most_bytes) return false;
        if (!classes[c].reserve(next)) return false;
        array_bytes += added;
        return true;
    }
    // Gives the array the capacity that suits what the owner does when it is full. True when it is larger now. It only shrinks to what it
    // holds.
    bool fit(class_index c) noexcept {
        class_geometry const& g = k_geometry[c];
        std::uint32_t const capacity = classes[c].capacity();
        std::int64_t const taken = classes[c].net_taken();
        if (4 * taken > 5 * std::int64_t{capacity}) return grow(c, true);  // a fifth is in use
        if (taken > 0 || capacity <= g.cache_blocks) return grow(c);
        if (classes[c].size() <= g.cache_blocks && classes[c].reserve(g.cache_blocks))
            array_bytes -= std::size_t{capacity - g.cache_blocks} * g.block_bytes;
        return false;
    }
    // Requires an empty array.
    void free_array(class_index c) noexcept {
        array_bytes -= std::size_t{classes[c].capacity()} * k_geometry[c].block_bytes;
        classes[c].release();
    }

    // Frees the arrays. Requires that nothing is held.
    void release() noexcept {
        recycled.release();
        for (class_cache& one : classes)
            one.release();
    }
#endif
};

static_assert(std::is_standard_layout_v<thread_cache>);

struct owned_links {
    static constexpr auto k_member = &thread_cache::owned;
};

// The gate of a thread that has not yet used the default pool.
POOLED_STATE(detail::gate, g_closed_gate, {detail::gate::closed()});

struct thread_state {
    static constexpr std::uint32_t k_no_pool_id = ~std::uint32_t{0};

    // The gate of the cache of the default pool, or a closed one, so its code needs no comparison with null.
    detail::gate* default_gate = &g_closed_gate;
    thread_cache* near_caches[k_near_slots]{};
    std::uint32_t recent_id = k_no_pool_id;  // of `recent`, which is not null then
    thread_cache* recent = nullptr;
    far_array* far_caches = nullptr;
    bool armed = false;  // the exit hook will run
    bool ended = false;  // it has run: the thread has no caches any more
    intrusive_list<thread_cache, thread_cache*, owned_links> owned;
    // Those of closed pools, which the thread must still free.
    push_list<thread_cache, thread_cache::next_of> closed;

    observed<bool>
        is_waiting;  // for deferred objects that other threads destroy, and may not wait for those of this one

    // To use a cache in `far_caches`, a thread must also enter this gate: a fork stops the thread here, not at each of those.
    detail::gate far_gate;
    // The default gate without a cache: threads do not write to the same one again and again.
    detail::gate closed_gate{detail::gate::closed()};

    // Requires a cache of this thread that is about to be freed.
    void forget(thread_cache const* cache) noexcept {
        if (recent == cache) recent_id = k_no_pool_id;
    }

    // Where the cache for a pool is kept; null: the pool is beyond the far caches' end.
    [[nodiscard]] thread_cache** entry(std::uint32_t pool_id) noexcept {
        if (pool_id < k_far_slot) return &near_caches[pool_id];
        bool const has = far_caches != nullptr && pool_id - k_far_slot < far_caches->count;
        return has ? &far_caches->caches()[pool_id - k_far_slot] : nullptr;
    }
    // `at`: what entry() gave.
    void set(thread_cache** at, thread_cache* cache) noexcept {
        *at = cache;
        if (at == &near_caches[k_default_pool_id])
            default_gate = cache != nullptr ? &cache->gate : &closed_gate;
    }
    // It has no cache of a closed pool, and was not stopped by a fork: the registry has nothing to do for it.
    [[nodiscard]] bool is_settled() const noexcept { return closed.empty() && far_gate.is_open(); }
    // They exist no more.
    void forget_caches() noexcept {
        for (thread_cache*& slot : near_caches)
            set(&slot, nullptr);
        recent_id = k_no_pool_id;
        recent = nullptr;
        far_caches = nullptr;
        owned = {};
        static_cast<void>(closed.take_all());
    }
    // Called where the inlined code ends.
    void use_own_gate() noexcept {
        if (default_gate == &g_closed_gate) default_gate = &closed_gate;
    }
    // While the thread uses no pool: the inlined code then finds no cache of the default pool.
    void close_default_gate() noexcept { default_gate = &closed_gate; }
    void open_default_gate() noexcept {
        set(&near_caches[k_default_pool_id], near_caches[k_default_pool_id]);
    }

    // The cache for a pool, or null.
    [[nodiscard]] thread_cache* find(std::uint32_t pool_id) noexcept {
        thread_cache** const at = entry(pool_id);
        return at != nullptr ? *at : nullptr;
    }
};
static_assert(std::is_trivially_destructible_v<thread_state>);

POOLED_HOT_THREAD_STATE(thread_state, t_state, {});

// Lets the owner enter the far gate if its cache is one in `far_caches`. No lock may be taken while this object exists.
class far_pass {
public:
    POOLED_ALWAYS_INLINE explicit far_pass(std::uint32_t pool_id) noexcept : m_is_far(pool_id >= k_far_slot) {
        m_is_in = !m_is_far || t_state().far_gate.enter();
    }
    POOLED_ALWAYS_INLINE ~far_pass() {
        if (m_is_far && m_is_in) t_state().far_gate.leave();
    }
    far_pass& operator=(far_pass&&) = delete;
    [[nodiscard]] explicit operator bool() const noexcept { return m_is_in; }

private:
    bool m_is_far;
    bool m_is_in;
};

POOLED_END_DETAIL
