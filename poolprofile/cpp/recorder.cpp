// SPDX-License-Identifier: BSL-1.0
// Preloaded into a program, records what it allocates: `poolbench profile`.
//
// Two records at once, of two kinds of completeness:
//   windows  A few milliseconds at a time, every call of every thread is recorded, with its time and its caller. Only
//            a complete order can be replayed. Windows get rarer as a program runs longer.
//   samples  Between them one allocation in `period` is recorded with its stack and is followed to its end, however
//            late. The period adapts, so that stacks take 1 % of a thread's time; each sample has its weight.
//
// Outside a window a call costs a countdown (malloc) or the lookup of one byte (free) and a jump; a malloc of 1 to
// 128 KiB is timed, because it may merge all that was freed (long_call). The recorder has no thread and no timer: threads
// would make libstdc++'s reference counts atomic, signals would interrupt system calls. Threads that allocate read the
// clock now and then.
//
// The file is mapped and its blocks are reserved before they are written: a process that dies of any signal leaves all
// that it recorded, and a full disk ends the recording, not the program. No lock is held around a call of the program's
// malloc. A forked child begins a file of its own. Needs no C++ library: the program brings its own, or has none.
#include "recorder/windows.hpp"

#define RECORDER_CALLER reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))

namespace {

// --- the calls

enum class request { plain, zeroed, aligned };

template <request How>
inline void* call_real(std::size_t size, std::size_t align) {
    if constexpr (How == request::zeroed) return real_calloc(1, size);
    if constexpr (How == request::aligned) return real_memalign(align, size);
    return real_malloc(size);
}

std::uint64_t log2_of(std::size_t align) {
    return align > 1 ? 63 - static_cast<std::uint64_t>(__builtin_clzll(align)) : 0;
}

template <request How>
[[gnu::noinline]] void* allocate_slow(std::size_t size, std::size_t align, std::uintptr_t caller) {
    if (!may_record()) {
        if (t.countdown < 0) t.countdown = 1024;
        return call_real<How>(size, align);
    }
    t.inside = true;
    const bool due = t.countdown < 0;
    const bool is_first = due && !t.counted;
    if (due && !g_open && tick() >= __atomic_load_n(&g_next_window, __ATOMIC_RELAXED)) open_window();
    const bool merges = How == request::plain && may_merge(size);
    const bool timed = merges || g_open;
    const std::uint64_t began = timed ? begin_call(g_open ? k_reading_ns : k_reading_between_ns) : tick();
    t.inside = false;
    void* object = call_real<How>(size, align);
    t.inside = true;
    const std::uint64_t ended = ordered_tick();
    const int error = errno;
    const std::uint64_t cost = timed ? cost_of(began, ended) : 0;
    if (RECORDER_UNLIKELY(merges && cost >= ticks(k_noted_ns))) note_long_call({ended, caller, size, cost});
    if (object && g_open) {
        write_event({ended, reinterpret_cast<std::uint64_t>(object), caller,
                     static_cast<std::uint64_t>(event_kind::allocate),
                     How == request::aligned ? log2_of(align) : 0, of_event(cost), size},
                    ended);
    }
    if (due) {
        // A thread's first allocation is no random one.
        if (object && !is_first) take_sample(object, size, caller, ended);
        t.countdown = next_countdown();
        t.gap = static_cast<std::uint32_t>(t.countdown + 1);
        t.counted = true;
    }
    errno = error;
    t.inside = false;
    return object;
}

// A call that may merge what was freed: only one that comes long after the last can have much to merge.
[[gnu::noinline]] void* allocate_large(std::size_t size, std::uintptr_t caller) {
    const std::uint64_t now = tick();
    const bool is_frequent = now - t.large_tick < ticks(k_frequent_ns);
    t.large_tick = now;
    return is_frequent ? real_malloc(size) : allocate_slow<request::plain>(size, 0, caller);
}

// malloc, and operator new on it. `--countdown`, the window's flag and the size are all that is looked at.
inline void* allocate(std::size_t size, std::uintptr_t caller) {
    if (RECORDER_UNLIKELY((--t.countdown < 0) | (g_open != 0)))
        return allocate_slow<request::plain>(size, 0, caller);
    if (RECORDER_UNLIKELY(may_merge(size))) return allocate_large(size, caller);
    return real_malloc(size);
}

[[gnu::noinline]] void deallocate_slow(void* p) {
    if (!p) return;
    if (in_arena(p)) return;
    if (may_record()) {
        t.inside = true;
        const int error = errno;
        if (g_filter[filter_place(p)]) unfollow(p);
        if (g_open) {
            const std::uint64_t size = real_usable_size ? real_usable_size(p) : 0;
            const std::uint64_t began = begin_call();
            t.inside = false;
            real_free(p);
            t.inside = true;
            const std::uint64_t ended = ordered_tick();
            write_event({began, reinterpret_cast<std::uint64_t>(p), 0,
                         static_cast<std::uint64_t>(event_kind::deallocate), 0,
                         of_event(cost_of(began, ended)), size},
                        ended);
            errno = error;
            t.inside = false;
            return;
        }
        errno = error;
        t.inside = false;
    }
    real_free(p);
}

inline void deallocate(void* p) {
    if (RECORDER_UNLIKELY((g_filter[filter_place(p)] != 0) | (g_open != 0))) return deallocate_slow(p);
    real_free(p);
}

[[gnu::noinline]] void* reallocate(void* p, std::size_t size, std::uintptr_t caller) {
    if (in_arena(p)) {
        void* moved = allocate(size, caller);
        const std::size_t there = static_cast<std::size_t>(g_arena + sizeof g_arena - static_cast<char*>(p));
        return moved ? memcpy(moved, p, size < there ? size : there) : nullptr;
    }
    if (!may_record()) return real_realloc(p, size);
    t.inside = true;
    if (p && g_filter[filter_place(p)]) unfollow(p);
    const bool open = g_open != 0;
    const std::uint64_t old = open && p && real_usable_size ? real_usable_size(p) : 0;
    const std::uint64_t began = open ? begin_call() : tick();
    t.inside = false;
    void* moved = real_realloc(p, size);
    t.inside = true;
    const std::uint64_t ended = ordered_tick();
    const int error = errno;
    if (open && (moved || size == 0)) {
        // The old address ends at the call's begin, whatever another thread gets meanwhile.
        if (p)
            write_event({began, reinterpret_cast<std::uint64_t>(p), 0,
                         static_cast<std::uint64_t>(event_kind::resize_old), 0, 0, old},
                        began);
        if (moved)
            write_event({ended, reinterpret_cast<std::uint64_t>(moved), caller,
                         static_cast<std::uint64_t>(event_kind::resize_new), 0,
                         of_event(cost_of(began, ended)), size},
                        ended);
    }
    errno = error;
    t.inside = false;
    return moved;
}

void* allocate_aligned(std::size_t align, std::size_t size, std::uintptr_t caller) {
    if (RECORDER_UNLIKELY((--t.countdown < 0) | (g_open != 0)))
        return allocate_slow<request::aligned>(size, align, caller);
    return real_memalign(align, size);
}

// --- begin and end of a process

// A name that no file has: after exec, the process has the number that it had before.
int create_file(const char* directory) {
    char path[k_path_bytes + 64];
    for (int number = 0; number < 10000; ++number) {
        snprintf(path, sizeof path, "%s/%d-%d.pooltrace", directory, static_cast<int>(getpid()), number);
        const int low = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (low >= 0) {
            // Not among the numbers that programs expect to be given.
            const int high = fcntl(low, F_DUPFD_CLOEXEC, 500);
            if (high >= 0) close(low);
            return high >= 0 ? high : low;
        }
        if (errno != EEXIST) return -1;
    }
    return -1;
}

void begin_process() {
    const char* directory = getenv("POOLBENCH_TRACE_DIRECTORY");
    if (!directory) return;
    const char* limit = getenv("POOLBENCH_TRACE_BYTES");
    g_bytes = limit ? strtoull(limit, nullptr, 10) : k_default_bytes;
    g_bytes = g_bytes / k_block_bytes * k_block_bytes;
    if (g_bytes < k_header_bytes + k_block_bytes) return;
    g_descriptor = create_file(directory);
    if (g_descriptor < 0) return;
    void* mapped = MAP_FAILED;
    if (posix_fallocate(g_descriptor, 0, k_header_bytes) == 0 &&
        ftruncate(g_descriptor, static_cast<off_t>(g_bytes)) == 0 && fstat(g_descriptor, &g_identity) == 0)
        mapped = mmap(nullptr, g_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g_descriptor, 0);
    if (mapped == MAP_FAILED) {
        close(g_descriptor);
        return;
    }
    auto* file = static_cast<file_header*>(mapped);
    memcpy(file->magic, k_magic, sizeof k_magic);
    file->version = k_version;
    file->header_bytes = k_header_bytes;
    file->block_bytes = k_block_bytes;
    file->pid = static_cast<std::uint32_t>(getpid());
    file->used = g_reserved = k_header_bytes;
    const ssize_t length = readlink("/proc/self/exe", file->program, k_path_bytes - 1);
    file->program[length > 0 ? length : 0] = 0;
    file->begin_ns = nanoseconds(CLOCK_MONOTONIC);
    file->begin_tick = tick();
    // Without a rate from the system: count for a while. On some processors the counter advances in steps that are longer
    // than a reading takes, so the mean of many readings is taken.
    constexpr std::uint64_t k_readings = 64;
    std::uint64_t least = ~std::uint64_t{0};
    std::uint64_t ns;
    do {
        const std::uint64_t first = ordered_tick();
        std::uint64_t last = first;
        for (std::uint64_t i = 0; i < k_readings; ++i)
            last = ordered_tick();
        const std::uint64_t mean = (last - first + k_readings / 2) / k_readings;
        least = mean < least ? mean : least;
        ns = nanoseconds(CLOCK_MONOTONIC) - file->begin_ns;
    } while (ns < 100'000);
    g_ticks_per_ns = static_cast<double>(tick() - file->begin_tick) / static_cast<double>(ns);
    file->clock_cost_ticks = least;
    g_next_window = file->begin_tick + ticks(2e6);
    g_loads = 0;
    ++g_process;
    g_file = file;
    t.inside = true;
    begin_thread();
    t.countdown = 0;
    note_modules();
    note_time();
    t.inside = false;
}

// In the child: what the parent's threads were doing belongs to no thread now.
void begin_child() {
    if (g_file) munmap(g_file, g_bytes);
    if (g_descriptor >= 0 && descriptor_is_ours()) close(g_descriptor);
    g_file = nullptr;
    g_descriptor = -1;
    g_open = 0;
    g_file_lock.held = g_window_lock.held = g_follow_lock.held = 0;
    memset(g_filter, 0, sizeof g_filter);
    for (std::size_t at = 0; at < g_arena_used && at < sizeof g_arena; at += 16)
        send_to_slow_path(g_arena + at);
    memset(g_places, 0, sizeof g_places);
    memset(g_stacks, 0, sizeof g_stacks);
    memset(g_types, 0, sizeof g_types);
    g_followed_count = g_type_count = g_threads = 0;
    g_segment_count = 0;
    begin_process();
}

[[gnu::constructor]] void on_load() {
    if (real_malloc == first_malloc) resolve();
    begin_process();
    pthread_atfork(nullptr, nullptr, begin_child);
}

[[gnu::destructor]] void on_exit() {
    if (!g_file) return;
    if (g_open) close_window();
    note_time();
    __atomic_fetch_or(&g_file->flags, flag_ended, __ATOMIC_RELAXED);
}

}  // namespace

#define RECORDER_EXPORT __attribute__((visibility("default")))

extern "C" {

RECORDER_EXPORT void* malloc(std::size_t size) { return allocate(size, RECORDER_CALLER); }

RECORDER_EXPORT void free(void* p) { deallocate(p); }

RECORDER_EXPORT void* calloc(std::size_t count, std::size_t size) {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return real_calloc(count, size);
    if (RECORDER_UNLIKELY((--t.countdown < 0) | (g_open != 0)))
        return allocate_slow<request::zeroed>(bytes, 0, RECORDER_CALLER);
    return real_calloc(count, size);
}

RECORDER_EXPORT void* realloc(void* p, std::size_t size) {
    return p ? reallocate(p, size, RECORDER_CALLER) : allocate(size, RECORDER_CALLER);
}

RECORDER_EXPORT void* reallocarray(void* p, std::size_t count, std::size_t size) {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return nullptr;
    }
    return p ? reallocate(p, bytes, RECORDER_CALLER) : allocate(bytes, RECORDER_CALLER);
}

RECORDER_EXPORT void* memalign(std::size_t align, std::size_t size) {
    return allocate_aligned(align, size, RECORDER_CALLER);
}

RECORDER_EXPORT void* aligned_alloc(std::size_t align, std::size_t size) {
    return allocate_aligned(align, size, RECORDER_CALLER);
}

RECORDER_EXPORT int posix_memalign(void** to, std::size_t align, std::size_t size) {
    if (align % sizeof(void*) != 0 || (align & (align - 1)) != 0 || align == 0) return EINVAL;
    const int error = errno;
    void* p = allocate_aligned(align, size, RECORDER_CALLER);
    errno = error;  // it says by its value what went wrong
    if (!p) return ENOMEM;
    *to = p;
    return 0;
}

// operator new and delete, by their mangled names: their caller is the code that creates the object, where malloc's
// caller would be operator new itself.
RECORDER_EXPORT void* _Znwm(std::size_t size) {
    if (RECORDER_UNLIKELY(g_new_is_the_users)) return real_new(size);
    if (void* p = allocate(size ? size : 1, RECORDER_CALLER)) return p;
    return real_new ? real_new(size) : (abort(), nullptr);  // calls the new handler, throws
}
RECORDER_EXPORT void* _Znam(std::size_t size) {
    if (RECORDER_UNLIKELY(g_new_is_the_users)) return real_new(size);
    if (void* p = allocate(size ? size : 1, RECORDER_CALLER)) return p;
    return real_new ? real_new(size) : (abort(), nullptr);
}
RECORDER_EXPORT void _ZdlPv(void* p) {
    RECORDER_UNLIKELY(g_new_is_the_users) ? real_delete(p) : deallocate(p);
}
RECORDER_EXPORT void _ZdaPv(void* p) {
    RECORDER_UNLIKELY(g_new_is_the_users) ? real_delete(p) : deallocate(p);
}
RECORDER_EXPORT void _ZdlPvm(void* p, std::size_t) {
    RECORDER_UNLIKELY(g_new_is_the_users) ? real_delete(p) : deallocate(p);
}
RECORDER_EXPORT void _ZdaPvm(void* p, std::size_t) {
    RECORDER_UNLIKELY(g_new_is_the_users) ? real_delete(p) : deallocate(p);
}

}  // extern "C"
