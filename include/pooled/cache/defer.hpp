// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a thread does without the lock of a class. It hands over large blocks that others allocated (handed_blocks.hpp). And when another
// thread has the lock, and perhaps does not run, it does not wait: it takes what others deferred or a slab of its own, and leaves what it
// frees to whoever has the lock next (deferred_blocks.hpp).
//
// The owner of a cache calls these, and a thread without one, for which an empty array stands. O(blocks moved).

#include "pooled/cache/cache_set.hpp"

POOLED_BEGIN_DETAIL

inline std::uint32_t central::handed() const noexcept {
    handed_blocks const* const all = m_pool.find_handed(m_class);
    return all != nullptr ? all->count(m_class) : 0;
}
inline void central::adopt() noexcept {
    handed_blocks* const all = m_pool.find_handed(m_class);
    if (all == nullptr) return;
    std::array<void*, std::size_t{handed_blocks::k_batches} * handed_blocks::k_most_blocks> blocks;
    flush({blocks.data(), all->take_all(m_class, blocks.data())}, true);
}

POOLED_NOINLINE inline void central::settle_deferred() noexcept {
    deferred_blocks* const all = deferred().take_all();
    note_large();
    deferred_list::for_each(all, [this](deferred_blocks& one) {
        flush({one.blocks(), one.count});
        one.free();
    });
}

inline bool central::defer_half(class_cache& cache, void* block) noexcept {
    auto const half = static_cast<std::uint32_t>(
        cache.oldest(detail::smaller(cache.capacity(), k_max_cached_blocks) / 2).size());
    deferred_blocks* const batch = deferred_blocks::make(half + 1);
    if (batch == nullptr) return false;
    batch->count = cache.drop_oldest(half, batch->blocks());
    batch->put(block);
    cache.add_net_taken(-std::int64_t{batch->count});
    cache.begin_interval();
    deferred().push(*batch);
    return true;
}

inline bool central::defer_all(class_cache& cache) noexcept {
    deferred_blocks* const batch = deferred_blocks::make(cache.size() + 1);
    if (batch == nullptr) return false;
    m_retired_remote_frees.fetch_add(cache.net_frees(), std::memory_order_relaxed);
    batch->count = cache.drop_oldest(cache.size(), batch->blocks());
    if (void* const hot = cache.pop_hot()) batch->put(hot);
    cache.add_net_taken(-cache.net_taken());
    cache.release();
    batch->count != 0 ? deferred().push(*batch) : batch->free();
    return true;
}

inline void* central::refill_deferred(class_cache& cache, block_request const& what) noexcept {
    // Each block of k_exact has its own size.
    deferred_blocks* mine = what.c != k_exact ? deferred().take_all() : nullptr;
    if (mine == nullptr) mine = defer_slab(what);
    if (mine == nullptr) return nullptr;
    std::uint32_t const most = detail::larger<std::uint32_t>(cache.capacity() / 2, 1);
    std::uint32_t const taken = detail::smaller(mine->count, most);
    mine->count -= taken;
    void** const from = mine->blocks() + mine->count;
    void* block = *from;
    if (cache.capacity() != 0) {
        detail::copy_n(from, taken, cache.fill(taken));
        block = cache.pop_array();
    }
    cache.add_net_taken(taken);
    cache.begin_interval();
    deferred().put_back(mine);
    return block;
}

inline deferred_blocks* central::defer_slab(block_request const& what) noexcept {
    // The slab has no free block, so the lock's holder leaves it alone.
    slab* const s = m_pool.heap.allocate(what, false, false, slab_units());  // what has_free_slab() finds
    if (s == nullptr) return nullptr;
    deferred_blocks* const batch = deferred_blocks::make(s->total);
    if (batch == nullptr) return m_pool.heap.deallocate(*s), nullptr;
    batch->count = s->total;
    // Before any other thread can have one of the blocks, and free it.
    m_added_blocks.fetch_add(s->total, std::memory_order_relaxed);
    m_added_units.fetch_add(units_of(*s), std::memory_order_relaxed);
    s->take(s->total, batch->blocks() + s->total);
    return batch;
}

template <class Work>
bool cache_set::inside_gate(thread_cache* cache, class_index c, Work&& work) noexcept {
    fork_pass const pass;
    bool const is_in = cache != nullptr ? cache->gate.enter() : m_outsiders.enter();
    class_cache none;
    if (is_in) {
        if (cache != nullptr && c < k_inlined_classes && cache->classes[c].capacity() == 0) cache->grow(c);
        work(cache != nullptr ? cache->classes[c] : none);
        cache != nullptr ? cache->gate.leave() : m_outsiders.leave();
    }
    return is_in;
}

POOLED_NOINLINE inline void* cache_set::allocate_deferred(block_request const& what, thread_cache* cache,
                                                          bool& is_stalled) noexcept {
    void* block = nullptr;
    is_stalled = inside_gate(cache, what.c, [&](class_cache& mine) {
        if (cache != nullptr) block = cache->pop(what.c);
        if (block == nullptr) block = (*this)[what.c].refill_deferred(mine, what);
    });
    return block;
}

// How many large blocks change threads at once: half of an array, but two at least (256 KiB: 171 ns one at a time, 102; Xeon).
[[nodiscard]] inline std::uint32_t handed_at_once(class_cache const& cache) noexcept {
    return cache.capacity() != 0 ? detail::larger<std::uint32_t>(cache.capacity() / 2, 2) : 1;
}

inline bool cache_set::hand_over(class_index c, thread_cache& cache, void* block) noexcept {
    handed_blocks* const handed = m_pool.find_handed(c);
    if (handed == nullptr || cache.classes[c].net_taken() >= 0) return false;
    bool is_taken = false;
    static_cast<void>(inside_gate(&cache, c, [&](class_cache& mine) {
        if ((*this)[c].is_closed()) return;  // as in deallocate_deferred()
        if (c >= k_inlined_classes) {
            is_taken = handed->push(c, {&block, 1}) != 0;
            if (is_taken) mine.add_net_taken(-1);
            return;
        }
        std::uint32_t const count = handed->push(c, mine.oldest(handed_at_once(mine)));
        mine.add_net_taken(-std::int64_t{mine.drop_oldest(count)});
        is_taken = mine.push(block);
    }));
    return is_taken;
}
inline void* cache_set::take_handed(class_index c, thread_cache& cache) noexcept {
    handed_blocks* const handed = m_pool.find_handed(c);
    if (handed == nullptr) return nullptr;
    void* block = nullptr;
    static_cast<void>(inside_gate(&cache, c, [&](class_cache& mine) {
        if (block = cache.pop(c); block != nullptr) return;  // the gate was stopped
        std::array<void*, handed_blocks::k_most_blocks> blocks;
        std::uint32_t const taken = handed->take(c, handed_at_once(mine), blocks.data());
        if (taken == 0) return;
        block = blocks[taken - 1];
        if (taken > 1) detail::copy_n(blocks.data(), taken - 1, mine.fill(taken - 1));
        mine.add_net_taken(taken);
        mine.begin_interval();
    }));
    return block;
}
inline void cache_set::prepare_hand_over() noexcept {
    if (m_pool.handed.load(std::memory_order_relaxed) != nullptr || !m_pool.is_shared) return;
    void* const memory = g_metadata.try_allocate(sizeof(handed_blocks));
    if (memory == nullptr) return;
    auto* const made = ::new (memory) handed_blocks;
    // release: pairs with the acquire in find_handed().
    handed_blocks* none = nullptr;
    if (!m_pool.handed.compare_exchange_strong(none, made, std::memory_order_release))
        g_metadata.deallocate(made, sizeof(*made));
}

POOLED_NOINLINE inline bool cache_set::deallocate_deferred(class_index c, thread_cache* cache,
                                                           void* block) noexcept {
    bool is_taken = false;
    static_cast<void>(inside_gate(cache, c, [&](class_cache& mine) {
        if ((*this)[c].is_closed()) return;  // in a forked child, which has resumed the gates
        central& list = (*this)[c];
        is_taken =
            cache == nullptr ? list.defer_one(block) : cache->push(c, block) || list.defer_half(mine, block);
    }));
    if (is_taken || !is_at_bound()) return is_taken;
    fork_pass const pass;
    return put_at_bound(c, cache, block, true);
}

inline bool cache_set::retire_classes(thread_cache& cache) noexcept {
    for (class_index c = 0; c < k_class_count; ++c) {
        class_cache& one = cache.classes[c];
        if (one.capacity() == 0 && one.held() == 0 && one.net_taken() == 0) continue;
        central& list = (*this)[c];
        try_scoped_lock const lock(list, false);
        if (lock)
            list.retire(one);
        else if (!list.defer_all(one))
            return false;
    }
    note_freed(std::exchange(cache.freed, 0), nullptr);
    return true;
}

POOLED_END_DETAIL
