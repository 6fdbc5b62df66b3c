// SPDX-License-Identifier: BSL-1.0
#pragma once

// The objects of one object_pool, as slots: which are idle and where, how many more there may be, and who waits for one.
// What T is, and how it is built, is the recycler's business.
//
//   thread_cache::recycled ◀─ magazines ─▶ m_used: idle, have been out       m_fresh: idle, have never been out
//
// The stock is in one of two modes. *Spread*: every thread keeps idle objects in its cache, behind its gate, and takes no
// lock. *Gathered*: all gates are held shut and all idle objects are in m_used, so that under the lock it is known that
// there is no other; each release goes to the first who waits. Whoever finds m_used empty gathers, before a fresh object is
// taken, one is built, or anyone is told "exhausted" or waits: none is stranded in a cache, and no more are built than were
// in use at once. Gathering costs a system call when there are other threads, so the stock stays gathered until there was
// enough for k_calm acquisitions.
//
// Invariants: m_objects = m_used.capacity + fresh + being built <= bound
//             in use = m_used.outside − Σ held of the caches
//             someone waits ⇒ gathered, nothing idle, m_objects == bound
// Locks: the core's, then m_used.mutex. Any thread may call; user code and upstream are never called under a lock. O(1),
// gather() and take_idle() aside.

#include "pooled/base/size_class.hpp"
#include "pooled/cache/central.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/object/options.hpp"
#include "pooled/object/slot.hpp"
#include "pooled/object/wait_line.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/core_lifetime.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/process.hpp"
#include "pooled/pool/registry.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>

namespace pooled::detail {

struct object_counts {
    std::size_t capacity = 0;
    std::size_t idle = 0;
    std::size_t high_water = 0;
    std::size_t waiting = 0;
};

class object_stock : public pool_extension {
public:
    // Places for initial_objects are set aside.
    object_stock(pool_core& core, object_pool_options const& options) noexcept;

    [[nodiscard]] pool_core& core() const noexcept { return m_core; }
    [[nodiscard]] std::size_t bound() const noexcept { return m_bound; }
    [[nodiscard]] std::uint32_t generation() const noexcept {
        return m_generation.load(std::memory_order_relaxed);
    }

    // An idle object that this thread has cached, or null.
    template <sharing Sharing>
    [[nodiscard]] slot* pop_cached() noexcept;
    // False when there is no way into the cache, or the object is not to be recycled; it is then still the caller's.
    template <sharing Sharing>
    [[nodiscard]] bool push_cached(slot& s) noexcept;

    // When the cache gave nothing. Nothing: the bound is reached, and at one moment no object was idle anywhere.
    [[nodiscard]] grant take();
    // The same, but waits as long as `patience` says.
    template <class Patience>
    [[nodiscard]] grant wait(Patience const& patience);
    // When the cache took nothing. False: the object is not to be recycled. Otherwise the stock may be gone.
    [[nodiscard]] bool put_back(slot& s) noexcept;

    // A slot whose object was just built: the caller will hand it out.
    void admit_used(slot& s) noexcept;
    // The same; it goes to the first who waits, or is idle.
    void admit_fresh(slot& s) noexcept;
    enum class was : bool { never_admitted, used };
    // An object that was out, or was to be built, is no more; the first who waits may build one instead. True when the
    // pool's handle is gone and this was the last: the caller then destroys the stock.
    [[nodiscard]] bool dismiss(was what) noexcept;

    // All that is idle, wherever it lies, chained, and no longer counted as anything but built. `outdate`: what is out is
    // not to be recycled when it comes home.
    enum class those_out : bool { keep, outdate };
    [[nodiscard]] slot* take_idle(those_out what) noexcept;
    // The same, for the end: the gates stay shut.
    [[nodiscard]] slot* close() noexcept;
    // The handle is gone, after close(). True when nothing is out.
    [[nodiscard]] bool abandon() noexcept;

    [[nodiscard]] object_counts count() noexcept;
    [[nodiscard]] bool is_valid() noexcept;

    void on_retire(thread_cache& cache) noexcept override;
    void lock() noexcept override { m_used.mutex.lock(); }
    void unlock() noexcept override { m_used.mutex.unlock(); }
    void after_fork_in_child() noexcept override;

protected:
    ~object_stock() = default;

private:
    // Acquisitions without want after which the stock is spread again: at some 15 ns more than from a cache they cost what a
    // barrier on all threads costs, 1 to 20 µs, so neither mode can be the wrong one for long.
    static constexpr std::uint32_t k_calm = 1024;

    [[nodiscard]] slot* pop_from(thread_cache* cache) noexcept;
    [[nodiscard]] slot* pop_cold(thread_cache& cache) noexcept;
    [[nodiscard]] bool push_to(thread_cache* cache, slot& s) noexcept;
    [[nodiscard]] bool push_cold(thread_cache& cache, slot& s) noexcept;

    [[nodiscard]] thread_cache* own_cache() noexcept;
    void gather() noexcept;
    void spread() noexcept;
    void collect_caches() noexcept;
    [[nodiscard]] slot* take_idle_gathered() noexcept;
    void outdate() noexcept;

    // Under the lock.
    [[nodiscard]] grant take_locked(thread_cache* cache) noexcept;
    [[nodiscard]] bool is_cached(thread_cache* cache) const noexcept {
        return cache != nullptr && (!m_is_gathered || m_core.is_local());
    }

    pool_core& m_core;
    std::uint32_t m_near;  // where a thread has its cache
    std::atomic<std::uint32_t> m_generation{k_no_object + 1};
    class_geometry m_geometry;  // of the magazines of idle slots
    std::size_t m_bound;
    std::size_t m_growth;

    bool m_is_gathered = false;  // written under both locks
    bool m_is_abandoned = false;
    std::uint32_t m_calm = 0;
    slot* m_fresh = nullptr;
    std::size_t m_fresh_count = 0;
    std::size_t m_objects = 0;
    wait_line m_line;
    central m_used;  // its mutex is the stock's
};

}  // namespace pooled::detail
