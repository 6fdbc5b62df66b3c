// SPDX-License-Identifier: BSL-1.0

// The global operator new and delete on the default pool: pooled::new_delete for a program to link, and libpooled-new.so for
// LD_PRELOAD. docs/new-delete.md says what that means for a program. The forms for arrays, and those that return null, are the standard
// library's, which call these, as the standard says. src/malloc.cpp includes this file, and adds the rest of malloc's interface.
//
//   operator new, malloc     size ─▶ class ─▶ this thread's cache                  else allocate_slow_new(): the whole path
//   sized delete             size ─▶ class ─▶ this thread's cache                  else the whole path
//   unsized delete, free     address ─▶ page map ─▶ place in this thread's cache   else deallocate_other()
//   realloc                  address ─▶ page map ─▶ the same block if it fits      else move_to_new()
//
// A block that no page map knows came from another malloc: the next one in the process serves it. A sized delete trusts the size of blocks
// at the place where this library maps its memory, and looks all others up.
//
// Any thread may call, from the loader's first call of malloc to the last destructor. O(1).

#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/default_pool.hpp"
#include "pooled/heap/checked_memory.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/os/kept_errno.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/foreign.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#ifndef POOLED_REPLACES_MALLOC  // 1: in malloc.cpp
#define POOLED_REPLACES_MALLOC 0
#endif

#if defined(_WIN32)
#error \
    "pooled: no new_delete.cpp on Windows, where each DLL keeps its own operators: use pooled::allocator and pools"
#endif
#include <sys/mman.h>
#include <unistd.h>

#if POOLED_SANITIZE || POOLED_THREAD_SANITIZER
#error \
    "pooled: a sanitizer replaces operator new itself: build without pooled::new_delete, or without the sanitizer"
#endif

// Defined in a process with a sanitizer.
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
[[gnu::weak]] void __msan_init();
}

#include "environment.hpp"
#include "heap_report.hpp"
#include "next_malloc.hpp"

namespace {

using namespace pooled;
using namespace pooled::detail;

// The least alignment of a block: compilers assume it for the result of every operator new.
constexpr std::size_t k_new_align = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
static_assert(k_new_align <= k_max_class_align);

// In other builds, every call takes the whole path.
constexpr bool k_has_hot_path = k_has_cache && !k_hardened;

// thread_cache::offset_of() the class of a size that is not 0, in steps of the alignment. One table for all sizes: 4 KiB, of which a
// program reads the lines of its sizes.
constexpr auto k_offset_of = [] {
    std::array<std::uint16_t, k_max_block_bytes / k_new_align> table{};
    if constexpr (k_has_hot_path)
        for (std::size_t i = 0; i < table.size(); ++i)
            table[i] = static_cast<std::uint16_t>(
                thread_cache::offset_of(class_for((i + 1) * k_new_align, k_new_align)));
    return table;
}();
static_assert(thread_cache::offset_of(k_inlined_classes) <= gate::k_limit &&
              slab::k_nowhere >= gate::k_limit && k_max_block_bytes == gate::k_limit);
[[nodiscard, maybe_unused]] POOLED_ALWAYS_INLINE std::size_t offset_of(std::size_t bytes) noexcept {
    return k_offset_of[(bytes - 1) / k_new_align];
}

[[nodiscard]] std::size_t page_bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// This file's own, whatever the name means in the program.
extern "C" POOLED_HIDDEN void pooled_own_delete(void* p) noexcept __attribute__((alias("_ZdlPv")));
extern "C" POOLED_HIDDEN void pooled_own_aligned_delete(void* p, std::align_val_t) noexcept
    __attribute__((alias("_ZdlPvSt11align_val_t")));
[[nodiscard]] bool is_delete_replaced() noexcept {
    void (*const in_program)(void*) noexcept = &::operator delete;
    return in_program != pooled_own_delete;
}
[[nodiscard]] bool is_aligned_delete_replaced() noexcept {
    void (*const in_program)(void*, std::align_val_t) noexcept = &::operator delete;
    return in_program != pooled_own_aligned_delete;
}

std::atomic<bool> g_is_started{false};

// The upper bits of all addresses of the place where this library maps its memory: 4 TiB from 36 TiB on. Far from where Linux maps what
// has no place, in either layout (upwards from a third of the addresses; from a quarter on AArch64), from programs, and from what
// mimalloc (2 to 36 TiB) and Google's tcmalloc (up to 32 TiB) choose.
constexpr unsigned k_place_shift = 42;
constexpr std::uintptr_t k_place = 9;

// Where exactly is random, as it is for other mappings, unless the system was told otherwise. A system with fewer addresses, or where
// something is there already, maps elsewhere: a sized delete of such a block looks it up.
void choose_place() noexcept {
    constexpr std::uintptr_t k_bottom = k_place << k_place_shift;
    constexpr std::uintptr_t k_eighth = std::uintptr_t{1} << (k_place_shift - 3);
    std::uint64_t const random =
        platform::scatter(address_of(::sbrk(0)) ^ platform::scatter(address_of(&g_map_places)));
    auto const top = [](std::uintptr_t eighths, std::uint64_t bits) {
        return k_bottom + eighths * k_eighth + (bits << 21) % k_eighth;
    };
    g_map_places.large.choose(k_bottom, top(5, random));
    g_map_places.small.choose(k_bottom + 6 * k_eighth, top(7, random >> 32));
}

// Before the default pool is made, unless the program has made it already.
void start() {
    if (g_is_started.exchange(true, std::memory_order_relaxed)) return;
    inside_pool const inside;
    bool const is_sanitized = __asan_init != nullptr || __tsan_init != nullptr || __msan_init != nullptr;
    POOLED_CHECK(!is_sanitized,
                 "pooled: a sanitizer replaces operator new itself: run without libpooled-new.so, or without "
                 "the sanitizer");
    find_next_malloc();
    // Whether a sized delete believes the size.
    bool const trusts = platform::read_switch("POOLED_TRUST_SIZES", true,
                                              "0: each sized delete looks its block up; 1 is the default");
    if (trusts && !is_delete_replaced()) choose_place();
#if defined(POOLED_PRELOADED)
    g_registry.begin_as_new();
#endif
    read_stats();
    POOLED_TRY { static_cast<void>(configure_default_pool(read_options())); }
    POOLED_CATCH(std::bad_alloc const&) {}  // the first operator new tries again, and reports it
}

// The preloaded library is linked with -z initfirst, so this runs before all other constructors, also that of libc, which sets `environ`.
[[gnu::constructor(101)]] void start_with([[maybe_unused]] int count, [[maybe_unused]] char** arguments,
                                          [[maybe_unused]] char** environment) {
#if defined(POOLED_PRELOADED) && defined(__GLIBC__)
    if (environ == nullptr) environ = environment;
    static_cast<void>(register_fork_handlers(true));
#endif
    read_heap_report();
    start();
    start_background();
}

// The whole path.

// Null: no memory.
[[nodiscard]] POOLED_NOINLINE void* try_allocate_slow(std::size_t bytes, std::size_t align) noexcept {
    kept_errno const kept;
    if (!g_is_started.load(std::memory_order_relaxed)) [[unlikely]]
        start();
    inside_pool const inside;
    return try_allocate_bytes(in_default_pool{}, bytes, align);
}

// How a function says that there is no memory. The standard's loop ([new.delete.single]): as long as there is none, the new handler is
// called; without one, an exception is thrown. Of malloc: null and errno.
enum class failure : bool { throws, returns_null };

// A block of a large class that the inlined code serves, from the array of the thread's cache, or null.
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop_large(std::size_t bytes, std::size_t align) noexcept {
    if (!k_has_hot_path || bytes <= k_max_block_bytes || bytes > k_max_inlined_bytes || align > k_new_align)
        return nullptr;
    thread_cache* const cache = in_default_pool::enter();
    if (cache == nullptr) return nullptr;
    void* const block =
        cache->class_at(thread_cache::offset_of(class_for(bytes, k_new_align))).pop_above_floor();
    cache->gate.leave();
    return block;
}

template <failure Failure>
[[nodiscard]] POOLED_NOINLINE void* allocate_slow_new(std::size_t bytes, std::size_t align) {
    if (void* const block = pop_large(bytes, align)) return block;
    for (;;) {
        void* p = nullptr;
#if POOLED_REPLACES_MALLOC
        if (Failure == failure::returns_null && t_returns_null()) [[unlikely]]
            p = g_reserve.allocate(bytes, align);
        else
#endif
            p = try_allocate_slow(bytes, align);
        if (p != nullptr) return p;
        if constexpr (Failure == failure::returns_null) {
            errno = ENOMEM;
            return nullptr;
        }
        std::new_handler const handler = std::get_new_handler();
        if (handler == nullptr) POOLED_THROW(std::bad_alloc());
        handler();
    }
}

// Deallocates what is no block of an inlined class of the default pool: null, a large block, one of another pool or another copy of the
// library, or another malloc's. In a build without the hot path, everything.
POOLED_COLD_PART void deallocate_other(void* p) noexcept {
    if (p == nullptr) return;
    kept_errno const kept;
    if (!g_page_map.find(p).empty() || other_owner_of(p) != nullptr) return deallocate_found(p);
#if POOLED_REPLACES_MALLOC
    if (g_reserve.contains(p)) return g_reserve.deallocate(p);
#endif
    if (auto* const next = the_next_malloc().free) next(p);
}

POOLED_COLD_PART void deallocate_sized_slow(void* p, [[maybe_unused]] std::size_t bytes,
                                            [[maybe_unused]] std::size_t align) noexcept;

// The hot paths.

// What the cache does not take.
[[maybe_unused]] POOLED_COLD_PART void deallocate_past_cache_new(void* p, std::size_t at) noexcept {
    map_entry const entry = g_page_map.find(p);
    if (entry.empty()) return deallocate_other(p);  // another malloc's, for example
    kept_errno const kept;
    deallocate_past_cache(p, static_cast<class_index>(at / sizeof(class_cache)), k_default_pool_id);
}

[[maybe_unused]] POOLED_COLD_PART void deallocate_at_stop(void* p, thread_cache& cache,
                                                          std::size_t at) noexcept {
    bool const is_pushed = cache.class_at(at).push_array(p);
    cache.gate.leave();
    if (!is_pushed) deallocate_past_cache_new(p, at);
}

template <failure Failure>
[[nodiscard, maybe_unused]] POOLED_COLD_PART void* allocate_at_floor(std::size_t bytes, thread_cache& cache,
                                                                     std::size_t at) {
    void* const block = allocate_cold<sharing::shared>(cache, at);
    return block != nullptr ? block : allocate_slow_new<Failure>(bytes, k_new_align);
}

template <failure Failure>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_new(std::size_t bytes) {
    if constexpr (k_has_hot_path)
        // A size of 0 is the largest then.
        if (thread_cache* const cache = in_default_pool::enter(bytes - 1)) [[likely]] {
            std::size_t const at = offset_of(bytes);
            void* const block = cache->class_at(at).pop_above_floor();
            if (block == nullptr) [[unlikely]]
                return allocate_at_floor<Failure>(bytes, *cache, at);
            cache->gate.leave();
            return block;
        }
    return allocate_slow_new<Failure>(bytes, k_new_align);
}

// False when the thread's gate does not admit `n`. The block's class is at find_offset().
template <class FindOffset>
[[nodiscard]] POOLED_ALWAYS_INLINE bool is_put(void* p, std::uint64_t n, FindOffset&& find_offset) noexcept {
    thread_cache* const cache = in_default_pool::enter(n);
    if (cache == nullptr) [[unlikely]]
        return false;
    std::size_t const at = find_offset();
    if (cache->class_at(at).push_below_stop(p)) [[likely]]
        cache->gate.leave();
    else
        deallocate_at_stop(p, *cache, at);
    return true;
}

POOLED_ALWAYS_INLINE void deallocate_unsized(void* p) noexcept {
    if constexpr (k_has_hot_path) {
        // Only the descriptor is left of an entry of the default pool: fewer instructions than by the entry's parts.
        std::uint64_t const rest =
            g_page_map.find_mapped(p).bits() ^ map_entry(k_default_pool_id, nullptr, false).bits();
        if (map_entry(rest).pool_id() == 0) [[likely]]
            if (std::size_t const at = reinterpret_cast<slab*>(rest)->cache_at;
                is_put(p, at, [&] { return at; })) [[likely]]
                return;
    }
    deallocate_other(p);
}

// A sized form of delete calls the one that is not told a size, which may be the program's own.
POOLED_COLD_PART void delete_sized_slow(void* p, std::size_t bytes) noexcept {
    if (is_delete_replaced()) return ::operator delete(p);
    deallocate_sized_slow(p, bytes, k_new_align);
}

// The class is the block's, whatever the size says: only a build that reports a wrong one looks at it.
void deallocate_sized_slow(void* p, std::size_t bytes, std::size_t align) noexcept {
    map_entry const entry = g_page_map.find(p);
    if (entry.empty() || entry.pool_id() != k_default_pool_id) return ::operator delete(p);  // the program's
    if constexpr (POOLED_CHECKED != 0 || k_hardened)
        return deallocate_bytes(in_default_pool{}, p, bytes, align);
    deallocate_unsized(p);
}

// Those functions of malloc's interface that may get a block of operator new.

// The bytes that the owner may use; in the checked build those that were asked for, as the rest is a guard. k_not_own: neither a block of a
// pool nor of the reserve.
constexpr std::size_t k_not_own = k_size_max;
[[nodiscard]] std::size_t own_bytes(void* p) noexcept {
    if (map_entry const entry = g_page_map.find(p); !entry.empty()) {
        std::size_t const is = entry.slab_at()->block_bytes();
#if POOLED_CHECKED
        if (std::size_t const asked = fill::read_guard(p, is).bytes; asked != fill::k_unknown) return asked;
#endif
        return is;
    }
#if POOLED_REPLACES_MALLOC
    if (g_reserve.contains(p)) return reserve_memory::k_piece;
#endif
    return k_not_own;
}

// Linux before 6.17 may unmap `to` in a call that fails, as where `from` is two mappings: it is mapped again, unless something is there.
[[nodiscard]] bool move_or_map_pages(void* from, void* to, std::size_t bytes) noexcept {
    errno = 0;
    bool const is_moved = platform::move_pages(from, to, bytes);
#if defined(MAP_FIXED_NOREPLACE)
    if (!is_moved && errno != 0 && errno != EINVAL)  // it is known
        ::mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
#endif
    return is_moved;
}

// Copies the contents of a huge block, and loses them. Where no class serves the two blocks, pages move if the system can do that, which
// takes a hundredth of the time and no second block's memory.
void move_bytes(void* from, void* to, std::size_t bytes) noexcept {
    auto const is_exact = [](void* p) { return g_page_map.find_owned(p).slab_at()->size_class == k_exact; };
    std::size_t const pages = round_down(bytes, page_bytes());
    std::size_t const moved =
        pages != 0 && is_exact(from) && is_exact(to) && move_or_map_pages(from, to, pages) ? pages : 0;
    std::memcpy(static_cast<std::byte*>(to) + moved, static_cast<std::byte*>(from) + moved, bytes - moved);
}

// Another block for the contents of one that has `is` bytes; the same one if there is no memory, and it is large enough.
[[nodiscard]] POOLED_NOINLINE void* move_to_new(void* p, std::size_t is, std::size_t bytes) noexcept {
    // A block that has grown so large grows again: with some space, which takes addresses alone, most of these calls need no new one.
    bool const is_huge = is > k_max_large_block_bytes;
    std::size_t const asked = is_huge && bytes > is ? saturating_add(bytes, bytes / 8) : bytes;
    int const kept = errno;
    void* given = allocate_new<failure::returns_null>(asked);
    if (given == nullptr && asked != bytes) given = allocate_new<failure::returns_null>(bytes);
    if (given == nullptr && bytes > is) return nullptr;
    if (given != nullptr) {
        std::size_t const used = smaller(is, bytes);
        if (is_huge)
            move_bytes(p, given, used);
        else
            std::memcpy(given, p, used);
        deallocate_unsized(p);
    }
    errno = kept;
    return given != nullptr ? given : p;
}

}  // namespace

// At the start of a cache line, so that the hot path is in two: 5.4 ns a pair through the PLT instead of 5.8 (AMD EPYC, Zen 4).
#define POOLED_OPERATOR POOLED_EXPORT POOLED_USED __attribute__((aligned(64)))

POOLED_OPERATOR void* operator new(std::size_t bytes) { return allocate_new<failure::throws>(bytes); }
POOLED_OPERATOR void operator delete(void* p) noexcept { deallocate_unsized(p); }
POOLED_OPERATOR void operator delete(void* p, std::size_t bytes) noexcept {
    if constexpr (k_has_hot_path)
        if (address_of(p) >> k_place_shift == k_place &&
            is_put(p, bytes - 1, [&] { return offset_of(bytes); })) [[likely]]
            return;
    delete_sized_slow(p, bytes);
}

POOLED_OPERATOR void* operator new(std::size_t bytes, std::align_val_t align) {
    return allocate_slow_new<failure::throws>(bytes,
                                              detail::larger(static_cast<std::size_t>(align), k_new_align));
}
POOLED_OPERATOR void operator delete(void* p, std::align_val_t) noexcept { deallocate_unsized(p); }
POOLED_OPERATOR void operator delete(void* p, std::size_t bytes, std::align_val_t align) noexcept {
    if (is_aligned_delete_replaced()) [[unlikely]]
        return ::operator delete(p, align);
    deallocate_sized_slow(p, bytes, detail::larger(static_cast<std::size_t>(align), k_new_align));
}

// malloc's functions, under names of their own here: those of the C library's headers have attributes that differ from one to another.
// Weak without malloc.cpp: a static executable has libc's, which its malloc is defined together with.
#if defined(__ELF__)

#if POOLED_REPLACES_MALLOC
#define POOLED_C_FUNCTION(name) POOLED_SYMBOL(#name) POOLED_OPERATOR
#else
#define POOLED_C_FUNCTION(name) POOLED_SYMBOL(#name) POOLED_OPERATOR __attribute__((weak))
#endif

extern "C" {
void pooled_free(void* p) noexcept POOLED_C_FUNCTION(free);
void* pooled_realloc(void* p, std::size_t bytes) noexcept POOLED_C_FUNCTION(realloc);
std::size_t pooled_malloc_usable_size(void* p) noexcept POOLED_C_FUNCTION(malloc_usable_size);
int pooled_malloc_trim(std::size_t pad) noexcept POOLED_C_FUNCTION(malloc_trim);
}

void pooled_free(void* p) noexcept {
#if POOLED_CHECKED && !POOLED_REPLACES_MALLOC
    if (own_bytes(p) != k_not_own)
        fail_deallocation(k_default_pool_name, p, "free() got a block of operator new; use delete");
#endif
    deallocate_unsized(p);
}

void* pooled_realloc(void* p, std::size_t bytes) noexcept {
    if (p == nullptr && POOLED_REPLACES_MALLOC) return allocate_new<failure::returns_null>(bytes);
    if (std::size_t const is = own_bytes(p); is != k_not_own) {
#if POOLED_CHECKED && !POOLED_REPLACES_MALLOC
        fail_deallocation(k_default_pool_name, p, "realloc() got a block of operator new");
#endif
        if (bytes == 0) return deallocate_unsized(p), nullptr;  // as glibc
        if (k_guard_bytes == 0 && bytes <= is && bytes >= is / 2) return p;
        return move_to_new(p, is, bytes);
    }
    if (auto* const next = the_next_malloc().realloc) return next(p, bytes);
    errno = ENOMEM;
    return nullptr;
}

std::size_t pooled_malloc_usable_size(void* p) noexcept {
    if (std::size_t const is = own_bytes(p); is != k_not_own) return is;
    auto* const next = the_next_malloc().usable_size;
    return next != nullptr ? next(p) : 0;
}

// 1: memory was returned to the system.
int pooled_malloc_trim(std::size_t pad) noexcept {
    kept_errno const kept;
    bool released = false;
    if (pool_core* const core = g_registry.find(k_default_pool_id)) released = core->trim() != 0;
    auto* const next = the_next_malloc().trim;
    return (next != nullptr && next(pad) != 0) || released ? 1 : 0;
}

#endif
