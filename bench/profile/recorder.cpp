// SPDX-License-Identifier: BSL-1.0
// Preloaded into a program, records what it allocates: `poolbench profile`.
//
// Two records at once, of two kinds of completeness:
//   windows  A few milliseconds at a time, every call of every thread is recorded, with its time and its caller. Only
//            a complete order can be replayed. Windows get rarer as a program runs longer.
//   samples  Between them one allocation in `period` is recorded with its stack and is followed to its end, however
//            late. The period adapts, so that stacks take 1 % of a thread's time; each sample has its weight.
//
// Outside a window a call costs a countdown (malloc) or the lookup of one byte (free) and a jump. The recorder has no
// thread and no timer: threads would make libstdc++'s reference counts atomic, signals would interrupt system calls.
// Whoever allocates looks at the clock now and then.
//
// The file is mapped and its blocks are reserved before they are written: a process that dies of any signal leaves all
// that it recorded, and a full disk ends the recording, not the program. No lock is held around a call of the program's
// malloc. A forked child begins a file of its own. Needs no C++ library: the program brings its own, or has none.
#include "trace_format.hpp"

#include <link.h>
#include <time.h>
#include <unwind.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

using namespace poolbench_trace;

#define RECORDER_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define RECORDER_SLOW [[gnu::noinline, gnu::cold]]

constexpr std::uint64_t k_window_ns = 3'000'000;
constexpr std::uint64_t k_first_gap_ns = 60'000'000;  // the gap doubles after every k_windows_a_gap windows
constexpr std::uint64_t k_usual_gap_ns = 120'000'000;
constexpr std::uint32_t k_windows_a_gap = 16;
constexpr std::uint32_t k_blocks_a_window = 256;  // 130,000 events
constexpr std::uint32_t k_blocks_reserved = 16;   // at once
constexpr std::uint64_t k_default_bytes = 192 << 20;
constexpr std::uint32_t k_least_period = 64;
constexpr std::uint32_t k_most_period = 1 << 20;
constexpr std::uint64_t k_fewest_samples = 64;
constexpr std::uint64_t k_sampling_share = 100;  // a hundredth of a thread's time
constexpr int k_most_frames = 40;
constexpr std::uint32_t k_stacks = 1 << 14;
constexpr std::uint32_t k_types = 1 << 10;
constexpr std::uint32_t k_followed = 1 << 12;
constexpr std::uint32_t k_filter_bits = 16;

// --- the clock

inline std::uint64_t tick() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t now;
    asm volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
#endif
}

std::uint64_t nanoseconds(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// --- the program's own malloc, behind this library

void* first_malloc(std::size_t size);
void* first_calloc(std::size_t count, std::size_t size);
void* first_realloc(void* p, std::size_t size);
void first_free(void* p);
void* first_memalign(std::size_t align, std::size_t size);

void* (*real_malloc)(std::size_t) = first_malloc;
void* (*real_calloc)(std::size_t, std::size_t) = first_calloc;
void* (*real_realloc)(void*, std::size_t) = first_realloc;
void (*real_free)(void*) = first_free;
void* (*real_memalign)(std::size_t, std::size_t) = first_memalign;
std::size_t (*real_usable_size)(void*) = nullptr;
void* (*real_new)(std::size_t) = nullptr;  // reports exhaustion
void (*real_delete)(void*) = nullptr;
bool g_new_is_the_users =
    false;  // operator new is not the standard library's: it may do more than call malloc

// What dlsym allocates while it looks for malloc; never freed.
alignas(16) char g_arena[32 << 10];
std::size_t g_arena_used = 0;
__thread bool t_resolving __attribute__((tls_model("initial-exec"))) = false;

bool in_arena(const void* p) { return p >= g_arena && p < g_arena + sizeof g_arena; }

void send_to_slow_path(const void* p);

void* from_arena(std::size_t size) {
    const std::size_t at =
        __atomic_fetch_add(&g_arena_used, (size + 15) & ~std::size_t{15}, __ATOMIC_RELAXED);
    if (at + size > sizeof g_arena) return nullptr;
    send_to_slow_path(g_arena + at);
    return g_arena + at;
}

template <class Function>
void find_next(Function*& function, const char* name) {
    if (void* found = dlsym(RTLD_NEXT, name))
        __atomic_store_n(&function, reinterpret_cast<Function*>(found), __ATOMIC_RELEASE);
}

RECORDER_SLOW void resolve() {
    t_resolving = true;
    find_next(real_usable_size, "malloc_usable_size");
    find_next(real_new, "_Znwm");
    find_next(real_delete, "_ZdlPv");
    Dl_info where;
    if (real_new && dladdr(reinterpret_cast<void*>(real_new), &where) && where.dli_fname) {
        const char* name = where.dli_fname;
        g_new_is_the_users = !strstr(name, "libstdc++") && !strstr(name, "libc++") && !strstr(name, "malloc");
    }
    find_next(real_calloc, "calloc");
    find_next(real_realloc, "realloc");
    find_next(real_memalign, "memalign");
    find_next(real_free, "free");
    find_next(real_malloc, "malloc");
    t_resolving = false;
}

void* first_malloc(std::size_t size) {
    if (t_resolving) return from_arena(size);
    resolve();
    return real_malloc(size);
}
void* first_calloc(std::size_t count, std::size_t size) {
    if (t_resolving) return from_arena(count * size);  // the arena is zero, and nothing in it is used twice
    resolve();
    return real_calloc(count, size);
}
void* first_realloc(void* p, std::size_t size) {
    if (!t_resolving) resolve();
    return real_realloc == first_realloc ? nullptr : real_realloc(p, size);
}
void first_free(void* p) {
    if (t_resolving) return;
    resolve();
    real_free(p);
}
void* first_memalign(std::size_t align, std::size_t size) {
    if (!t_resolving) resolve();
    return real_memalign == first_memalign ? nullptr : real_memalign(align, size);
}

// --- what every call looks at

std::uint32_t g_open = 0;  // 1: a window is open
std::uint8_t g_filter[1u << k_filter_bits];

struct thread_state {
    std::int64_t countdown;  // allocations until the next look at the clock, which is the next sample
    bool counted;            // the countdown was drawn by lot: a thread's first is not
    bool inside;             // this thread is in the recorder: what it allocates there is not recorded
    std::uint32_t id;
    std::uint32_t gap;  // the countdown, as it was drawn
    std::uint32_t period;
    std::uint64_t random;
    std::uint64_t began;        // ticks
    std::uint64_t spent;        // ticks in stacks
    std::uint64_t allocations;  // until the last sample
    std::uint32_t process;
    block_header* block[4];  // by kind
};
__thread thread_state t __attribute__((tls_model("initial-exec")));

inline std::uint32_t filter_place(const void* p) {
    return static_cast<std::uint32_t>(((reinterpret_cast<std::uintptr_t>(p) >> 4) * 0x9E3779B97F4A7C15u) >>
                                      (64 - k_filter_bits));
}

// For ever: it is no address that the program's free may see.
void send_to_slow_path(const void* p) { g_filter[filter_place(p)] = 255; }

// --- the file

file_header* g_file = nullptr;  // null: nothing is recorded
std::uint64_t g_bytes = 0;
std::uint64_t g_reserved = 0;
int g_descriptor = -1;
struct stat g_identity;
std::uint32_t g_process = 0;  // counts forks: a thread's blocks belong to one process
std::uint32_t g_threads = 0;
double g_ticks_per_ns = 1;

struct spin_lock {
    std::uint32_t held = 0;
    bool try_lock() { return __atomic_exchange_n(&held, 1, __ATOMIC_ACQUIRE) == 0; }  // pairs with unlock
    void lock() {
        while (!try_lock())
            sched_yield_a_while();
    }
    void unlock() { __atomic_store_n(&held, 0, __ATOMIC_RELEASE); }  // pairs with try_lock
    static void sched_yield_a_while() {
        timespec pause{0, 1000};
        nanosleep(&pause, nullptr);
    }
};

spin_lock g_file_lock, g_window_lock, g_follow_lock;

void stop_recording() {
    __atomic_store_n(&g_open, 0, __ATOMIC_RELAXED);
    if (g_file) __atomic_fetch_or(&g_file->flags, flag_full, __ATOMIC_RELAXED);
}

// The descriptor is still ours: programs close those they did not open, and open others under the same number.
bool descriptor_is_ours() {
    struct stat now;
    return fstat(g_descriptor, &now) == 0 && now.st_ino == g_identity.st_ino &&
           now.st_dev == g_identity.st_dev;
}

// Null when the file is full. A page that was not reserved could not be written on a full disk, and would kill.
RECORDER_SLOW block_header* new_block(block_kind kind) {
    block_header* found = nullptr;
    g_file_lock.lock();
    const std::uint64_t at = g_file->used;
    if (at + k_block_bytes <= g_bytes) {
        if (at + k_block_bytes > g_reserved) {
            const std::uint64_t more = k_block_bytes * k_blocks_reserved;
            if (descriptor_is_ours() && posix_fallocate(g_descriptor, static_cast<off_t>(g_reserved),
                                                        static_cast<off_t>(more)) == 0) {
#if defined(MADV_POPULATE_WRITE)
                madvise(reinterpret_cast<char*>(g_file) + g_reserved, more, MADV_POPULATE_WRITE);
#endif
                g_reserved += more;
            }
        }
        if (at + k_block_bytes <= g_reserved) {
            found = reinterpret_cast<block_header*>(reinterpret_cast<char*>(g_file) + at);
            found->thread = t.id;
            found->used = 0;
            found->kind = kind;
            g_file->used = at + k_block_bytes;
        }
    }
    g_file_lock.unlock();
    if (!found) stop_recording();
    t.block[static_cast<int>(kind)] = found;
    return found;
}

// The place of a record of so many bytes, which `written` makes part of the file; null when there is none left.
inline void* place(block_kind kind, std::uint32_t bytes) {
    block_header* block = t.block[static_cast<int>(kind)];
    if (RECORDER_UNLIKELY(!block || block->used + bytes > k_block_bytes - sizeof(block_header))) {
        if (g_file->flags & flag_full) return nullptr;
        block = new_block(kind);
        if (!block) return nullptr;
    }
    return reinterpret_cast<char*>(block + 1) + block->used;
}

inline void written(block_kind kind, std::uint32_t bytes) {
    asm volatile("" ::: "memory");  // the record, then its count: a process may die in between
    t.block[static_cast<int>(kind)]->used += bytes;
}

void write_text(text_kind kind, std::uint32_t id, const void* head, std::size_t head_bytes,
                const char* tail) {
    std::size_t const tail_bytes = strlen(tail);
    std::size_t const bytes = head_bytes + tail_bytes;
    std::size_t const padded = sizeof(text) + ((bytes + 7) & ~std::size_t{7});
    if (padded > k_block_bytes / 2) return;
    auto* to = static_cast<text*>(place(block_kind::texts, static_cast<std::uint32_t>(padded)));
    if (!to) return;
    *to = {kind, id, static_cast<std::uint32_t>(bytes), 0};
    memcpy(reinterpret_cast<char*>(to + 1), head, head_bytes);
    memcpy(reinterpret_cast<char*>(to + 1) + head_bytes, tail, tail_bytes);
    written(block_kind::texts, static_cast<std::uint32_t>(padded));
}

// --- modules, and the type of an object from its virtual table

struct segment {
    std::uintptr_t begin, end;
};
constexpr int k_most_segments = 2048;
segment g_segments[k_most_segments];
int g_segment_count = 0;
unsigned long long g_loads = 0;

struct module_walk {
    int segments = 0;
    unsigned long long loads = 0;
    bool changed = false;
};

int each_module(dl_phdr_info* info, std::size_t, void* data) {
    auto& walk = *static_cast<module_walk*>(data);
    if (walk.loads == 0) {
        walk.loads = info->dlpi_adds + info->dlpi_subs;
        walk.changed = walk.loads != g_loads;
        if (!walk.changed) return 1;
    }
    std::uintptr_t first = ~std::uintptr_t{0}, last = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& header = info->dlpi_phdr[i];
        if (header.p_type != PT_LOAD) continue;
        const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr, end = begin + header.p_memsz;
        first = begin < first ? begin : first;
        last = end > last ? end : last;
        if ((header.p_flags & PF_R) && !(header.p_flags & PF_X) && walk.segments < k_most_segments)
            g_segments[walk.segments++] = {begin, end};
    }
    const std::uint64_t about[3] = {info->dlpi_addr, first, last};
    write_text(text_kind::module, 0, about, sizeof about,
               info->dlpi_name[0] ? info->dlpi_name : g_file->program);
    return 0;
}

void note_modules() {
    module_walk walk;
    dl_iterate_phdr(each_module, &walk);
    if (!walk.changed) return;
    g_segment_count = walk.segments;
    g_loads = walk.loads;
}

bool in_a_segment(std::uintptr_t p) {
    for (int i = 0; i < g_segment_count; ++i)
        if (p >= g_segments[i].begin && p < g_segments[i].end) return true;
    return false;
}

// Reads what may have been unmapped since.
bool read_safely(std::uintptr_t from, void* to, std::size_t bytes) {
    iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

struct type_entry {
    std::uintptr_t table;
    std::uint32_t id;  // 0: it is none
};
type_entry g_types[k_types];
std::uint32_t g_type_count = 0;

// The type whose virtual table the object's first word points to: a control block says by it what it holds. 0 when it
// does not look like one. Called under g_follow_lock.
std::uint32_t type_of(const void* object) {
    std::uintptr_t table;
    memcpy(&table, object, sizeof table);
    if (table % sizeof(void*) != 0 || !in_a_segment(table)) return 0;
    std::uint32_t at = static_cast<std::uint32_t>((table >> 3) * 0x9E3779B97F4A7C15u >> 40) % k_types;
    for (std::uint32_t probes = 0; g_types[at].table; ++probes, at = (at + 1) % k_types) {
        if (g_types[at].table == table) return g_types[at].id;
        if (probes > k_types / 2) return 0;
    }
    g_types[at].table = table;
    std::uintptr_t before[2], info[2];  // offset to top and type_info; its own virtual table and its name
    if (!read_safely(table - sizeof before, before, sizeof before) || !in_a_segment(before[1])) return 0;
    if (!read_safely(before[1], info, sizeof info) || !in_a_segment(info[0]) || !in_a_segment(info[1]))
        return 0;
    char name[4096];
    std::size_t length = 0;
    for (; length + 64 < sizeof name; length += 64) {
        if (!read_safely(info[1] + length, name + length, 64)) return 0;
        if (const void* end = memchr(name + length, 0, 64)) {
            length = static_cast<std::size_t>(static_cast<const char*>(end) - name);
            break;
        }
    }
    name[length < sizeof name ? length : sizeof name - 1] = 0;
    if (length < 2) return 0;
    for (std::size_t i = 0; i < length; ++i)
        if (name[i] < '!' || name[i] > '~') return 0;
    const std::uint32_t id = ++g_type_count;
    g_types[at].id = id;
    write_text(text_kind::type, id, nullptr, 0, name);
    return id;
}

// --- stacks

struct walk {
    std::uintptr_t frames[k_most_frames];
    int count = 0;
    std::uintptr_t from;  // the recorder's own frames are left out: those before this one
    bool begun = false;
};

_Unwind_Reason_Code each_frame(_Unwind_Context* context, void* data) {
    auto& found = *static_cast<walk*>(data);
    const std::uintptr_t address = _Unwind_GetIP(context);
    if (!address) return _URC_END_OF_STACK;
    found.begun = found.begun || address == found.from;
    if (!found.begun) return _URC_NO_REASON;
    found.frames[found.count++] = address;
    return found.count == k_most_frames ? _URC_END_OF_STACK : _URC_NO_REASON;
}

std::uint64_t g_stacks[k_stacks];  // hashes; a stack's number is its place and one

std::uint32_t stack_of(std::uintptr_t caller) {
    walk found;
    found.from = caller;
    _Unwind_Backtrace(each_frame, &found);
    if (found.count == 0) found.frames[found.count++] = caller;
    std::uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < found.count; ++i)
        hash = (hash ^ found.frames[i]) * 1099511628211u;
    hash |= 1;
    std::uint32_t at = static_cast<std::uint32_t>(hash >> 32) % k_stacks;
    for (int probes = 0; probes < 16; ++probes, at = (at + 1) % k_stacks) {
        std::uint64_t there = 0;
        if (__atomic_compare_exchange_n(&g_stacks[at], &there, hash, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            write_text(text_kind::stack, at + 1, found.frames,
                       static_cast<std::size_t>(found.count) * sizeof(std::uintptr_t), "");
            return at + 1;
        }
        if (there == hash) return at + 1;
    }
    return 0;
}

// --- objects that are followed

struct followed {
    const void* object;  // null: the place is free
    std::uint64_t id;
    std::uint64_t size;
};
constexpr std::uint32_t k_places = 2 * k_followed;
followed g_places[2][k_places];
int g_half = 0;  // of the two tables the one in use
std::uint32_t g_followed_count = 0;
std::uint64_t g_sample_ids = 0;

void write_sample(const sample& what) {
    if (void* to = place(block_kind::samples, sizeof(sample))) {
        memcpy(to, &what, sizeof what);
        written(block_kind::samples, sizeof(sample));
    }
}

void put(followed* table, const followed& what) {
    std::uint32_t at = filter_place(what.object) % k_places;
    while (table[at].object)
        at = (at + 1) % k_places;
    table[at] = what;
}

void count_in_filter(const void* p, int by) {
    std::uint8_t& count = g_filter[filter_place(p)];
    if (count != 255)
        count = static_cast<std::uint8_t>(count + by);  // a full one stays: it only costs a lookup
}

// Half of them, by lot: those that are never freed would fill the table.
void follow_fewer() {
    followed* from = g_places[g_half];
    followed* to = g_places[1 - g_half];
    memset(to, 0, sizeof g_places[0]);
    const std::uint64_t now = tick();
    for (std::uint32_t i = 0; i < k_places; ++i) {
        if (!from[i].object) continue;
        t.random = t.random * 6364136223846793005u + 1442695040888963407u;
        if (t.random >> 63) {
            put(to, from[i]);
        } else {
            count_in_filter(from[i].object, -1);
            --g_followed_count;
            write_sample({from[i].id, now, 0, from[i].size, 0, 0,
                          static_cast<std::uint32_t>(sample_end::not_followed), 0});
        }
    }
    g_half = 1 - g_half;
}

void follow(const void* object, std::uint64_t id, std::uint64_t size) {
    g_follow_lock.lock();
    if (g_followed_count == k_followed) follow_fewer();
    put(g_places[g_half], {object, id, size});
    ++g_followed_count;
    count_in_filter(object, 1);
    g_follow_lock.unlock();
}

// The object is about to be freed.
void unfollow(const void* object) {
    g_follow_lock.lock();
    followed* table = g_places[g_half];
    std::uint32_t at = filter_place(object) % k_places;
    while (table[at].object && table[at].object != object)
        at = (at + 1) % k_places;
    if (table[at].object) {
        const std::uint32_t type = table[at].size >= sizeof(void*) ? type_of(object) : 0;
        write_sample({table[at].id, tick(), 0, table[at].size, 0, type,
                      static_cast<std::uint32_t>(sample_end::freed), 0});
        count_in_filter(object, -1);
        --g_followed_count;
        // Those behind it that began at or before this place move up.
        std::uint32_t hole = at;
        for (std::uint32_t next = (hole + 1) % k_places; table[next].object; next = (next + 1) % k_places) {
            const std::uint32_t home = filter_place(table[next].object) % k_places;
            if ((next - home) % k_places >= (next - hole) % k_places) {
                table[hole] = table[next];
                hole = next;
            }
        }
        table[hole].object = nullptr;
    }
    g_follow_lock.unlock();
}

// --- windows

std::uint64_t g_next_window = 0;  // ticks
std::uint64_t g_window_end = 0;
std::uint64_t g_window_first_byte = 0;

std::uint64_t ticks(double ns) { return static_cast<std::uint64_t>(ns * g_ticks_per_ns); }

void note_time() {
    g_file->last_ns = nanoseconds(CLOCK_MONOTONIC);
    g_file->last_cpu_ns = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    g_file->last_tick = tick();
    const std::uint64_t passed = g_file->last_ns - g_file->begin_ns;
    if (passed > 1'000'000)
        g_ticks_per_ns =
            static_cast<double>(g_file->last_tick - g_file->begin_tick) / static_cast<double>(passed);
}

RECORDER_SLOW void open_window() {
    if (!g_window_lock.try_lock()) return;  // another thread is at it
    if (!g_open && tick() >= g_next_window && !(g_file->flags & flag_full)) {
        note_modules();
        note_time();
        if (g_file->windows < k_most_windows) {
            window& now = g_file->window_of[g_file->windows];
            now = {tick(), 0, g_file->last_cpu_ns, 0};
            g_window_end = now.begin + ticks(k_window_ns);
            g_window_first_byte = g_file->used;
            ++g_file->windows;
            __atomic_store_n(&g_open, 1, __ATOMIC_RELAXED);
        } else {
            g_next_window = tick() + ticks(1e9);  // only the time is noted from here on
        }
    }
    g_window_lock.unlock();
}

RECORDER_SLOW void close_window() {
    if (!g_window_lock.try_lock()) return;
    if (g_open) {
        __atomic_store_n(&g_open, 0, __ATOMIC_RELAXED);
        note_time();
        window& now = g_file->window_of[g_file->windows - 1];
        now.cpu_end_ns = g_file->last_cpu_ns;
        now.end = g_file->last_tick;
        // Short programs get several windows, long ones no more than the file can hold.
        const std::uint32_t round = g_file->windows / k_windows_a_gap;
        const double gap = round == 0 ? k_first_gap_ns
                                      : static_cast<double>(k_usual_gap_ns << (round < 12 ? round - 1 : 11));
        const double chance =
            0.75 + 0.5 * static_cast<double>(tick() * 0x9E3779B97F4A7C15u >> 32) / 4294967296.0;
        g_next_window = now.end + ticks(gap * chance);
    }
    g_window_lock.unlock();
}

inline void write_event(const event& what, std::uint64_t now) {
    if (void* to = place(block_kind::events, sizeof(event))) {
        memcpy(to, &what, sizeof what);
        written(block_kind::events, sizeof(event));
    }
    if (RECORDER_UNLIKELY(now >= g_window_end ||
                          g_file->used - g_window_first_byte > k_blocks_a_window * k_block_bytes))
        close_window();
}

inline std::uint64_t cost_of(std::uint64_t ticks) { return ticks < (1u << 18) ? ticks : (1u << 18) - 1; }

// --- a thread's countdown

// Allocations until the next sample: exponentially distributed, so that no rhythm of the program is met.
std::int64_t next_countdown() {
    t.random = t.random * 6364136223846793005u + 1442695040888963407u;
    // -ln(u) by the bits before the first one, and the rest in a straight line: right within 6 %, on average exact.
    const std::uint64_t bits = (t.random >> 11) | 1;  // 53 of them
    const int zeros = __builtin_clzll(bits) - 11;
    const double mantissa =
        static_cast<double>(bits) / static_cast<double>(std::uint64_t{1} << (52 - zeros));  // in [1, 2)
    const double minus_log = (static_cast<double>(zeros + 1) - (mantissa - 1)) * 0.69314718 * 0.9427;
    return static_cast<std::int64_t>(minus_log * t.period) + 1;
}

void begin_thread() {
    const std::uint64_t now = tick();
    t.process = g_process;
    t.counted = false;
    t.id = __atomic_add_fetch(&g_threads, 1, __ATOMIC_RELAXED);
    t.random = (now ^ (static_cast<std::uint64_t>(t.id) << 40)) * 0x9E3779B97F4A7C15u;
    t.began = now;
    t.spent = 0;
    t.allocations = 0;
    t.period = k_least_period;
    memset(t.block, 0, sizeof t.block);
}

// Whether this thread may record now; begins it when it is new, or in a new process.
inline bool may_record() {
    if (t.inside || !g_file) return false;
    if (RECORDER_UNLIKELY(t.process != g_process)) begin_thread();
    return true;
}

// The weight of a sample is the period by which it was chosen.
void take_sample(const void* object, std::size_t size, std::uintptr_t caller, std::uint64_t began) {
    const std::uint64_t id = __atomic_add_fetch(&g_sample_ids, 1, __ATOMIC_RELAXED);
    if (!(g_file->flags & flag_full)) {
        write_sample({id, began, caller, size, t.period, stack_of(caller), 0, t.gap});
        follow(object, id, size);
    }
    const std::uint64_t now = tick();
    t.spent += now - began;
    const std::uint64_t lived = now - t.began;
    const std::uint64_t share = lived / k_sampling_share;
    // A file that fills up has to last: the least period doubles with each eighth of it.
    const std::uint32_t least = k_least_period << (g_file->used * 8 / g_bytes);
    // The first stacks are slow, and a short program must not be left with three samples.
    t.allocations += t.gap;
    if (t.spent > share && t.period < k_most_period && t.period < t.allocations / k_fewest_samples)
        t.period *= 2;
    else if (t.spent < share / 2 && t.period > least)
        t.period /= 2;
}

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
    const std::uint64_t began = tick();
    t.inside = false;
    void* object = call_real<How>(size, align);
    t.inside = true;
    const std::uint64_t ended = tick();
    const int error = errno;
    if (object && g_open) {
        write_event({ended, reinterpret_cast<std::uint64_t>(object), caller,
                     static_cast<std::uint64_t>(event_kind::allocate),
                     How == request::aligned ? log2_of(align) : 0, cost_of(ended - began), size},
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

// malloc, and operator new on it. `--countdown` and the window's flag are all that is looked at.
inline void* allocate(std::size_t size, std::uintptr_t caller) {
    if (RECORDER_UNLIKELY((--t.countdown < 0) | (g_open != 0)))
        return allocate_slow<request::plain>(size, 0, caller);
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
            const std::uint64_t began = tick();
            t.inside = false;
            real_free(p);
            t.inside = true;
            const std::uint64_t ended = tick();
            write_event({began, reinterpret_cast<std::uint64_t>(p), 0,
                         static_cast<std::uint64_t>(event_kind::deallocate), 0, cost_of(ended - began), size},
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
    const std::uint64_t began = tick();
    t.inside = false;
    void* moved = real_realloc(p, size);
    t.inside = true;
    const std::uint64_t ended = tick();
    const int error = errno;
    if (open && (moved || size == 0)) {
        // The old address ends at the call's begin, whatever another thread gets meanwhile.
        if (p)
            write_event({began, reinterpret_cast<std::uint64_t>(p), 0,
                         static_cast<std::uint64_t>(event_kind::resize_old), 0, 0, old},
                        began);
        if (moved)
            write_event({ended, reinterpret_cast<std::uint64_t>(moved), caller,
                         static_cast<std::uint64_t>(event_kind::resize_new), 0, cost_of(ended - began), size},
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
    // Without a rate from the system: count for a while.
    std::uint64_t least = ~std::uint64_t{0};
    std::uint64_t ns;
    do {
        const std::uint64_t first = tick(), second = tick();
        least = second - first < least ? second - first : least;
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

// In the child: what the parent's threads were at is nobody's now.
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

#define RECORDER_CALLER reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))

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
