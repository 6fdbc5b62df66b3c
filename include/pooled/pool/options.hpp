// SPDX-License-Identifier: BSL-1.0
#pragma once

// The options of a pool. An aggregate for designated initialisers: {.name = "packets"}.

#include "pooled/base/duration.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"

#include <cstddef>
#include <memory_resource>
#include <string_view>

namespace pooled::inline POOLED_ABI_NAMESPACE {

// When objects that lost their last owner are destroyed, if their destructor is not trivial: docs/teardown.md.
enum class teardown : unsigned char {
    // At once, in the order of the standard's pointers. Only when the stack is nearly used up is the rest deferred, to the
    // outermost drop; all of it is destroyed before that returns.
    immediate,
    // Before the outermost drop returns; the order among the objects that it alone kept alive is unspecified.
    unordered,
    // The drop only defers. Each later allocation of that thread from the pool destroys up to four deferred objects; a thread
    // that only drops destroys some at each drop, once more than 1,024 are deferred. The rest is destroyed by drain(), when
    // the thread ends, when the pool is exhausted, and before the pool goes: on whichever thread does that. So a destructor
    // must not take a lock that is held around an allocation.
    incremental,
};

// Called when a pool finds no memory for an allocation, which is then tried once more: before `exhausted` is thrown, or a try_
// form returns empty, at the bound as well as when upstream fails. On the thread that allocates and under no lock of the
// library: it may free objects, of this pool, too, and call live_report() or stats(). What it allocates from a pool itself is
// not reported to it again. reserve() does not call it.
struct exhaustion_hook {
    void (*call)(std::size_t bytes, void* context) noexcept = nullptr;  // bytes: at least, of the block
    void* context = nullptr;
};

struct pool_options {
    // Shown in statistics and errors; the first 47 characters are kept.
    std::string_view name = "pool";

    // A hard bound on the bytes taken from upstream; 0: none. Memory comes in slabs of one size class (64 KiB, or 16 KiB
    // when the bound is under 4 MiB), so add one slab for each size in use. The library's own records (some
    // 5 KiB for each thread, 0.1 % of the memory) are not counted.
    std::size_t max_bytes = 0;

    // What upstream is asked for at a time: rounded up to whole slabs, cut down to what max_bytes leaves. 0: 2 MiB,
    // or a sixteenth of max_bytes if that is less; an unbounded pool begins with 64 KiB and doubles.
    std::size_t chunk_bytes = 0;

    // Ask the operating system for huge pages, for all but the pool's first chunk. Without effect with an upstream, or
    // with chunks under 2 MiB.
    bool huge_pages = true;

    // Where chunks come from; null: pages of the operating system. Called from whichever thread needs memory, by several at
    // once, and under no lock: it may use this pool. Asked for an alignment of 16 KiB. Must outlive the pool and every block of it.
    std::pmr::memory_resource* upstream = nullptr;

    pooled::teardown teardown = pooled::teardown::immediate;

    // Memory that was of no use for so long goes back: blocks in idle threads' caches to the pool, empty chunks and large
    // blocks to upstream, pages of empty slabs to the system. Looked for in calls that are slow anyway (a thread's cache is
    // empty or full), so a pool that nobody uses keeps what it has until trim(); a pool with a reservation does, too. Zero
    // or less: never.
    std::chrono::milliseconds release_unused_after{250};

    // reserve() makes the pages resident, so that the first use of a block is no page fault. Only without an upstream.
    bool touch_reserved = false;

    exhaustion_hook on_exhausted = {};
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
