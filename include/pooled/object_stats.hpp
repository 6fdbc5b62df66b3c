// SPDX-License-Identifier: BSL-1.0
#pragma once

// The statistics of an object_pool: a plain struct, exact while no other thread acquires or releases.
//
//   capacity == in_use + idle          max_objects == 0: not bounded

#include "pooled/config.hpp"
#include "pooled/stats.hpp"

#include <cstdint>
#include <iosfwd>
#include <string>

namespace pooled::inline POOLED_ABI_NAMESPACE {

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

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
