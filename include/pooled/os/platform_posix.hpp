// SPDX-License-Identifier: BSL-1.0
#pragma once

// The contract (platform_contract.hpp) by POSIX: mmap, pthreads, clock_gettime. The base of platform_linux.hpp and, with
// what each system has by another name, of the others (macOS, the BSDs), where it was never run.

#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"

#if POOLED_HAS_CODE
#include "pooled/os/kept_errno.hpp"

#include <time.h>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

POOLED_BEGIN_DETAIL

// Where map_pages() maps: below `end`, the lower end of what it mapped last, or the upper end of what was unmapped since. A program may
// choose a place for all mappings. If something is mapped there already, a second try is made below `next`, which passes through the place
// from its top to its bottom, and again. Both are hints.
struct map_place {
    // The complement of an address: poolheap would take the address of a chunk for a reference to the block that begins there.
    class hint {
    public:
        [[nodiscard]] std::uintptr_t load() const noexcept { return ~m_word.load(std::memory_order_relaxed); }
        void store(std::uintptr_t at) noexcept { m_word.store(~at, std::memory_order_relaxed); }
        [[nodiscard]] bool replace(std::uintptr_t was, std::uintptr_t at) noexcept {
            return m_word.compare_exchange_strong(was = ~was, ~at, std::memory_order_relaxed);
        }

    private:
        atomic<std::uintptr_t> m_word{~std::uintptr_t{0}};
    };
    hint end, next;                      // 0: where the system likes
    std::uintptr_t bottom = 0, top = 0;  // 0: no place was chosen. Written before the first call

    void choose(std::uintptr_t from, std::uintptr_t to) noexcept {
        bottom = from;
        top = to;
        next.store(to);
        end.store(to);
    }
    [[nodiscard]] bool is_chosen() const noexcept { return top != 0; }
    [[nodiscard]] bool may_contain(std::uintptr_t at) const noexcept {
        return !is_chosen() || at - bottom < top - bottom;
    }
    // Addresses below `from`, for this call alone: the next one gets those below them. 0: where the system likes.
    [[nodiscard]] std::uintptr_t claim(hint& from, std::size_t length, std::size_t align) const noexcept {
        for (;;) {
            std::uintptr_t const was = from.load();
            std::size_t const needed = saturating_add(length, align);
            std::uintptr_t const above = was - bottom < needed ? top : was;
            if (above - bottom < needed) return 0;
            std::uintptr_t const at = round_down(above - length, align);
            if (from.replace(was, at)) return at;
        }
    }
};
// `large` serves alignments from 2 MiB on, `small` smaller ones from a granule on, if a place was chosen.
struct map_places {
    map_place large, small;
};
POOLED_STATE(map_places, g_map_places, {});

#if POOLED_HAS_CODE

struct posix_platform {
    static constexpr std::size_t k_map_unit = 4096;
    static constexpr bool k_has_fork = true;
    static constexpr std::size_t k_large_align = std::size_t{2} << 20;
    static constexpr std::size_t k_small_align = std::size_t{16} << 10;
    static constexpr int k_tries = 4;

    [[nodiscard]] static bool at_fork(void (*prepare)(), void (*parent)(), void (*child)()) noexcept {
        return ::pthread_atfork(prepare, parent, child) == 0;
    }

    [[nodiscard]] static std::size_t page_bytes() noexcept {
        long const bytes = ::sysconf(_SC_PAGESIZE);
        return bytes > long{k_map_unit} ? static_cast<std::size_t>(bytes) : k_map_unit;
    }

    // `is_apart`: neighbours of the same length are no one mapping to the kernel, as every second one has a flag that means nothing here. Usually
    // one call. Otherwise it maps more and unmaps the excess, so that what remains touches the mapping above it: `align`
    // bytes below that are free again. Mappings that touch are one to the kernel, and Linux allows a process 65,530.
    [[nodiscard]] static void* map_pages(std::size_t bytes, std::size_t align,
                                         bool is_apart = false) noexcept {
        kept_errno const kept;
        std::size_t const page = page_bytes();
        if (bytes > k_size_max - page) return nullptr;
        std::size_t const length = round_up(bytes, page);
        std::size_t const step = align < page ? page : align;
        map_place* const place = place_of(align);
        std::uintptr_t const wanted = place != nullptr ? place->claim(place->end, length, step) : 0;
        int const flags = flags_at(wanted, length, is_apart);
        std::byte* p = map(wanted, length, flags);
        // A hole that is too short, or another thread was first.
        bool const must_be_there = wanted != 0 && place->is_chosen();
        for (int i = 0; i < k_tries && must_be_there && p != nullptr && !place->may_contain(address_of(p));
             ++i) {
            ::munmap(p, length);
            p = map(place->claim(place->next, length, step), length, flags);
        }
        // The system chose another place than the one that the flags are for.
        if (int const right = flags_at(address_of(p), length, is_apart); p != nullptr && right != flags) {
            ::munmap(p, length);
            p = map(address_of(p), length, right);
        }
        if (p != nullptr && (address_of(p) & (align - 1)) != 0) {
            ::munmap(p, length);
            p = map_and_cut(length, align);
        }
        if (p == nullptr) {
            if (wanted != 0) place->end.store(wanted + length);
            return nullptr;
        }
        if (place != nullptr && place->may_contain(address_of(p))) {
            place->end.store(address_of(p));
            if (address_of(p) < place->next.load()) place->next.store(address_of(p));
        }
        return p;
    }
    static bool unmap_pages(void* p, std::size_t bytes) noexcept {
        kept_errno const kept;
        if (::munmap(p, bytes) != 0) return false;
        map_place* const place = place_of(bytes);
        if (place == nullptr || !place->may_contain(address_of(p))) return true;
        std::uintptr_t const end = address_of(p) + bytes;
        place->end.store(end);
        if (address_of(p) == place->next.load()) place->next.store(end);
        return true;
    }

    [[nodiscard]] static bool make_exit_key(std::uintptr_t& key, void (*hook)(void*)) noexcept {
#if defined(__linux__) && !defined(__GLIBC__)
        // musl: the destructors of thread_local objects are called by a key, too, and keys in the order in which they were made.
        static thread_local struct any {
            ~any() { asm volatile(""); }
        } first;
#endif
        pthread_key_t made{};
        if (::pthread_key_create(&made, hook) != 0) return false;
        key = static_cast<std::uintptr_t>(made);
        return true;
    }
    [[nodiscard]] static bool set_exit_argument(std::uintptr_t key, void* argument) noexcept {
        return ::pthread_setspecific(static_cast<pthread_key_t>(key), argument) == 0;
    }

    static void yield() noexcept { ::sched_yield(); }
    [[nodiscard]] static std::uint64_t process() noexcept { return static_cast<std::uint64_t>(::getpid()); }

    [[nodiscard]] static std::int64_t read_clock(clockid_t clock) noexcept {
        timespec now{};
        ::clock_gettime(clock, &now);
        return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    }
    [[nodiscard]] static std::int64_t time() noexcept { return read_clock(CLOCK_MONOTONIC); }
    [[nodiscard]] static std::int64_t coarse_time() noexcept {
#ifdef CLOCK_MONOTONIC_COARSE
        return read_clock(CLOCK_MONOTONIC_COARSE);
#else
        return time();
#endif
    }

    [[nodiscard]] static char const* trusted_variable(char const* name) noexcept {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): as any program that reads its environment
        return ::getuid() == ::geteuid() && ::getgid() == ::getegid() ? std::getenv(name) : nullptr;
    }
    // Through a pipe, where the system reports a bad address instead of a signal.
    [[nodiscard]] static std::size_t read_own_memory(void const* from, void* to, std::size_t bytes) noexcept {
        constexpr std::size_t k_step = 4096;  // no pipe holds less
        int ends[2];
        if (::pipe(ends) != 0) return 0;
        std::size_t done = 0;
        while (done < bytes) {
            std::size_t const step = bytes - done < k_step ? bytes - done : k_step;
            auto const written = ::write(ends[1], static_cast<std::byte const*>(from) + done, step);
            if (written <= 0 || ::read(ends[0], static_cast<std::byte*>(to) + done, step) != written) break;
            done += static_cast<std::size_t>(written);
            if (static_cast<std::size_t>(written) != step) break;
        }
        static_cast<void>(::close(ends[0]));
        static_cast<void>(::close(ends[1]));
        return done;
    }

private:
    // Null: nothing is known of a place.
    [[nodiscard]] static map_place* place_of(std::size_t align) noexcept {
        if (align >= k_large_align) return &g_map_places.large;
        return align >= k_small_align && g_map_places.small.is_chosen() ? &g_map_places.small : nullptr;
    }
    [[nodiscard]] static int flags_at([[maybe_unused]] std::uintptr_t at, [[maybe_unused]] std::size_t length,
                                      [[maybe_unused]] bool is_apart) noexcept {
#if defined(__linux__)
        if (is_apart && at / length % 2 != 0) return MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#endif
        return MAP_PRIVATE | MAP_ANONYMOUS;
    }
    [[nodiscard]] static std::byte* map(std::uintptr_t at, std::size_t length, int flags) noexcept {
        void* const p = ::mmap(reinterpret_cast<void*>(at), length, PROT_READ | PROT_WRITE, flags, -1, 0);
        return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
    }
    [[nodiscard]] static std::byte* map_and_cut(std::size_t length, std::size_t align) noexcept {
        std::size_t const span = saturating_add(length, align);
        std::byte* const wide = span == k_size_max ? nullptr : map(0, span, flags_at(0, span, false));
        if (wide == nullptr) return nullptr;
        std::size_t const before = round_down(address_of(wide) + align, align) - address_of(wide);
        std::byte* const p = wide + before;
        ::munmap(wide, before);
        if (before != align) ::munmap(p + length, align - before);
        return p;
    }
};

#if !defined(__linux__)
// A system of which nothing else is known.
struct other_posix_platform : posix_platform {
    static constexpr bool k_discards_to_zero = false;
    static bool discard_pages(std::byte* p, std::size_t bytes) noexcept {
        kept_errno const kept;
#ifdef MADV_FREE
        return ::madvise(p, bytes, MADV_FREE) == 0;
#else
        return ::madvise(p, bytes, MADV_DONTNEED) == 0;
#endif
    }
    static bool populate_pages(std::byte*, std::size_t) noexcept { return false; }
    static bool move_pages(void*, void*, std::size_t) noexcept { return false; }
    [[nodiscard]] static bool may_hold(std::size_t) noexcept { return true; }
    [[nodiscard]] static std::size_t resident_bytes(void*, std::size_t) noexcept { return 0; }
    static void take_huge_pages(void*, std::size_t) noexcept {}
    [[nodiscard]] static bool may_collapse() noexcept { return false; }
    static std::int64_t collapse_page(void*, std::size_t, bool&) noexcept { return 0; }
    [[nodiscard]] static bool enable_barrier() noexcept { return false; }
    static bool run_barrier() noexcept { return false; }
    static void find_stack(std::uintptr_t&, std::uintptr_t&) noexcept {}
    // Not std::atomic_ref, which libc++ has from version 19 on.
    [[nodiscard]] static std::atomic<std::uint32_t>& as_standard(atomic<std::uint32_t>& state) noexcept {
        static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(state));
        return reinterpret_cast<std::atomic<std::uint32_t>&>(state);
    }
    static void wait_while(atomic<std::uint32_t>& state, std::uint32_t value, std::int64_t ns) noexcept {
        kept_errno const kept;
        if (ns < 0) return as_standard(state).wait(value, std::memory_order_relaxed);
        if (state.load(std::memory_order_relaxed) != value) return;
        sleep(ns < 1'000'000 ? ns : 1'000'000);
    }
    static void wake_one(atomic<std::uint32_t>& state) noexcept { as_standard(state).notify_one(); }
    static void wake_all(atomic<std::uint32_t>& state) noexcept { as_standard(state).notify_all(); }
    [[nodiscard]] static bool lock_streams() noexcept { return false; }
    static void unlock_streams() noexcept {}
    static void sleep(std::int64_t ns) noexcept {
        kept_errno const kept;
        timespec const moment{0, static_cast<long>(ns)};
        ::nanosleep(&moment, nullptr);
    }
    [[nodiscard]] static std::size_t processor() noexcept {
        return reinterpret_cast<std::uintptr_t>(::pthread_self()) / 4096;
    }
    [[nodiscard]] static bool random(std::uint64_t& bits) noexcept {
        ::arc4random_buf(&bits, sizeof(bits));
        return true;
    }
};
#endif

#endif

POOLED_END_DETAIL
