// SPDX-License-Identifier: BSL-1.0
#pragma once

// The blocks of a pool that are still in use: in the tracked build by type and place of acquisition, and by the callers of that place
// if they are recorded; otherwise by size class. Any thread may call. O(blocks in use · log) in the tracked build.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/impl/instrument/tracking.hpp"
#include "pooled/stats.hpp"

#include <iosfwd>

#if POOLED_TRACKED
#include <cxxabi.h>

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

    // A line that the compiler copied, as it unrolled a loop, is one place.
    [[nodiscard]] auto key() const noexcept {
        bool const has_line = where.source.line() != 0;
        return std::tuple(where.type, has_line ? nullptr : where.address,
                          std::string_view(where.source.file_name()), where.source.line(), where.callers);
    }
    void add(live_group const& other) noexcept {
        count += other.count;
        bytes += other.bytes;
        only_weak += other.only_weak;
        oldest = (std::min)(oldest, other.oldest);
        youngest = (std::max)(youngest, other.youngest);
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

// `address`: where the call returns to. The call itself is in front of that, and may be all there is of its line.
inline void print_address(std::ostream& out, void const* address) {
    void const* const call = static_cast<char const*>(address) - 1;
    Dl_info found{};
    if (::dladdr(call, &found) == 0 || found.dli_fname == nullptr) {
        out << call;
        return;
    }
    out << found.dli_fname << "+0x" << std::hex
        << static_cast<char const*>(call) - static_cast<char const*>(found.dli_fbase) << std::dec;
    if (found.dli_sname == nullptr) return;
    char* const name = abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, nullptr);
    out << " (" << (name != nullptr ? name : found.dli_sname) << ')';
    std::free(name);
}

inline void print_place(std::ostream& out, tracking::site const& where) {
    if (where.source.line() != 0)
        out << where.source.file_name() << ':' << where.source.line();
    else
        detail::print_address(out, where.address);
}

// All of one key as one group, those with most bytes first.
[[nodiscard]] inline std::vector<live_group> grouped(std::vector<live_group> all) {
    std::sort(all.begin(), all.end(),
              [](live_group const& a, live_group const& b) { return a.key() < b.key(); });
    std::vector<live_group> groups;
    for (live_group const& one : all) {
        if (!groups.empty() && groups.back().key() == one.key())
            groups.back().add(one);
        else
            groups.push_back(one);
    }
    std::sort(groups.begin(), groups.end(), [](live_group const& a, live_group const& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : a.key() < b.key();
    });
    return groups;
}

// A line a group. Empty if the pool has no block in use.
inline void print_groups(std::ostream& out, std::vector<live_group> const& groups) {
    auto const now = std::chrono::steady_clock::now();
    auto const age = [now](auto when) { return std::chrono::duration<double>(now - when).count(); };
    for (live_group const& one : groups) {
        out << "  " << one.count << " of " << (one.where.type.empty() ? "raw memory" : one.where.type) << ", "
            << one.bytes << " bytes, " << age(one.youngest) << " to " << age(one.oldest) << " s old, from ";
        print_place(out, one.where);
        if (one.only_weak != 0) out << "; " << one.only_weak << " kept only by weak pointers";
        out << '\n';
        for (void const* const caller : one.where.callers) {
            if (caller == nullptr) break;
            out << "    called from ";
            detail::print_address(out, caller);
            out << '\n';
        }
    }
}

inline void live_report(pool_core& core, std::ostream& out) {
    std::vector<live_group> const groups = detail::grouped(detail::live_blocks(core.id()));
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (live_group const& one : groups) {
        count += one.count;
        bytes += one.bytes;
    }
    out << "pool '" << core.name() << "': " << count << " blocks in use, " << bytes << " bytes\n";
    detail::print_groups(out, groups);
}

// The lines of an object pool's report about its objects in use.
inline void report_objects(pool_core& core, std::ostream& out) {
    out << '\n';
    detail::print_groups(out, detail::grouped(detail::live_blocks(core.id())));
}

// Asked for by the environment variable POOLED_LIVE_REPORT=1, when a pool is destroyed with blocks or objects in use.
template <class Pool>
void report_at_close(Pool const& pool) {
    char const* const asked = std::getenv("POOLED_LIVE_REPORT");
    if (asked == nullptr || std::string_view(asked) != "1" || pool.stats().in_use == 0) return;
    pool.live_report(std::cerr);
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

template <class Traits>
void report_objects(pool_core&, std::basic_ostream<char, Traits>& out) {
    out << "; build with -DPOOLED_TRACKED=1 to see where they were acquired\n";
}

template <class Pool>
void report_at_close(Pool const&) noexcept {}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
