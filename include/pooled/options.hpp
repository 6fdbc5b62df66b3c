// SPDX-License-Identifier: BSL-1.0
#pragma once

// The options of a pool and of an object_pool. Aggregates for designated initialisers: {.name = "packets"}.

#include "pooled/config.hpp"

#include <memory_resource>
#include <string_view>

// These headers bring std::chrono's durations and clocks without its calendar: 5,000 lines less than <chrono>, 27,000 with libc++.
#if defined(_LIBCPP_VERSION)
#include <semaphore>
#else
#include <shared_mutex>  // that of libstdc++ is included by <memory_resource>
#endif

POOLED_BEGIN_NAMESPACE

// When objects that lost their last owner are destroyed, if their destructor is not trivial: docs/teardown.md.
enum class teardown : unsigned char {
    // Objects are destroyed at once, in the order of the standard's pointers. Only when the stack is nearly used up is the rest deferred, to the
    // outermost drop; all of it is destroyed before that returns.
    immediate,
    // Objects are destroyed before the outermost drop returns; the order among those that it alone kept alive is unspecified.
    unordered,
    // The drop only defers. Each later allocation of that thread from the pool destroys up to four deferred objects; a thread
    // that only drops destroys some at each drop, once more than 1,024 are deferred. The others are destroyed by drain(), when
    // the thread ends (but for a local_pool), when the pool is exhausted, and before the pool is destroyed, on whichever thread
    // does that. So a destructor must not take a lock that is held around an allocation.
    incremental,
};

// Called when a pool finds no memory for an allocation, which is then tried once more: before `exhausted` is thrown, or a try_
// form returns empty, at the bound as well as when upstream fails. It runs on the thread that allocates and under no lock of
// the library. It may free objects, also of this pool, and call live_report() or stats(). It is not called again for its own
// allocations. reserve() does not call it.
struct exhaustion_hook {
    void (*call)(std::size_t bytes, void* context) noexcept = nullptr;  // bytes: minimum size of the block
    void* context = nullptr;
};

struct pool_options {
    // Shown in statistics and errors; cut to 47 characters.
    std::string_view name = "pool";

    // A hard bound on the bytes taken from upstream; 0: none. Memory comes in slabs of one size class (most have 64 KiB, or
    // 16 KiB when the bound is under 4 MiB), so add one slab for each size in use. The library's own records (some
    // 24 KiB, 9 KiB for each thread, 0.1 % of the memory) are not counted.
    std::size_t max_bytes = 0;

    // How much is requested from upstream at a time: rounded up to 16 KiB or to what a slab needs, reduced to what max_bytes still
    // allows. 0: 2 MiB, or a sixteenth of max_bytes if that is less; an unbounded pool begins with 64 KiB and doubles.
    std::size_t chunk_bytes = 0;

    // Asks the system for huge pages, as far as they are worth their price (docs/mechanisms.md), but not for blocks of up to 32 KiB while the
    // pool has less than 4 MiB, or 1 if it fills quickly, nor for longer ones of up to 2 MiB until their memory is resident. Without effect
    // with an upstream, or with chunks under 2 MiB.
    bool huge_pages = true;

    // Where chunks come from; null: pages of the operating system. Called by any thread that needs memory, by several at the
    // same time, under no lock: it may use this pool. Alignments are 16 KiB. Must outlive the pool and every block of it.
    std::pmr::memory_resource* upstream = nullptr;

    pooled::teardown teardown = pooled::teardown::immediate;

    // Memory that was unused for this long is returned: blocks in idle threads' caches to the pool, pages of free memory to the system; after
    // sixteen times as long empty chunks to upstream, and the free pages of a huge page half in use. The pool checks this in calls that are
    // slow anyway (a thread's cache is empty or full), so a pool that no thread uses keeps its memory until trim(), as does a pool with a
    // reservation. Zero or less: never.
    std::chrono::milliseconds release_unused_after{250};

    // reserve() makes the pages resident, so that the first use of a block causes no page fault. Only without an upstream.
    bool touch_reserved = false;

    exhaustion_hook on_exhausted = {};
};

//   growing   {}                                           as many objects as are in use at once
//   bounded   {.max_objects = 64}                          built when needed, never more than 64 alive
//   fixed     {.initial_objects = 64, .growth = 0}         built with the pool, never more
//   doubling  {.growth_factor = 2}                         few and large steps, as a std::vector grows
struct object_pool_options {
    // Shown in errors; cut to 47 characters.
    std::string_view name = "object_pool";

    // Objects built with the pool.
    std::size_t initial_objects = 0;

    // How many are built when one is needed and none is idle: one for the caller, the others idle. 0: never more than
    // initial_objects.
    std::size_t growth = 1;

    // Hard bound on the objects alive; 0: none.
    std::size_t max_objects = 0;

    // The factor by which the number of objects grows when one is needed and none is idle, if that is more than `growth`. At least
    // 1, which means `growth` alone.
    double growth_factor = 1;

    // The source of the objects' memory, in chunks of 64 KiB and more; null: pages of the operating system. It must outlive the
    // pool and the last of its objects. If it is the resource() of a pool, that pool need only outlive the last call that may
    // build an object: its memory lives until the last block is returned. Called like pool_options::upstream.
    std::pmr::memory_resource* upstream = nullptr;
};

POOLED_END_NAMESPACE
