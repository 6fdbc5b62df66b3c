// SPDX-License-Identifier: BSL-1.0
#pragma once

// The tracked build's (POOLED_TRACKED) record of each block in use: type, time, and place of acquisition. For allocate() the place
// is the std::source_location of the call; for a make_ function, whose arguments leave no parameter for one, the return address.
// With POOLED_TRACKED_STACKS the callers of that place belong to it.
//
//   make_shared<T>()   acquisition: type and place  ──▶  given(): on_allocate()  ──▶  g_tracked: a record by address
//   acquire()          acquisition: type and place  ──▶  take() … on_acquire()      ──▶  g_tracked: a record by the slot's address
//
// An acquisition lasts for the call and describes its first block; blocks that the object's constructor allocates have their own.
// A block for whose record there is no memory is not listed.
//
// live_report() groups the records of a pool. In other builds it counts blocks by size class, and all else here is empty.
//
// Any thread may call; O(1), and O(frames) for callers, some 100 ns each. A report: O(blocks in use · log).

#include "pooled/config.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/stats.hpp"

#include <cstddef>
#include <cstdint>
#include <iosfwd>

#if POOLED_TRACKED
#include "pooled/base/bits.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/plugins/copies.hpp"

#include <cxxabi.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>  // a static object in each file that includes it
#include <new>
#include <source_location>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>
#endif

POOLED_BEGIN_NAMESPACE
namespace detail {

namespace tracking {

// Whether only weak pointers keep the block. Requires one whose control block or header was written.
using weak_test = bool (*)(void const* block);

#if POOLED_TRACKED

// The functions on the stack, as return addresses, innermost first; null after the outermost one.
using stack = std::array<void const*, POOLED_TRACKED_STACKS>;

struct site {
    std::string_view type = {};        // empty: not known
    std::source_location source = {};  // line 0: not known
    void const* address = nullptr;     // where the call returns to
    weak_test is_only_weak = nullptr;
    bool is_listed = true;
    [[no_unique_address]] stack callers = {};  // of that place
};

struct record {
    record* next = nullptr;
    void const* block = nullptr;
    std::size_t bytes = 0;
    std::uint32_t pool_id = 0;
    std::chrono::steady_clock::time_point when;
    site where;
};

// The compiler's name of T, which may end in []: __PRETTY_FUNCTION__ is "… [with T = name; …]" or "… [T = name]"; without RTTI.
template <class T>
[[nodiscard]] constexpr std::string_view type_name() noexcept {
    std::string_view name = __PRETTY_FUNCTION__;
    name.remove_prefix(name.find("T = ") + 4);
    std::size_t const end = name.find(';');
    return name.substr(0, end != name.npos ? end : name.rfind(']'));
}

struct stack_walk {
    void const* place;  // null: it was passed
    stack* found;
    std::size_t count = 0;

    // Called by code that MemorySanitizer does not see.
    POOLED_UNWATCHED static _Unwind_Reason_Code add(_Unwind_Context* frame, void* into) noexcept {
        auto& walk = *static_cast<stack_walk*>(into);
        auto const* const address = reinterpret_cast<void const*>(::_Unwind_GetIP(frame));
        if (address == nullptr) return _URC_END_OF_STACK;
        if (walk.place != nullptr) {
            if (address == walk.place) walk.place = nullptr;
            return _URC_NO_REASON;
        }
        (*walk.found)[walk.count++] = address;
        return walk.count == POOLED_TRACKED_STACKS ? _URC_END_OF_STACK : _URC_NO_REASON;
    }
};
// Those of `place`, the return address of a function that is being called; none if the unwinder does not find it. That is the unwinder
// that each C++ program has for exceptions: it needs no frame pointers and no library, and allocates nothing.
[[nodiscard]] POOLED_NOINLINE inline stack find_callers([[maybe_unused]] void const* place) noexcept {
    stack found{};
    if constexpr (POOLED_TRACKED_STACKS != 0) {
        stack_walk walk{place, &found};
        ::_Unwind_Backtrace(&stack_walk::add, &walk);
    }
    return found;
}

// Null, too, once it has served.
POOLED_THREAD_STATE(site const*, t_acquisition, = nullptr);

// The site of the acquisition under way, which has then served; empty if there is none.
[[nodiscard]] inline site take() noexcept {
    site const* const known = std::exchange(t_acquisition(), nullptr);
    return known != nullptr ? *known : site();
}

// Where allocate() is called. A record refers to names in that file, which therefore stays loaded: inlined, so that it is that
// file which is pinned, whichever has the code of allocate().
struct caller {
    POOLED_ALWAYS_INLINE explicit caller(std::source_location const& where) noexcept : source(where) {
        detail::pin_this_library();
    }
    std::source_location source;
};

// While it lives, the thread acquires for another reason than the acquisition under way: it runs code of the user, or of another pool.
class interruption {
public:
    interruption() noexcept : interruption(nullptr) {}
    explicit interruption(site const* instead) noexcept : m_before(std::exchange(t_acquisition(), instead)) {}
    ~interruption() { t_acquisition() = m_before; }
    interruption(interruption const&) = delete;
    interruption& operator=(interruption const&) = delete;

private:
    site const* m_before;
};

// The same, for a block that the library allocates for itself: it is not listed.
struct for_itself : interruption {
    for_itself() noexcept : interruption(&k_unlisted) {}
    static constexpr site k_unlisted{.is_listed = false};
};

// The outermost counts: the library's functions call each other. Pins the file of the names in its site, as `caller` does.
class acquisition : interruption {
public:
    POOLED_ALWAYS_INLINE explicit acquisition(site const& where) noexcept
        : interruption(t_acquisition() != nullptr ? t_acquisition() : &m_site), m_site(where) {
        detail::pin_this_library();
        if (t_acquisition() == &m_site) m_site.callers = find_callers(where.address);
    }

private:
    site m_site;
};

class table {
public:
    void add(void const* block, std::uint32_t pool_id, std::size_t bytes, site const& where) noexcept {
        void* const memory = g_metadata.try_allocate(sizeof(record));
        if (memory == nullptr) return;
        auto* const one =
            ::new (memory) record{nullptr, block, bytes, pool_id, std::chrono::steady_clock::now(), where};
        std::size_t const at = bucket_of(block);
        scoped_lock const lock(m_mutexes[at % k_mutexes]);
        one->next = std::exchange(m_buckets[at], one);
    }
    void remove(void const* block) noexcept {
        std::size_t const at = bucket_of(block);
        record* gone = nullptr;
        {
            scoped_lock const lock(m_mutexes[at % k_mutexes]);
            record** link = &m_buckets[at];
            while (*link != nullptr && (*link)->block != block)
                link = &(*link)->next;
            gone = *link;
            if (gone != nullptr) *link = gone->next;
        }
        if (gone != nullptr) g_metadata.deallocate(gone, sizeof(record));
    }
    // Calls visit(record) for each block of the pool, under a lock: it may not allocate. The block is not returned meanwhile.
    template <class Visit>
    void for_each(std::uint32_t pool_id, Visit&& visit) noexcept {
        for (std::size_t first = 0; first < k_mutexes; ++first) {
            scoped_lock const lock(m_mutexes[first]);
            for (std::size_t at = first; at < k_buckets; at += k_mutexes)
                for (record const* one = m_buckets[at]; one != nullptr; one = one->next)
                    if (one->pool_id == pool_id) visit(*one);
        }
    }

private:
    static constexpr std::size_t k_mutexes = 64;
    static constexpr std::size_t k_buckets = std::size_t{1} << 18;
    [[nodiscard]] static std::size_t bucket_of(void const* block) noexcept {
        return ((address_of(block) >> 3) * 0x9e3779b97f4a7c15 >> 20) % k_buckets;
    }

    std::array<detail::mutex, k_mutexes> m_mutexes{};
    std::array<record*, k_buckets> m_buckets{};
};

POOLED_STATE(table, g_tracked);

// Out of line: its caller is the place, where there is no better one.
POOLED_NOINLINE inline void on_allocate(std::uint32_t pool_id, void* block, std::size_t bytes) noexcept {
    site where = tracking::take();
    if (!where.is_listed) return;
    if (where.address == nullptr) {
        where.address = __builtin_return_address(0);
        where.callers = find_callers(where.address);
    }
    // With POOLED_SANITIZE the counts lie in a block of malloc's. Until they are written, what lies here says nothing.
    if constexpr (POOLED_SANITIZE != 0) where.is_only_weak = nullptr;
    if (where.is_only_weak != nullptr) std::memset(block, 1, (std::min)(bytes, std::size_t{64}));
    g_tracked.add(block, pool_id, bytes, where);
}
// Or a slot becomes idle.
inline void on_deallocate(void const* block) noexcept { g_tracked.remove(block); }

// An object pool's slot, whose block is not listed, has a user from now on; null: nobody got one.
inline void on_acquire(std::uint32_t pool_id, void const* slot, std::size_t bytes, site where,
                       weak_test is_only_weak) noexcept {
    if (slot == nullptr) return;
    where.is_only_weak = is_only_weak;
    g_tracked.add(slot, pool_id, bytes, where);
}

#else

struct site {};
[[nodiscard]] POOLED_ALWAYS_INLINE site take() noexcept { return {}; }
struct interruption {};
struct for_itself {};

POOLED_ALWAYS_INLINE void on_allocate(std::uint32_t, void*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate(void const*) noexcept {}
POOLED_ALWAYS_INLINE void on_acquire(std::uint32_t, void const*, std::size_t, site, weak_test) noexcept {}

#endif

}  // namespace tracking

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

// All of one key as one group, those with most bytes first. At first a group for each block: the vector grows between two looks at the
// table, under no lock of it, as malloc may be a pool.
[[nodiscard]] inline std::vector<live_group> live_groups(std::uint32_t pool_id) {
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
    std::sort(all.begin(), all.end(),
              [](live_group const& a, live_group const& b) { return a.key() < b.key(); });
    std::vector<live_group> groups;
    for (live_group const& one : all)
        if (!groups.empty() && groups.back().key() == one.key())
            groups.back().add(one);
        else
            groups.push_back(one);
    std::sort(groups.begin(), groups.end(), [](live_group const& a, live_group const& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : a.key() < b.key();
    });
    return groups;
}

// `address`: where the call returns to. The call itself is in front of that, and may be all there is of its line.
inline void print_address(std::ostream& out, void const* address) {
    void const* const call = static_cast<char const*>(address) - 1;
    platform::code_place found{};
    if (!platform::find_code(call, found)) {
        out << call;
        return;
    }
    out << found.file << "+0x" << std::hex
        << static_cast<char const*>(call) - static_cast<char const*>(found.file_base) << std::dec;
    if (found.function == nullptr) return;
    char* const name = abi::__cxa_demangle(found.function, nullptr, nullptr, nullptr);
    out << " (" << (name != nullptr ? name : found.function) << ')';
    std::free(name);
}

// A line a group. Empty if the pool has no block in use.
inline void print_groups(std::ostream& out, std::vector<live_group> const& groups) {
    auto const now = std::chrono::steady_clock::now();
    auto const age = [now](auto when) { return std::chrono::duration<double>(now - when).count(); };
    for (live_group const& one : groups) {
        out << "  " << one.count << " of " << (one.where.type.empty() ? "raw memory" : one.where.type) << ", "
            << one.bytes << " bytes, " << age(one.youngest) << " to " << age(one.oldest) << " s old, from ";
        if (std::source_location const& place = one.where.source; place.line() != 0)
            out << place.file_name() << ':' << place.line();
        else
            detail::print_address(out, one.where.address);
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
    std::vector<live_group> const groups = detail::live_groups(core.id());
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
    detail::print_groups(out, detail::live_groups(core.id()));
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

}  // namespace detail
POOLED_END_NAMESPACE
