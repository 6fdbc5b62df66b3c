// SPDX-License-Identifier: BSL-1.0
// The file in which the recorder writes what a process allocated; poolprofile/trace-format.md is its description.
//
//   header_bytes               block_bytes   block_bytes
//   | file_header, windows[] | block       | block       | ...
//
// A block belongs to one thread and holds records of one kind; `used` says how many of its bytes are written. All
// numbers are in the byte order of the machine. No record holds a byte of an object: only addresses, sizes and times.
#pragma once

#include <cstdint>

namespace poolbench_trace {

inline constexpr char k_magic[8] = {'p', 'o', 'o', 'l', 't', 'r', 'c', '\n'};
inline constexpr std::uint32_t k_version = 2;
inline constexpr std::uint32_t k_header_bytes = 64 << 10;
inline constexpr std::uint32_t k_block_bytes = 16 << 10;
inline constexpr std::uint32_t k_most_windows = 1000;
inline constexpr std::uint32_t k_path_bytes = 1024;
inline constexpr std::uint32_t k_session_bytes = 1024;

// While a window is open, every event of every thread is recorded.
struct window {
    std::uint64_t begin;  // ticks
    std::uint64_t end;    // 0: the process ended in it
    std::uint64_t cpu_begin_ns;
    std::uint64_t cpu_end_ns;
};

struct file_header {
    char magic[8];
    std::uint32_t version;
    std::uint32_t header_bytes;
    std::uint32_t block_bytes;
    std::uint32_t windows;  // opened so far
    std::uint32_t pid;
    std::uint32_t flags;  // flag_…
    std::uint64_t used;   // bytes of the file that hold something
    std::uint64_t begin_tick;
    std::uint64_t begin_ns;  // CLOCK_MONOTONIC
    std::uint64_t last_tick;
    std::uint64_t last_ns;
    std::uint64_t last_cpu_ns;       // processor time of the process, all threads
    std::uint64_t clock_cost_ticks;  // from one reading of the counter to the next, on average
    char program[k_path_bytes];
    window window_of[k_most_windows];
    // JSON, written by poolbench when the process has ended: machine, date, load.
    char session[k_session_bytes];
};
static_assert(sizeof(file_header) <= k_header_bytes);

enum : std::uint32_t {
    flag_full = 1,   // the size bound was reached: what followed is missing
    flag_ended = 2,  // the process ended by exit
};

enum class block_kind : std::uint32_t {
    unused = 0,
    events = 1,
    samples = 2,
    texts = 3,
    long_calls = 4,
    faults = 5
};
inline constexpr int k_block_kinds = 6;

struct block_header {
    block_kind kind;
    std::uint32_t thread;
    std::uint32_t used;  // bytes of records behind this header
    std::uint32_t reserved;
};

enum class event_kind : std::uint8_t { allocate = 1, deallocate = 2, resize_new = 3, resize_old = 4 };

// The time of an allocation is taken behind it, that of a deallocation before it: sorted by time, an address is always
// freed before it is given out again, whichever threads do it.
struct event {
    std::uint64_t tick;
    std::uint64_t address;
    std::uint64_t caller;     // who called malloc or operator new; 0: a deallocation
    std::uint64_t kind : 4;   // event_kind
    std::uint64_t align : 6;  // log2; 0: malloc's own
    std::uint64_t cost : 18;  // ticks of processor time that the call took, a reading of the counter included
    std::uint64_t size : 36;  // bytes asked for; of a deallocation the usable bytes
};
static_assert(sizeof(event) == 32);

// An object that is followed from its allocation to its deallocation, windows or not.
struct sample {
    std::uint64_t id;  // the same at the object's end
    std::uint64_t tick;
    std::uint64_t caller;  // of a deallocation the usable bytes; 0: unknown
    std::uint64_t size;
    std::uint32_t weight;  // how many allocations it stands for; 0: this is an end
    std::uint32_t text;    // of a begin its stack, of an end its type; 0: unknown
    std::uint32_t end;     // sample_end
    std::uint32_t gap;     // allocations of this thread since its last sample
};
static_assert(sizeof(sample) == 48);

enum class sample_end : std::uint32_t { none = 0, freed = 1, not_followed = 2 };

// A call to malloc that took long, inside and outside of windows: glibc merges all the small blocks that were freed when
// it is asked for 1 KiB or more. One such call can take as long as a million others, and a window hardly ever meets it.
struct long_call {
    std::uint64_t tick;  // at its end
    std::uint64_t caller;
    std::uint64_t size;
    std::uint64_t cost;  // ticks of processor time
};
static_assert(sizeof(long_call) == 32);

// How many page faults the process had had when a window began or ended, and the most pages that were resident until then,
// both without those of this file. A fault in malloc is the cost of new memory, which the program needs with any malloc and
// any pool; but where there were more faults than pages, malloc gave memory back and took it again.
struct faults {
    std::uint64_t tick;  // the window's begin or end
    std::uint64_t count;
    std::uint64_t pages;
};
static_assert(sizeof(faults) == 24);

enum class text_kind : std::uint32_t { stack = 1, type = 2, module = 3 };

// Behind it: of a stack return addresses, innermost first; of a type its mangled name; of a module its base address,
// the end of its mapping and its path. Padded to 8 bytes.
struct text {
    text_kind kind;
    std::uint32_t id;
    std::uint32_t bytes;
    std::uint32_t reserved;
};

}  // namespace poolbench_trace
