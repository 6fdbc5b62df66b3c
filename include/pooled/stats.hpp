// SPDX-License-Identifier: BSL-1.0
#pragma once

// The statistics of a pool and of an object_pool. Plain structs; exact while no other thread uses the pool, otherwise a snapshot in which each thread's
// share may lag by its concurrent operations. Taking it costs other threads nothing.

#include "pooled/base/size_class.hpp"

#include <iosfwd>
#include <string>
#include <string_view>

POOLED_BEGIN_NAMESPACE

namespace detail {

// What a pool and a size class count, in blocks unless noted.
struct block_counts {
    std::uint64_t in_use = 0;  // held by callers
    std::uint64_t free = 0;    // in the pool and in no thread's cache, including those never used
    std::uint64_t cached = 0;  // free, in threads' caches
    // No more blocks were ever in use at once. Of a class: exact for one thread; of several, what the others had cached counts as well. Of a
    // pool: the sum of its classes' peaks, if not at one time, as far as it fits into the most memory that the pool ever had.
    std::uint64_t high_water = 0;
    std::uint64_t refills = 0;       // of threads' caches
    std::uint64_t flushes = 0;       // of threads' caches
    std::uint64_t remote_frees = 0;  // blocks that threads freed in excess of those they allocated

    block_counts& operator+=(block_counts const& other) noexcept {
        in_use += other.in_use;
        free += other.free;
        cached += other.cached;
        high_water += other.high_water;
        refills += other.refills;
        flushes += other.flushes;
        remote_frees += other.remote_frees;
        return *this;
    }
};

}  // namespace detail

// Of one size class.
struct size_class_stats : detail::block_counts {
    std::size_t block_bytes = 0;
    std::uint64_t slab_bytes = 0;  // memory of this class now
};

// The totals of a pool, including large allocations, and the counts of each class.
struct pool_stats : detail::block_counts {
    std::string name;
    std::uint64_t bytes_in_use = 0;        // whole blocks, not requested bytes
    std::uint64_t upstream_bytes = 0;      // taken from upstream and not returned
    std::uint64_t upstream_calls = 0;      // total allocations requested from upstream
    std::uint64_t max_bytes = 0;           // 0: not bounded
    std::uint64_t threads = 0;             // number of threads that have a cache
    std::uint64_t large_in_use = 0;        // allocations beyond the largest size class
    std::uint64_t large_bytes = 0;         // whole blocks, not requested bytes
    std::uint64_t large_cached_bytes = 0;  // size of freed large blocks that the pool keeps
    std::array<size_class_stats, detail::k_class_count> classes{};

    // One JSON object; `classes` lists the classes that have or had memory.
    [[nodiscard]] std::string to_json() const;
};

namespace detail {

// The length in bytes of the UTF-8 character at the front of `text`, which is not empty; 0 if it is not valid (RFC 3629: no
// overlong forms, no surrogates, nothing over U+10FFFF).
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) noexcept {
    auto const at = [text](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
    };
    unsigned const first = at(0);
    if (first < 0x80) return 1;
    std::size_t const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    unsigned const least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned const most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first < 0xc2 || first > 0xf4 || at(1) < least || at(1) > most) return 0;
    for (std::size_t i = 2; i < length; ++i)
        if (at(i) < 0x80 || at(i) > 0xbf) return 0;
    return length;
}

// Characters of a name that JSON does not allow are escaped; bytes that are not UTF-8 become the replacement character.
[[nodiscard]] inline std::string json_string(std::string_view text) {
    static constexpr char k_hex[] = "0123456789abcdef";
    std::string out = "\"";
    while (!text.empty()) {
        std::size_t const length = utf8_length(text);
        auto const byte = static_cast<unsigned char>(text.front());
        if (length == 0) {
            out += "\\ufffd";
        } else if (byte < 0x20) {
            out += "\\u00";
            out += k_hex[byte >> 4];
            out += k_hex[byte & 15];
        } else {
            if (byte == '"' || byte == '\\') out += '\\';
            out += text.substr(0, length);
        }
        text.remove_prefix(detail::larger<std::size_t>(length, 1));
    }
    return out + '"';
}

}  // namespace detail

inline std::string pool_stats::to_json() const {
    std::string out = "{\"name\":";
    out += detail::json_string(name);
    // Appends to `out`: GCC 12 warns, at -O3, of a string that is inserted in front.
    auto const field = [&out](char const* key, std::uint64_t value) {
        ((out += key) += ':') += std::to_string(value);
    };
    auto const counts = [&field](detail::block_counts const& of) {
        field(",\"in_use\"", of.in_use);
        field(",\"free\"", of.free);
        field(",\"cached\"", of.cached);
        field(",\"high_water\"", of.high_water);
        field(",\"refills\"", of.refills);
        field(",\"flushes\"", of.flushes);
        field(",\"remote_frees\"", of.remote_frees);
    };
    counts(*this);
    field(",\"bytes_in_use\"", bytes_in_use);
    field(",\"upstream_bytes\"", upstream_bytes);
    field(",\"upstream_calls\"", upstream_calls);
    field(",\"max_bytes\"", max_bytes);
    field(",\"threads\"", threads);
    field(",\"large_in_use\"", large_in_use);
    field(",\"large_bytes\"", large_bytes);
    field(",\"large_cached_bytes\"", large_cached_bytes);
    out += ",\"classes\":[";
    bool first = true;
    for (size_class_stats const& c : classes) {
        if (c.slab_bytes == 0 && c.high_water == 0) continue;
        field(first ? "{\"block_bytes\"" : ",{\"block_bytes\"", c.block_bytes);
        first = false;
        counts(c);
        field(",\"slab_bytes\"", c.slab_bytes);
        out += '}';
    }
    return out + "]}";
}

// A table for people: of the classes that have memory.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, pool_stats const& s) {
    out << "pool '" << s.name << "': " << s.in_use << " blocks in use (" << s.bytes_in_use << " bytes), "
        << s.free << " free, " << s.cached << " cached by " << s.threads << " threads, high water "
        << s.high_water << "; " << s.upstream_bytes << " bytes from upstream in " << s.upstream_calls
        << " calls";
    if (s.max_bytes != 0) out << " of at most " << s.max_bytes;
    out << "; " << s.refills << " refills and " << s.flushes << " flushes of threads' caches, "
        << s.remote_frees << " frees on another thread";
    for (size_class_stats const& c : s.classes) {
        if (c.slab_bytes == 0) continue;
        out << "\n  " << c.block_bytes << " B: " << c.in_use << " in use, " << c.free << " free, " << c.cached
            << " cached, high water " << c.high_water << ", " << c.slab_bytes << " bytes of slabs";
    }
    return out;
}

// The statistics of an object_pool, exact while no other thread acquires or releases.
//
//   capacity == in_use + idle          max_objects == 0: not bounded
struct object_pool_stats {
    std::string name;
    std::uint64_t capacity = 0;        // objects that exist
    std::uint64_t in_use = 0;          // including those that only weak_ptrs refer to
    std::uint64_t idle = 0;            // wherever they are
    std::uint64_t high_water = 0;      // most ever in use at once
    std::uint64_t waiting = 0;         // threads that wait for an object
    std::uint64_t max_objects = 0;     // hard bound
    std::uint64_t built = 0;           // objects ever built
    std::uint64_t slot_bytes = 0;      // of an object with its control block
    std::uint64_t upstream_bytes = 0;  // taken from upstream and not returned
    std::uint64_t upstream_calls = 0;  // total allocations requested from upstream

    [[nodiscard]] std::string to_json() const;
};

inline std::string object_pool_stats::to_json() const {
    auto const field = [](char const* key, std::uint64_t value) {
        return std::string(",\"") + key + "\":" + std::to_string(value);
    };
    return "{\"name\":" + detail::json_string(name) + field("capacity", capacity) + field("in_use", in_use) +
           field("idle", idle) + field("high_water", high_water) + field("waiting", waiting) +
           field("max_objects", max_objects) + field("built", built) + field("slot_bytes", slot_bytes) +
           field("upstream_bytes", upstream_bytes) + field("upstream_calls", upstream_calls) + "}";
}

// One human-readable line.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                             object_pool_stats const& s) {
    out << "object_pool '" << s.name << "': " << s.in_use << " objects in use, " << s.idle << " idle";
    if (s.max_objects != 0) out << " of at most " << s.max_objects;
    return out << ", high water " << s.high_water << ", " << s.built << " built; " << s.waiting
               << " threads wait; " << s.slot_bytes << " bytes an object, " << s.upstream_bytes
               << " bytes from upstream in " << s.upstream_calls << " calls";
}

POOLED_END_NAMESPACE
