// SPDX-License-Identifier: BSL-1.0
#pragma once

// The central stock of one size class: the depot of free magazines, the slabs that still have fresh blocks, and the
// books. Threads come here once a magazine.
//
// Invariants: carved = outside + depot.size      outside: blocks in threads' caches or with callers
//             capacity = carved + fresh          fresh: blocks of its slabs that were never carved
//             in use = outside − Σ held of the caches
// Everything but the counters requires `mutex`. O(1) besides collect() and reclaim().

#include "pooled/base/atomics.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/cache/class_cache.hpp"
#include "pooled/cache/depot.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk.hpp"
#include "pooled/os/mutex.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pooled::detail {

// A lock that a pool of one thread does not take.
class pool_mutex {
public:
    explicit pool_mutex(bool shared) noexcept : m_shared(shared) {}
    void lock() noexcept {
        if (m_shared) m_mutex.lock();
    }
    [[nodiscard]] bool try_lock() noexcept { return !m_shared || m_mutex.try_lock(); }
    void unlock() noexcept {
        if (m_shared) m_mutex.unlock();
    }

private:
    detail::mutex m_mutex;
    bool m_shared;
};

class alignas(k_cache_line) central {
public:
    explicit central(bool shared) noexcept : mutex(shared) {}

    pool_mutex mutex;
    bool is_closed = false;  // the pool was destroyed: blocks that come home are counted off
    std::uint64_t reserved =
        0;  // blocks that other classes leave alone, and that are looked for in the caches first

    // A block for the thread that has `cache`, which is refilled with a magazine if it must be; null when there is no
    // free block here.
    [[nodiscard]] void* pop(class_cache& cache, class_geometry g) noexcept {
        if (void* const block = cache.pop(g)) return block;
        if (std::uint32_t const before = m_depot.refill(cache.m_loaded, g) ? cache.m_loaded.size(g) : 0;
            before != 0) {
            took(cache, before);
            m_exchanges.add(1);
        } else if (m_open != nullptr) {
            slab& s = *m_open;
            std::uint32_t const count = std::min(g.magazine_blocks(), s.fresh());
            cache.m_run = carve(s, count, g);
            cache.m_run_left = count;
            cache.m_run_slab = &s;
            took(cache, count);
        }
        return cache.pop(g);
    }

    // Requires that both magazines of `cache` are full.
    void push(void* block, class_cache& cache, class_geometry g) noexcept {
        if (cache.push(block, g)) return;  // a raid emptied it meanwhile
        m_depot.put_full(cache.m_spare);
        gave(cache, g.magazine_blocks());
        m_exchanges.add(1);
        if (uncarve_run(cache, g)) cache.m_run_left = 0;  // the magazine is to be used up before fresh blocks
        cache.m_spare = cache.m_loaded.take_full();
        cache.m_loaded.push_carrier(block, g);
    }

    // For callers without a cache, or past it.
    [[nodiscard]] void* pop_one(class_cache* cache, class_geometry g) noexcept {
        void* block = m_depot.take(g);
        if (block == nullptr && m_open != nullptr) block = carve(*m_open, 1, g);
        if (block == nullptr) return nullptr;
        m_outside.add(1);
        if (cache != nullptr) cache->m_net_taken.add(1);
        return block;
    }
    void push_one(void* block, class_geometry g) noexcept {
        m_depot.put(block, g);
        m_outside.subtract(1);
    }

    // Takes everything out of a cache whose owner ended, or is kept out by its gate.
    void collect(class_cache& cache, class_geometry g) noexcept {
        note_high_water(cache.m_run_left);
        if (uncarve_run(cache, g)) cache.m_run_left = 0;
        gave(cache, cache.held(g));
        if (cache.m_hot != nullptr) m_depot.put(cache.m_hot, g);
        cache.m_hot = nullptr;
        m_depot.put_all(cache.m_loaded, g);
        if (cache.m_spare != nullptr) m_depot.put_full(cache.m_spare);
        cache.m_spare = nullptr;
        std::byte* const run = cache.m_run;
        for (std::uint32_t i = 0; i < cache.m_run_left; ++i)
            m_depot.put(run + std::size_t{i} * g.block_bytes, g);
        cache.m_run_left = 0;
    }

    // The cache's owner ended: what it freed for others stays counted.
    void retire(class_cache& cache, class_geometry g) noexcept {
        m_retired_remote_frees.add(cache.net_frees(g));
        collect(cache, g);
        cache.m_net_taken = 0;
    }

    // A block that lies in none of the slabs is one of the class from here on, and in a caller's hands; and no longer.
    void adopt() noexcept {
        m_capacity.add(1);
        m_carved.add(1);
        m_outside.add(1);
        note_high_water(0);
    }
    void disown() noexcept {
        m_capacity.subtract(1);
        m_carved.subtract(1);
        m_outside.subtract(1);
    }

    void add_slab(slab& s, class_geometry g) noexcept {
        s.total = static_cast<std::uint32_t>(s.bytes / g.block_bytes);
        s.carved = 0;
        s.next = m_slabs;
        m_slabs = &s;
        m_capacity.add(s.total);
        m_slab_bytes.add(s.bytes);
        open(s);
    }

    // Takes slabs none of whose blocks is outside from the class, as long as `keep` blocks remain, and calls release(slab)
    // for each. O(free blocks): for trim, and for a bounded pool at its limit. Requires that the caches were collected if
    // theirs should count.
    template <class Release>
    void reclaim(class_geometry g, std::uint64_t keep, Release&& release) noexcept;

    [[nodiscard]] bool has_free() const noexcept { return !m_depot.empty() || m_open != nullptr; }
    [[nodiscard]] std::uint64_t free(class_geometry g) const noexcept { return m_depot.size(g) + fresh(); }
    [[nodiscard]] std::uint64_t fresh() const noexcept { return m_capacity - m_carved; }
    [[nodiscard]] std::uint64_t outside() const noexcept { return m_outside; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return m_capacity; }
    [[nodiscard]] std::uint64_t slab_bytes() const noexcept { return m_slab_bytes; }
    [[nodiscard]] std::uint64_t exchanges() const noexcept { return m_exchanges; }
    [[nodiscard]] std::uint64_t retired_remote_frees() const noexcept { return m_retired_remote_frees; }

    // A thread takes fresh blocks only when it finds no other, so the blocks ever used are the most used at once, exactly
    // with one thread. `run_left`: blocks carved into runs but still fresh.
    std::uint64_t note_high_water(std::uint64_t run_left) noexcept {
        m_high_water =
            std::max<std::uint64_t>(m_high_water, m_carved - std::min<std::uint64_t>(m_carved, run_left));
        return m_high_water;
    }

    [[nodiscard]] bool is_valid(class_geometry g) const noexcept {
        return m_depot.is_valid(g) && m_carved == m_outside + m_depot.size(g) && m_carved <= m_capacity;
    }

private:
    void took(class_cache& cache, std::uint64_t count) noexcept {
        m_outside.add(count);
        cache.m_net_taken.add(static_cast<std::int64_t>(count));
    }
    void gave(class_cache& cache, std::uint64_t count) noexcept {
        m_outside.subtract(count);
        cache.m_net_taken.subtract(static_cast<std::int64_t>(count));
    }

    void open(slab& s) noexcept {
        s.is_open = true;
        s.next_open = m_open;
        m_open = &s;
    }

    // `count` fresh blocks of the first open slab, which is closed when they were its last.
    std::byte* carve(slab& s, std::uint32_t count, class_geometry g) noexcept {
        std::byte* const first = s.base + std::size_t{s.carved} * g.block_bytes;
        s.carved += count;
        m_carved.add(count);
        if (s.fresh() == 0) {
            m_open = s.next_open;
            s.is_open = false;
        }
        return first;
    }

    // The rest of a run is fresh again if nothing was carved behind it; the caller then empties the run.
    [[nodiscard]] bool uncarve_run(class_cache& cache, class_geometry g) noexcept {
        std::uint32_t const left = cache.m_run_left;
        if (left == 0) return false;
        slab& s = *cache.m_run_slab;
        if (cache.m_run + std::size_t{left} * g.block_bytes != s.base + std::size_t{s.carved} * g.block_bytes)
            return false;
        s.carved -= left;
        m_carved.subtract(left);
        gave(cache, left);
        if (!s.is_open) open(s);
        return true;
    }

    depot m_depot;
    slab* m_open = nullptr;
    slab* m_slabs = nullptr;
    observed<std::uint64_t> m_outside;
    observed<std::uint64_t> m_carved;
    observed<std::uint64_t> m_capacity;
    observed<std::uint64_t> m_slab_bytes;
    observed<std::uint64_t> m_high_water;
    observed<std::uint64_t> m_exchanges;
    observed<std::uint64_t> m_retired_remote_frees;
};

}  // namespace pooled::detail
