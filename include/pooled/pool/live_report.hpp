// SPDX-License-Identifier: BSL-1.0
#pragma once

// The blocks of a pool that are still in use: in the tracked build by type and place of acquisition, otherwise by size class.
// Any thread may call. O(blocks in use · log) in the tracked build.

#include "pooled/config.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/stats.hpp"
#include "pooled/pool/tracking.hpp"

#include <iosfwd>

#if POOLED_TRACKED
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>  // a static object in each file that includes it
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <dlfcn.h>
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

#if POOLED_TRACKED

// All blocks of one type that were acquired in one place.
struct live_group {
    tracking::site where;
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t only_weak = 0;
    std::chrono::steady_clock::time_point oldest;
    std::chrono::steady_clock::time_point youngest;

    [[nodiscard]] auto key() const noexcept {
        return std::tuple(where.type, where.address, std::string_view(where.source.file_name()),
                          where.source.line());
    }
    void add(live_group const& other) noexcept {
        count += other.count;
        bytes += other.bytes;
        only_weak += other.only_weak;
        oldest = std::min(oldest, other.oldest);
        youngest = std::max(youngest, other.youngest);
    }
};

// A group for each block. The vector grows between two looks at the table, under no lock of it: malloc may be a pool.
[[nodiscard]] inline std::vector<live_group> live_blocks(std::uint32_t pool_id) {
    std::vector<live_group> all;
    std::size_t seen = 0;
    do {
        all.clear();
        all.reserve(seen + seen / 8 + 64);
        seen = 0;
        tracking::g_tracked.for_each(pool_id, [&](tracking::record const& one) {
            ++seen;
            if (all.size() == all.capacity()) return;
            bool const is_weak = one.where.is_only_weak != nullptr && one.where.is_only_weak(one.block);
            all.push_back({one.where, 1, one.bytes, is_weak ? 1U : 0U, one.when, one.when});
        });
    } while (seen > all.size());
    return all;
}

inline void print_place(std::ostream& out, tracking::site const& where) {
    if (where.address == nullptr) {
        out << where.source.file_name() << ':' << where.source.line();
        return;
    }
    Dl_info found{};
    if (::dladdr(where.address, &found) == 0 || found.dli_fname == nullptr) {
        out << where.address;
        return;
    }
    out << found.dli_fname << "+0x" << std::hex
        << static_cast<char const*>(where.address) - static_cast<char const*>(found.dli_fbase) << std::dec;
    if (found.dli_sname != nullptr) out << " (" << found.dli_sname << ')';
}

inline void live_report(pool_core& core, std::ostream& out) {
    std::vector<live_group> all = live_blocks(core.id());
    std::sort(all.begin(), all.end(),
              [](live_group const& a, live_group const& b) { return a.key() < b.key(); });
    std::vector<live_group> groups;
    std::size_t bytes = 0;
    for (live_group const& one : all) {
        bytes += one.bytes;
        if (!groups.empty() && groups.back().key() == one.key())
            groups.back().add(one);
        else
            groups.push_back(one);
    }
    std::sort(groups.begin(), groups.end(), [](live_group const& a, live_group const& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : a.key() < b.key();
    });
    out << "pool '" << core.name() << "': " << all.size() << " blocks in use, " << bytes << " bytes\n";
    auto const now = std::chrono::steady_clock::now();
    auto const age = [now](auto when) { return std::chrono::duration<double>(now - when).count(); };
    for (live_group const& one : groups) {
        out << "  " << one.count << " of " << (one.where.type.empty() ? "raw memory" : one.where.type) << ", "
            << one.bytes << " bytes, " << age(one.youngest) << " to " << age(one.oldest) << " s old, from ";
        print_place(out, one.where);
        if (one.only_weak != 0) out << "; " << one.only_weak << " kept only by weak pointers";
        out << '\n';
    }
}

// Asked for by the environment variable POOLED_LIVE_REPORT=1, when a pool is destroyed with blocks in use.
inline void report_at_close(pool_core& core) {
    char const* const asked = std::getenv("POOLED_LIVE_REPORT");
    if (asked == nullptr || std::string_view(asked) != "1" || core.stats().in_use == 0) return;
    detail::live_report(core, std::cerr);
}

#else

template <class Traits>
void live_report(pool_core& core, std::basic_ostream<char, Traits>& out) {
    pool_stats const stats = core.stats();
    out << "pool '" << stats.name << "': " << stats.in_use << " blocks in use, " << stats.bytes_in_use
        << " bytes; build with -DPOOLED_TRACKED=1 to see types and places\n";
    for (size_class_stats const& c : stats.classes)
        if (c.in_use != 0) out << "  " << c.in_use << " of " << c.block_bytes << " bytes\n";
    if (stats.large_in_use != 0)
        out << "  " << stats.large_in_use << " large ones, " << stats.large_bytes << " bytes\n";
}

inline void report_at_close(pool_core&) noexcept {}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
