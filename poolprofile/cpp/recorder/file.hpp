// SPDX-License-Identifier: BSL-1.0
// The mapped file, and what each thread writes to: blocks of its own, so that a record takes no lock. Bytes are reserved
// before they are written, for a write to a mapped page that the disk has no place for ends the process.
// A part of recorder.cpp, which alone includes it.
#pragma once

#include "recorder/real_malloc.hpp"

namespace {

// --- what every call looks at

std::uint32_t g_open = 0;  // 1: a window is open
std::uint8_t g_filter[1u << k_filter_bits];

struct thread_state {
    std::int64_t countdown;  // allocations until the next look at the clock, which is the next sample
    bool counted;            // the countdown was drawn at random: a thread's first is not
    bool inside;             // this thread is in the recorder: what it allocates there is not recorded
    std::uint32_t id;
    std::uint32_t gap;  // the countdown, as it was drawn
    std::uint32_t period;
    std::uint64_t random;
    std::uint64_t began;        // ticks
    std::uint64_t spent;        // ticks in stacks
    std::uint64_t allocations;  // until the last sample
    std::uint64_t read_tick;    // when the thread's processor time was read last
    std::uint64_t read_ns;      // and what it was
    std::uint64_t large_tick;   // when it last made a call that may merge
    std::uint32_t process;
    block_header* block[k_block_kinds];
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

}  // namespace
