// SPDX-License-Identifier: BSL-1.0
// Stacks, and objects that are followed from their allocation to their deallocation. The filter has for each followed object
// a byte that is not 0; `free` looks at it, and at the table only then.
// A part of recorder.cpp, which alone includes it.
#pragma once

#include "recorder/types.hpp"

namespace {

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

// Keeps a random half of them: those that are never freed would fill the table.
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
        const std::uint64_t usable = real_usable_size ? real_usable_size(const_cast<void*>(object)) : 0;
        write_sample({table[at].id, tick(), usable, table[at].size, 0, type,
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

}  // namespace
