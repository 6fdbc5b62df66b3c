// SPDX-License-Identifier: BSL-1.0

// The global operator new and delete on the default pool: pooled::new_delete for a program to link, and libpooled-new.so for
// LD_PRELOAD. docs/new-delete.md says what that means for a program. The forms for arrays, and those that return null, are the standard
// library's, which call these, as the standard says.
//
//   operator new       size ─▶ class ─▶ this thread's cache                        else allocate_slow(): the whole path
//   sized delete       size ─▶ class ─▶ this thread's cache                        else the whole path
//   unsized delete     address ─▶ page map ─▶ place in this thread's cache         else deallocate_other()
//
// A block that no page map knows came from malloc, or from another operator new: it is freed by free(). A sized delete trusts the
// size, as the standard lets it, and looks the block up only where it lies below all memory of pools, as malloc's main heap does.
//
// Any thread may call, from the first constructor in the process to the last destructor. O(1).

#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/default_pool.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/options.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/foreign.hpp"
#include "pooled/stats.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#if defined(_WIN32)
#error \
    "pooled: no new_delete.cpp on Windows, where each DLL keeps its own operators: use pooled::allocator and pools"
#endif
#include <fcntl.h>
#include <sys/stat.h>
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
#if POOLED_CHECKED && defined(__GLIBC__)
void __libc_free(void* p);
void* __libc_realloc(void* p, std::size_t bytes);
#endif
}

#include "heap_report.hpp"

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
static_assert(thread_cache::offset_of(k_inlined_classes) <= gate<>::k_limit &&
              slab::k_nowhere >= gate<>::k_limit && k_max_block_bytes == gate<>::k_limit);
[[nodiscard]] POOLED_ALWAYS_INLINE std::size_t offset_of(std::size_t bytes) noexcept {
    return k_offset_of[(bytes - 1) / k_new_align];
}

// This file's own, whatever the name means in the program.
extern "C" POOLED_HIDDEN void pooled_own_delete(void* p) noexcept __attribute__((alias("_ZdlPv")));
[[nodiscard]] bool is_delete_replaced() noexcept {
    void (*const in_program)(void*) noexcept = &::operator delete;
    return in_program != pooled_own_delete;
}

// What the environment asks for.

std::atomic<bool> g_is_started{false};
// Below this address, a sized delete looks the block up: null and malloc's main heap are there, and the pools' memory mostly is not. All
// addresses before the first allocation, and in a program that has its own operator delete. Written once, and not an atomic, which
// GCC does not compare in memory: a thread that reads the old value only takes the longer way.
constinit struct alignas(k_cache_line) {  // alone in its line
    std::uintptr_t address = ~std::uintptr_t{0};
} g_lowest;
constinit std::atomic<bool> g_trusts_sizes{false};
char const* g_stats_path = nullptr;  // where statistics go at exit; empty: to g_stats_file, as a table
int g_stats_file = -1;
struct stat g_stats_identity{};

[[nodiscard]] pool_options read_options() noexcept {
    pool_options options{.name = k_default_pool_name};
    constexpr char const* k_name = "POOLED_RELEASE_UNUSED_AFTER";
    char const* const value = platform::trusted_variable(k_name);
    if (value == nullptr) return options;
    std::size_t const digits = std::strspn(value, "0123456789");
    if (digits == 0 || digits > 9 || value[digits] != '\0')
        report_variable(
            k_name, value,
            "it must be a number of milliseconds of at most 9 digits; 0: never, the default is 250");
    else
        options.release_unused_after = std::chrono::milliseconds(std::atoi(value));
    return options;
}

void read_stats() noexcept {
    constexpr char const* k_name = "POOLED_STATS";
    char const* const value = platform::trusted_variable(k_name);
    if (value == nullptr || *value == '\0' || std::string_view(value) == "0") return;
    if (std::string_view(value) == "1") {
        // Programs close their standard error stream before this library's exit. And some all other files, whose numbers are then others'.
        g_stats_file = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 64);
        if (::fstat(g_stats_file, &g_stats_identity) == 0) g_stats_path = "";
    } else if (std::string_view(value).ends_with(".json")) {
        g_stats_path = value;
    } else {
        report_variable(k_name, value,
                        "1: a table on the standard error stream at exit; <path>.json: a file");
    }
}

// Before the default pool is made, unless the program has made it already.
[[gnu::constructor(101)]] void start() {
    if (g_is_started.exchange(true, std::memory_order_relaxed)) return;
    bool const is_sanitized = __asan_init != nullptr || __tsan_init != nullptr || __msan_init != nullptr;
    POOLED_CHECK(!is_sanitized,
                 "pooled: a sanitizer replaces operator new itself: run without libpooled-new.so, or without "
                 "the sanitizer");
    g_trusts_sizes.store(!is_delete_replaced(), std::memory_order_relaxed);
#if POOLED_PRELOADED
    g_registry.begin_as_new();
#endif
    read_stats();
    POOLED_TRY { static_cast<void>(configure_default_pool(read_options())); }
    POOLED_CATCH(std::bad_alloc const&) {}  // the first operator new tries again, and reports it
}

void write_all(int file, std::string_view text) noexcept {
    while (!text.empty()) {
        ssize_t const written = ::write(file, text.data(), text.size());
        if (written <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

[[nodiscard]] bool is_stats_file_open() noexcept {
    struct stat now{};
    return ::fstat(g_stats_file, &now) == 0 && now.st_dev == g_stats_identity.st_dev &&
           now.st_ino == g_stats_identity.st_ino;
}

// %p in the path is the process, since a program's children have the variable, too.
[[gnu::destructor(101)]] void write_stats() {
    if (g_stats_path == nullptr) return;
    POOLED_TRY {
        pool_stats const stats = default_pool().stats();
        std::string const process = std::to_string(::getpid());
        if (*g_stats_path == '\0') {
            if (!is_stats_file_open()) return;
            std::ostringstream text;
            text << "process " << process << ", " << stats << '\n';
            return write_all(g_stats_file, text.str());
        }
        std::string path = g_stats_path;
        if (auto const at = path.find("%p"); at != std::string::npos) path.replace(at, 2, process);
        int const file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (file < 0) return report_variable("POOLED_STATS", g_stats_path, "the file cannot be written");
        write_all(file, stats.to_json() + "\n");
        ::close(file);
    }
    POOLED_CATCH(std::exception const&) {}
}

// The whole path.

// malloc's main heap grows upwards from the program's break, the pools' memory downwards from the stack. Where that is otherwise
// (ulimit -s unlimited), each sized delete looks the block up.
POOLED_NOINLINE void find_lowest(std::uintptr_t of_pool) noexcept {
    std::uintptr_t const heap = address_of(::sbrk(0));
    if (g_trusts_sizes.load(std::memory_order_relaxed))
        g_lowest.address = heap < of_pool ? heap + (of_pool - heap) / 2 : ~std::uintptr_t{0} - 1;
}

// The standard's loop ([new.delete.single]): as long as there is no memory, the new handler is called.
[[nodiscard]] POOLED_NOINLINE void* allocate_slow_new(std::size_t bytes, std::size_t align) {
    if (!g_is_started.load(std::memory_order_relaxed)) [[unlikely]]
        start();
    for (;;) {
        if (void* const p = try_allocate_bytes(in_default_pool{}, bytes, align)) {
            if (g_lowest.address == ~std::uintptr_t{0}) [[unlikely]]
                find_lowest(address_of(p));
            return p;
        }
        std::new_handler const handler = std::get_new_handler();
        if (handler == nullptr) POOLED_THROW(std::bad_alloc());
        handler();
    }
}

// Not a block of an inlined class of the default pool, or in a build without the hot path: null, large, of another pool, of another copy of the
// library, or malloc's.
POOLED_COLD_PART void deallocate_other(void* p) noexcept {
    if (p == nullptr) return;
    if (!g_page_map.find(p).empty() || other_owner_of(p) != nullptr) return deallocate_found(p);
    std::free(p);
}

POOLED_COLD_PART void deallocate_sized_slow(void* p, std::size_t bytes, std::size_t align) noexcept {
    map_entry const entry = g_page_map.find(p);
    if (entry.empty() || entry.pool_id() != k_default_pool_id) return ::operator delete(p);
    deallocate_bytes(in_default_pool{}, p, bytes, align);
}

// The hot paths.

// What the cache does not take.
[[maybe_unused]] POOLED_COLD_PART void deallocate_past_cache_new(void* p, std::size_t at) noexcept {
    map_entry const entry = g_page_map.find(p);
    if (entry.empty()) return deallocate_other(p);  // malloc's, for example
    deallocate_past_cache(k_default_pool_id, static_cast<class_index>(at / sizeof(class_cache)), p);
}

[[nodiscard, maybe_unused]] POOLED_COLD_PART void* allocate_at_floor(std::size_t bytes, thread_cache& cache,
                                                                     std::size_t at) {
    void* const block = allocate_cold<sharing::shared>(cache, at);
    return block != nullptr ? block : allocate_slow_new(bytes, k_new_align);
}

[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_new(std::size_t bytes) {
    if constexpr (k_has_hot_path)
        // A size of 0 is the largest then.
        if (thread_cache* const cache = in_default_pool::enter(bytes - 1)) [[likely]] {
            std::size_t const at = offset_of(bytes);
            void* const block = cache->class_at(at).pop_above_floor();
            if (block == nullptr) [[unlikely]]
                return allocate_at_floor(bytes, *cache, at);
            cache->gate.leave();
            return block;
        }
    return allocate_slow_new(bytes, k_new_align);
}

// False when the thread's gate does not admit `n`. The block's class is at find_offset().
template <class FindOffset>
[[nodiscard]] POOLED_ALWAYS_INLINE bool is_put(void* p, std::uint64_t n, FindOffset&& find_offset) noexcept {
    thread_cache* const cache = in_default_pool::enter(n);
    if (cache == nullptr) [[unlikely]]
        return false;
    std::size_t const at = find_offset();
    bool const is_pushed = cache->class_at(at).push_array(p);
    cache->gate.leave();
    if (!is_pushed) [[unlikely]]
        deallocate_past_cache_new(p, at);
    return true;
}

POOLED_ALWAYS_INLINE void deallocate_sized(void* p, std::size_t bytes) noexcept {
    if constexpr (k_has_hot_path)
        if (address_of(p) >= g_lowest.address && is_put(p, bytes - 1, [&] { return offset_of(bytes); }))
            [[likely]]
            return;
    deallocate_sized_slow(p, bytes, k_new_align);
}

POOLED_ALWAYS_INLINE void deallocate_unsized(void* p) noexcept {
    if constexpr (k_has_hot_path)
        if (slab const* s = nullptr; g_page_map.find_mapped(p).is_of_shared(k_default_pool_id, s)) [[likely]]
            if (std::size_t const at = s->cache_at; is_put(p, at, [&] { return at; })) [[likely]]
                return;
    deallocate_other(p);
}

}  // namespace

// At the start of a cache line, so that the hot path is in two: 5.4 ns a pair through the PLT in place of 5.8 (AMD EPYC, Zen 4).
#define POOLED_OPERATOR POOLED_EXPORT POOLED_USED __attribute__((aligned(64)))

POOLED_OPERATOR void* operator new(std::size_t bytes) { return allocate_new(bytes); }
POOLED_OPERATOR void operator delete(void* p) noexcept { deallocate_unsized(p); }
POOLED_OPERATOR void operator delete(void* p, std::size_t bytes) noexcept { deallocate_sized(p, bytes); }

POOLED_OPERATOR void* operator new(std::size_t bytes, std::align_val_t align) {
    return allocate_slow_new(bytes, detail::larger(static_cast<std::size_t>(align), k_new_align));
}
POOLED_OPERATOR void operator delete(void* p, std::align_val_t) noexcept { deallocate_unsized(p); }
POOLED_OPERATOR void operator delete(void* p, std::size_t bytes, std::align_val_t align) noexcept {
    deallocate_sized_slow(p, bytes, detail::larger(static_cast<std::size_t>(align), k_new_align));
}

#if POOLED_CHECKED && defined(__GLIBC__)

// The checked build reports a block of operator new that is given to malloc's functions.
extern "C" POOLED_EXPORT void free(void* p) noexcept {
    if (p != nullptr && !g_page_map.find(p).empty())
        fail_deallocation(k_default_pool_name, p, "free() got a block of operator new; use delete");
    __libc_free(p);
}
extern "C" POOLED_EXPORT void* realloc(void* p, std::size_t bytes) noexcept {
    if (p != nullptr && !g_page_map.find(p).empty())
        fail_deallocation(k_default_pool_name, p, "realloc() got a block of operator new");
    return __libc_realloc(p, bytes);
}

#endif
