// SPDX-License-Identifier: BSL-1.0
#pragma once

// The whole contract with the operating system: to port the library, port this file.
//
//   pages      map_pages, unmap_pages, advise_huge_pages
//   barrier    heavy_barrier_available, heavy_barrier: a full barrier on every running thread of the process
//   lifetime   at_thread_exit, at_fork
//   schedule   yield
//
// Implemented for POSIX; on Linux the barrier is membarrier(2), elsewhere a sequentially consistent fence, which
// std_atomics::light_barrier() then matches. All functions may be called from any thread.

#include "pooled/config.hpp"
#include "pooled/core/bits.hpp"

#include <atomic>
#include <cstddef>

#if !defined(__unix__) && !defined(__APPLE__)
#error "pooled: source/platform.hpp has no implementation for this operating system yet; it needs POSIX"
#endif

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#if POOLED_HAS_MEMBARRIER
#include <cerrno>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace pooled::detail::platform {

inline constexpr std::size_t k_page_bytes = 4096;  // the unit that sizes are rounded to; real pages may be larger

// Fresh zero pages of `bytes` at a multiple of `align`, a power of two; null when the system has no more. Nothing is
// touched, so nothing is resident yet. Usually one call: the kernel places mappings of one size side by side, and an
// aligned one is followed by another; only otherwise is more mapped and cut to fit.
[[nodiscard]] inline void* map_pages(std::size_t bytes, std::size_t align) noexcept {
    auto const map = [](std::size_t length) noexcept -> std::byte* {
        void* const p = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
    };
    std::byte* const first = map(bytes);
    if (first == nullptr || (address_of(first) & (align - 1)) == 0) return first;
    ::munmap(first, bytes);

    std::size_t const span = saturating_add(round_up(bytes, k_page_bytes), align);
    if (span == k_size_max) return nullptr;
    std::byte* const wide = map(span);
    if (wide == nullptr) return nullptr;
    std::size_t const before = round_up(address_of(wide), align) - address_of(wide);
    std::size_t const after = span - before - round_up(bytes, k_page_bytes);
    if (before != 0) ::munmap(wide, before);
    if (after != 0) ::munmap(wide + before + round_up(bytes, k_page_bytes), after);
    return wide + before;
}

// Requires a result of map_pages with the same `bytes`.
inline void unmap_pages(void* p, std::size_t bytes) noexcept { ::munmap(p, bytes); }

// Asks for huge pages; only advice.
inline void advise_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
    ::madvise(p, bytes, MADV_HUGEPAGE);
#endif
}

#if POOLED_HAS_MEMBARRIER
inline long membarrier(int command) noexcept { return ::syscall(__NR_membarrier, command, 0, 0); }

// False where the kernel or a sandbox refuses membarrier: threads then keep no caches, and every call takes a lock.
[[nodiscard]] inline bool heavy_barrier_available() noexcept {
    static bool const registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
    return registered;
}

// Requires heavy_barrier_available(). Every thread of the process that runs passes a full barrier before this returns.
inline void heavy_barrier() noexcept {
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
    // A forked child may have to register anew.
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    POOLED_CHECK(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0,
                 "pooled: membarrier(2) worked when the process started and is refused now; a seccomp filter installed "
                 "later must allow it");
}
#else
[[nodiscard]] inline bool heavy_barrier_available() noexcept { return true; }
inline void heavy_barrier() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }
#endif

// A per-thread hook. pthread keys and not thread_local objects: they run after all of the thread's thread_local
// destructors, and arming one takes no memory (the first 32 keys of a thread lie in its own control block).
class thread_exit_hook {
public:
    explicit thread_exit_hook(void (*hook)(void*)) noexcept : m_armed(::pthread_key_create(&m_key, hook) == 0) {}

    // `hook(argument)` will run when the calling thread ends; argument is not null. False when that cannot be had.
    [[nodiscard]] bool arm(void* argument) const noexcept {
        return m_armed && ::pthread_setspecific(m_key, argument) == 0;
    }

private:
    pthread_key_t m_key{};
    bool m_armed;
};

// Requires that `prepare` leaves every lock of the library held, and that the other two release them.
inline void at_fork(void (*prepare)(), void (*parent)(), void (*child)()) noexcept {
    ::pthread_atfork(prepare, parent, child);
}

inline void yield() noexcept { ::sched_yield(); }

}  // namespace pooled::detail::platform
