// SPDX-License-Identifier: BSL-1.0
#pragma once

// All caches of one pool, and the central free lists that they use: which threads have a cache, and the operations on all of them.
//
//   thread_cache ─┐
//   thread_cache ─┼─ class c ─▶ central c ─▶ slab_heap
//   thread_cache ─┘
//
// Functions require the lock of the set unless noted; pool/memory.hpp has the order of all locks.
//
// Nobody waits under a lock for an owner inside its gate, who may be preempted there. Whoever can do without some caches calls stop(), and
// leaves those alone whose owners do not come out within microseconds. Whoever needs all of them calls stop_every(), which gives the lock
// up while it waits; gates stay stopped meanwhile, and an owner with a stopped gate uses its cache under the locks of the classes.
// Nor does a thread wait for the lock of a class whose holder was preempted: what it does then, inside its open gate, is deferred
// (cache/defer.hpp), and found by whoever has stopped all gates and takes the locks. Who needs those of all classes gives up that of the
// set, too, and leaves the gates open, while another thread has one and does not run.
// Invariant: what all caches hold of class c <= outside of central c.

#include "pooled/cache/bound_slots.hpp"
#include "pooled/cache/central.hpp"
#include "pooled/cache/class_cache.hpp"
#include "pooled/cache/gate.hpp"
#include "pooled/cache/handed_blocks.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <memory>

POOLED_BEGIN_DETAIL

// A forked child has only one of its parent's threads. The caches of the others are retired when a thread next uses the list of
// a pool's caches. Written only in the child, before any other thread runs there.
POOLED_STATE(atomic<thread_state const*>, g_fork_survivor, {nullptr});
POOLED_STATE(observed<std::uint32_t>, g_forks_survived, {});
// Retires and frees a cache. False: as cache_set::retire().
POOLED_STATE(atomic<bool (*)(thread_cache&) noexcept>, g_retire_dead, {nullptr});

class cache_set : public lockable<cache_set> {
public:
    // The last one is that of k_exact, of which no thread caches a block.
    static constexpr class_index k_lists = k_class_count + 1;

    cache_set(slab_heap& heap, std::uint32_t pool_id, bool is_shared) noexcept
        : lockable(!is_shared), m_pool{heap, pool_id, is_shared}, m_forks_survived(g_forks_survived) {
        for (class_index c = 0; c < k_lists; ++c)
            std::construct_at(&(*this)[c], m_pool, c);
    }
    ~cache_set() {
        for (class_index c = 0; c < k_lists; ++c)
            std::destroy_at(&(*this)[c]);
        if (handed_blocks* const handed = m_pool.find_handed(k_first_large))
            g_metadata.deallocate(handed, sizeof(*handed));
    }

    // Frees the lock, when all that other threads have left is settled. None leaves anything before it has waited for a moment, and none gets
    // a cache meanwhile.
    void unlock() noexcept {
        while (!m_mutex.try_unlock())
            settle();
    }

    // Without a lock.
    [[nodiscard]] central& operator[](class_index c) noexcept {
        return *std::launder(reinterpret_cast<central*>(m_central.data() + c * sizeof(central)));
    }

    // A block for the owner of `cache`, or for a thread without one (null), from its cache or the central free list. Null
    // when there is none, and the heap has no free slab. k_exact goes with no cache. Without a lock; O(blocks moved).
    [[nodiscard]] void* allocate(block_request const& what, thread_cache* cache) noexcept {
        class_index const c = what.c;
        central& list = (*this)[c];
        for (unsigned turn = 0; is_at_bound() || !list.try_lock_for_a_moment(); platform::pause(turn++)) {
            if (is_at_bound()) {
                void* const block = search_slots(what, cache);
                if (block == nullptr)
                    list.end_served();
                else if (cache != nullptr)
                    cache->classes[c].add_net_taken(1);
                return block;
            }
            bool is_stalled = false;
            void* const block = allocate_deferred(what, cache, is_stalled);
            if (block != nullptr || is_stalled) return block;
        }
        unlock_at_end const lock(list);
        if (cache == nullptr || c >= k_inlined_classes || is_at_bound()) {
            void* const block = list.allocate_one(what);
            if (block != nullptr && cache != nullptr) cache->classes[c].add_net_taken(1);
            return block;
        }
        class_cache& mine = cache->classes[c];
        if (void* const block = mine.pop()) return block;  // the owner was stopped
        cache->grow(c);
        return list.refill(mine);
    }

    // Leaves a large block that others allocated, or the older half of the owner's, to whoever needs one. False: the caller keeps it, as the
    // owner allocates such blocks itself, or as many as may be are on their way. Without a lock; O(blocks moved).
    [[nodiscard]] bool hand_over(class_index c, thread_cache& cache, void* block) noexcept;

    // A large block that another thread hands over, for the owner of a cache that has none; its array gets more. Null: there is none.
    [[nodiscard]] void* take_handed(class_index c, thread_cache& cache) noexcept;

    // Takes a block back. False when the pool is closed: the caller has to count it. Without a lock; O(blocks moved).
    [[nodiscard]] bool deallocate(class_index c, thread_cache* cache, void* block) noexcept {
        central& list = (*this)[c];
        if (is_at_bound() && cache != nullptr && put_at_bound(c, cache, block)) return true;
        for (unsigned turn = 0; !list.try_lock_for_a_moment(); platform::pause(turn++))
            if (deallocate_deferred(c, cache, block)) return true;
        unlock_at_end const lock(list);
        bool const is_closed = list.is_closed();
        class_cache* const mine = cache != nullptr && !is_closed ? &cache->classes[c] : nullptr;
        if (mine != nullptr && c >= k_first_large && mine->net_taken() < 0) {
            prepare_hand_over();
            list.adopt();  // as many as may be were on their way: now others may be
        }
        if (mine != nullptr && c < k_inlined_classes && !is_at_bound()) {
            // operator new and delete use the array alone: without one, each delete would come here.
            if (mine->capacity() == 0 && mine->held() == 0) cache->grow(c);
            if (mine->push(block)) return true;  // or the owner was stopped
            if (list.is_drained()) {
                list.collect(*mine);
                cache->free_array(c);
            } else if (!cache->fit(c)) {
                list.flush_half(*mine);
                cache->fit(c);
            }
            if (mine->push(block)) return true;
        }
        list.flush({&block, 1}, mine != nullptr && mine->net_taken() < 0);
        if (mine != nullptr) mine->add_net_taken(-1);
        return !is_closed;
    }

    // The bytes of blocks of a large class, or of k_exact, that were handed over and came to its list since the last call.
    [[nodiscard]] std::size_t end_handed(class_index c) noexcept {
        handed_blocks* const handed = m_pool.find_handed(c);
        return handed != nullptr ? handed->end_taken(c) * std::size_t{k_geometry[c].block_bytes} : 0;
    }

    // Bytes that large blocks left free, and did not take again; a hint.
    [[nodiscard]] std::int64_t freed() const noexcept { return m_freed.load(std::memory_order_relaxed); }
    // So many bytes more, or fewer, by the owner of `cache` (null: a thread without one), which adds to the sum only as much as it may cache
    // at once: two threads with blocks of up to 3 MB took 1.2 times as long when each call wrote to it.
    void note_freed(std::int64_t more, thread_cache* cache) noexcept {
        if (cache != nullptr) {
            more += std::exchange(cache->freed, 0);
            constexpr std::int64_t k_untold = thread_cache::k_most_bytes;
            if (more < k_untold && more > -k_untold) return static_cast<void>(cache->freed = more);
        }
        if (more >= 0) return static_cast<void>(m_freed.fetch_add(more, std::memory_order_relaxed));
        m_freed.store(detail::larger<std::int64_t>(freed() + more, 0), std::memory_order_relaxed);
    }

    // Returns blocks that the calling owner of `cache` did not need lately: each of a few blocks can keep a slab from other
    // classes; and the large blocks, one of which is a slab. Without a lock; O(classes + blocks moved).
    void flush_unused(thread_cache& cache) noexcept {
        for (class_index c = 0; c < k_inlined_classes; ++c) {
            if (cache.classes[c].least_held() == 0) continue;
            try_scoped_lock const lock((*this)[c]);
            if (!lock || (*this)[c].is_closed()) continue;
            (*this)[c].flush_unused(cache.classes[c]);
            if (cache.classes[c].size() == 0) cache.free_array(c);
        }
        if (cache.large_bytes == 0) return;
        try_scoped_lock const lock(*this);  // of those who steal: they count large_bytes, too
        for (class_index c = k_inlined_classes; lock && c < k_class_count; ++c)
            collect_held(cache, c);
    }

    void link(thread_cache& cache) noexcept {
        if (m_holds != 0) cache.gate.stop();
        m_all.push_front(cache);
        m_count.add(1);
    }
    void unlink(thread_cache& cache) noexcept {
        m_all.remove(cache);
        m_count.subtract(1);
    }
    [[nodiscard]] thread_cache* first() const noexcept { return m_all.first(); }

    template <class Visit>
    void for_each(Visit&& visit) noexcept {
        for (thread_cache& cache : m_all)
            visit(cache);
    }
    // The gates of all owners except the caller; a local pool's owner is the caller.
    template <class Visit>
    void for_each_other_gate(Visit&& visit) noexcept {
        for_each([&](thread_cache& cache) {
            if (is_others(cache)) visit(cache.gate);
        });
    }

    // From stop() to resume(), a cache for which may_use() is true is used by the caller alone. False: there are others. O(threads).
    bool stop() noexcept {
        gate_patience patience;
        m_outsiders.stop();
        bool const all =
            stop_all([this](auto&& visit) { for_each_other_gate(visit); }, platform::heavy_barrier,
                     [&patience](gate& one) { return patience.wait([&one] { return one.take(); }); });
        g_fork_gate.order();  // a child finds each cache as its owner left it, or stopped
        return patience.wait([this] { return m_outsiders.take(); }) && all;
    }
    [[nodiscard]] bool is_held() const noexcept { return m_holds != 0 || platform::is_barrier_refused(); }
    // Gates that are stopped from now on stay so.
    void hold() noexcept { ++m_holds; }
    // As stop(), until there are no others. Gives up the lock while it waits: caches may come and go, and so may all that it guards.
    void stop_every() noexcept {
        if (stop()) return;
        hold();
        for (unsigned attempt = 0; !stop(); ++attempt)
            wait_unlocked(attempt);
        --m_holds;
    }
    // Another thread may have the lock until this returns.
    void wait_unlocked(unsigned attempt) noexcept {
        unlock();
        platform::pause(attempt);
        lock();
    }
    // The caller's, or one whose owner was stopped outside.
    [[nodiscard]] static bool may_use(thread_cache const& cache) noexcept {
        return !is_others(cache) || cache.gate.is_taken();
    }
    template <class Visit>
    void for_each_stopped(Visit&& visit) noexcept {
        for (thread_cache& cache : m_all)
            if (may_use(cache)) visit(cache);
    }
    void resume() noexcept {
        g_fork_gate.order();
        if (m_holds == 0) m_outsiders.resume();
        if (is_held()) return;
        bool const is_fork = fork_gate::is_passed();  // within one, its stopped gates stay stopped
        for_each([is_fork](thread_cache& cache) {
            if (!is_fork || !cache.gate.is_stopped_for_fork()) cache.gate.resume();
        });
    }
    // For the owner of a cache that a fork has stopped. Takes the lock.
    void resume_after_fork(thread_cache& cache) noexcept {
        scoped_lock const lock(*this);
        if (!is_held() && !fork_gate::is_passed() && cache.gate.is_stopped_for_fork()) cache.gate.resume();
    }

    // Memory for sixteen more caches of threads with an array of the class, in all pools, so that they make no system call. Throws
    // std::bad_alloc.
    static void reserve_arrays(class_index c) {
        g_metadata.reserve(sizeof(thread_cache), k_reserved_threads);
        g_metadata.reserve(sizeof(handed_blocks), 1);
        for (std::size_t n = recent_blocks::k_least; n <= recent_blocks::k_most; n *= 2)
            g_metadata.reserve(n * sizeof(void*), 2);
        std::uint32_t const most = c < k_inlined_classes ? k_geometry[c].burst_blocks() : 0;
        for (std::uint32_t n = 0; n != most;)
            g_metadata.reserve((n = thread_cache::next_capacity(n, c, most)) * sizeof(void*),
                               k_reserved_threads);
    }

    [[nodiscard]] std::uint32_t count() const noexcept { return m_count; }

    // Moves cached blocks of a class to its central free list. False when that has none then: the caches of other threads held less than
    // `least` bytes, or those who hold more are preempted inside their gates. O(threads + blocks moved).
    bool steal(class_index c, std::size_t least) noexcept;
    // Calls `work()` while the caches are stopped and all classes locked, so that no block can move. False: `work()` says so, or another
    // thread has the lock of a class, and does not run.
    template <class Work>
    bool with_all(Work&& work) noexcept;
    // Does the same with every cache, until it succeeds. Gives up the lock while it waits, and leaves gates open while it waits for a class's.
    template <class Work>
    void with_every(Work&& work) noexcept {
        for (unsigned attempt = 0; stop_every(), !with_all(work); ++attempt)
            wait_unlocked(attempt);
    }
    // `work` calls it. Does what steal() does, for all classes, whose recent addresses go to their slabs.
    void collect_all() noexcept;
    // Does the same for one class after the other, but for those whose lock has a thread that does not run.
    void steal_each() noexcept;
    // Empties the caches whose owners took no slow path since the last call: they are idle, or need only what they hold.
    void steal_from_idle() noexcept;

    // At the bound, all free blocks are in the central lists and the slots. A local pool only empties its cache. Gives up the lock while it
    // waits for owners.
    void enter_bound() noexcept;
    // False: it is still at the bound, because a thread was preempted while it put a block into a slot.
    bool leave_bound() noexcept;
    // The blocks in the slots go to their slabs, which may become free, unless another thread has the lock of a class and does not run.
    // Without a lock.
    void try_drain_slots() noexcept {
        if (!is_at_bound() || !try_lock_classes()) return;
        drain_slots_locked();
        unlock_classes();
    }
    // A thread that waits for the lock of a class may have a block of it, from a slot.
    [[nodiscard]] bool are_slots_draining() const noexcept { return m_slots.is_draining(); }
    // Afterwards none puts a block into a slot, or takes one that was deferred, until end_bar(). False: some still are.
    [[nodiscard]] bool bar_slots() noexcept;
    void end_bar() noexcept;
    // Whether no thread is in while_at_bound() that has not seen what the caller did before.
    [[nodiscard]] bool are_all_outside() noexcept;
    // The threads' caches also hold the recycled objects of `list`, an extension which needs no memory to serve them: the pool is at its
    // bound only while a thread looks for memory. settle() calls settle_list(list).
    void add_recycled(void* list, void (*settle_list)(void*) noexcept) noexcept {
        m_recycled = list;
        m_settle_recycled = settle_list;
    }
    [[nodiscard]] bool has_recycled() const noexcept { return m_recycled != nullptr; }
    [[nodiscard]] bool is_at_bound() const noexcept { return m_pool.is_at_bound(); }
    [[nodiscard]] std::uint32_t bound_epoch() const noexcept { return m_pool.bound_epoch; }

    // Of a thread that ends, which has announced itself in the cache's gate, found that this is neither closed nor closing, and does not use
    // the cache any more: it retires it, or leaves that to the lock's holder, if this one does not run. Without a lock.
    void leave(thread_cache& cache) noexcept {
        as_outsider([&] {
            cache.gate.leave();
            try_scoped_lock const lock(*this, false);
            m_ended.push(cache);
            tell_holder();
        });
    }
    // Calls work() without a lock. The pool is not destroyed meanwhile, nor is are_all_outside() true.
    template <class Work>
    void as_outsider(Work&& work) noexcept {
        fork_pass const pass;
        m_outsiders.announce();
        work();
        m_outsiders.leave();
    }
    // Called as an outsider: something was left for the lock's holder, who settles it before it frees the lock; or the caller, if nobody has it.
    void tell_holder() noexcept {
        while (!m_mutex.tell_holder())
            if (try_lock()) return static_cast<void>(settle()), unlock();
    }
    // Does what is left for the lock's holder, also by threads that do not exist in this forked child. In the copy of the library that made
    // the set. False: there is no memory, and another thread has the lock of a class, and does not run.
    bool settle() noexcept { return m_settle(*this); }

    // The cache's owner has ended. False: there is no memory, and another thread has the lock of a class, and does not run.
    bool retire(thread_cache& cache) noexcept { return retire_classes(cache) && (unlink(cache), true); }
    // The first part of it. For the owner inside its open gate, or with the lock.
    bool retire_classes(thread_cache& cache) noexcept;

    // Of those who close the pool: afterwards, if are_all_outside(), no thread calls leave(), until it is set to false.
    void set_closing(bool is) noexcept {
        for_each([is](thread_cache& one) { one.gate.set_closing(is); });
    }
    // Afterwards, no owner enters its cache again, and each will free it. Requires that every owner is stopped and waits for that.
    void abandon_all() noexcept {
        for (thread_cache& cache : m_all) {
            unlink(cache);
            cache.core = nullptr;
            if (cache.owner != nullptr) cache.owner->closed.push(cache);
            cache.gate.close();
        }
    }

    // Require stopped caches and the lock of the class.
    void collect(class_index c) noexcept {
        for_each_stopped([&](thread_cache& cache) {
            if (cache.classes[c].held() != 0) collect(cache, c);
        });
    }
    void collect(thread_cache& cache, class_index c) noexcept {
        if (c >= k_inlined_classes) cache.large_bytes.subtract(k_geometry[c].block_bytes);
        (*this)[c].collect(cache.classes[c]);
    }

    // The recent addresses of all classes go to their slabs, which can keep them from other classes, and so do those that were deferred
    // when the lock's last holder had already looked. Without a lock; O(classes + addresses).
    void drain_recent() noexcept {
        for (class_index c = 0; c < k_lists; ++c) {
            central const& list = (*this)[c];
            if (!list.has_recent() && !list.has_deferred() && list.handed() == 0) continue;
            try_scoped_lock const lock((*this)[c]);
            if (!lock) continue;
            (*this)[c].adopt();
            (*this)[c].drain_recent();
        }
    }

    // The size of all large blocks whose addresses are recent. Needs no lock; O(classes).
    [[nodiscard]] std::size_t recent_bytes() noexcept {
        std::size_t bytes = 0;
        for (class_index c = k_first_large; c < k_class_count; ++c)
            bytes += (*this)[c].recent_bytes();
        return bytes;
    }

    // All of them, or none: another thread has one, and does not run.
    [[nodiscard]] bool try_lock_classes() noexcept {
        for (class_index c = 0; c < k_lists; ++c)
            if (!try_lock_class(c)) return unlock_classes(c), false;
        return true;
    }
    void unlock_classes(class_index end = k_lists) noexcept {
        while (end-- != 0)
            (*this)[end].unlock();
    }

private:
    friend record_access;
    friend lockable;
    // Nothing else is left when the lock is free.
    void on_lock() noexcept {
        if (!m_ended.empty() || m_forks_survived != g_forks_survived) settle();
    }
    bool settle_own() noexcept {
        auto const retire_ended = [this](thread_cache& cache) {
            if (g_retire_dead.load(std::memory_order_relaxed)(cache)) return;
            cache.owner = ended(cache);
            m_ended.push(cache);
        };
        decltype(m_ended)::for_each(m_ended.take_all(), retire_ended);
        if (m_forks_survived != g_forks_survived) {
            m_forks_survived = g_forks_survived;
            thread_state const* const survivor = g_fork_survivor.load(std::memory_order_relaxed);
            for (thread_cache& cache : m_all)
                if (cache.owner != nullptr && cache.owner != survivor && cache.owner != ended(cache))
                    retire_ended(cache);
            m_holds = is_at_bound() ? 1 : 0;  // threads in stop_every() do not exist, either
            m_are_slots_barred.store(false, std::memory_order_relaxed);
            resume();
        }
        if (m_settle_recycled != nullptr) m_settle_recycled(m_recycled);
        return m_ended.empty();
    }
    // The owner of a cache that was not retired at once: a new thread may have the thread_state of the old one.
    [[nodiscard]] static thread_state* ended(thread_cache& cache) noexcept {
        return reinterpret_cast<thread_state*>(&cache);
    }
    [[nodiscard]] static bool is_others(thread_cache const& cache) noexcept {
        return cache.owner != nullptr && cache.owner != &t_state();
    }

    [[nodiscard]] bool try_lock_class(class_index c) noexcept {
        if (!(*this)[c].try_lock_for_a_moment()) return false;
        (*this)[c].adopt();
        return true;
    }

    // Calls work(array of class `c`) inside the gate of the caller, who may have no cache (null): nobody steals, closes the pool or brings it
    // to its bound meanwhile. False: the gate is stopped, and whoever stopped it may have the lock of the class.
    template <class Work>
    [[nodiscard]] bool inside_gate(thread_cache* cache, class_index c, Work&& work) noexcept;
    // `is_stalled`: another thread has the lock of the class, and the heap has no free slab.
    [[nodiscard]] void* allocate_deferred(block_request const& what, thread_cache* cache,
                                          bool& is_stalled) noexcept;
    // If there is no memory for it, nothing changes.
    void prepare_hand_over() noexcept;
    // False: the caller keeps the block.
    [[nodiscard]] bool deallocate_deferred(class_index c, thread_cache* cache, void* block) noexcept;

    // Requires a stopped cache, or the caller's.
    void collect_held(thread_cache& cache, class_index c) noexcept {
        if (cache.classes[c].held() == 0) return;
        try_scoped_lock const lock((*this)[c]);
        if (lock) collect(cache, c);
    }

    static constexpr std::size_t k_reserved_threads = 16;
    static constexpr std::uint32_t k_counted = 64;
    static constexpr unsigned k_searches = 8;

    // A block from a slot, else of the central list, or one that was deferred. Null: at one moment that had none, nor the heap, and the
    // slots were empty; or the pool is at its bound no more. Blocks of other classes in the slots, whose slabs it might use, go to these slabs.
    [[nodiscard]] void* search_slots(block_request const& what, thread_cache* cache) noexcept;
    // What has no slot. False: `block` is null because another thread has the lock of the class, and does not run.
    [[nodiscard]] bool search_list(block_request const& what, thread_cache* cache, void*& block) noexcept;
    // Calls work(may use the slots), if the pool is at its bound, and destroyed only afterwards.
    template <class Work>
    void while_at_bound(thread_cache* cache, Work&& work) noexcept;
    // Before it is reported that no block is free. False: a thread that does not run has the lock of a class, of which others may have
    // deferred a block.
    bool drain_slots() noexcept;
    // Requires the locks of all classes.
    void drain_slots_locked() noexcept {
        m_slots.drain([this](class_index c, void* block) { (*this)[c].flush({&block, 1}); });
    }
    // Called at the bound, or in drain(). False: there is no memory.
    [[nodiscard]] bool defer_at_bound(class_index c, void* block) noexcept;
    // `is_locked`: another thread has the lock of the class, and does not run. False: the caller keeps the block.
    [[nodiscard]] bool put_at_bound(class_index c, thread_cache* cache, void* block,
                                    bool is_locked = false) noexcept;

    central::context m_pool;
    bool (*const m_settle)(cache_set&) noexcept = [](cache_set& one) noexcept { return one.settle_own(); };
    std::uint32_t m_forks_survived;
    std::uint32_t m_holds = 0;  // gates stay stopped: one at the bound, one for each thread in stop_every()
    void* m_recycled = nullptr;
    void (*m_settle_recycled)(void*) noexcept = nullptr;
    bound_slots m_slots;  // empty unless at the bound
    std_atomics::atomic<bool> m_are_slots_barred{false};
    std_atomics::atomic<std::int64_t> m_freed{0};  // never negative
    observed<std::uint32_t> m_count;               // of caches
    intrusive_list<thread_cache, std_atomics::plain<thread_cache*>> m_all;
    // Whose owners have ended; they are in m_all, too.
    push_list<thread_cache, thread_cache::next_of> m_ended;
    shared_gate m_outsiders;  // threads without a cache
    // It is no array of central: compilers inline its constructor once for each class, 139 s of GCC 12 under a sanitizer.
    alignas(central) std::array<std::byte, k_lists * sizeof(central)> m_central;
};

POOLED_END_DETAIL
