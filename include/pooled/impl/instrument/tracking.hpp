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
// A block for whose record there is no memory is not listed. Any thread may call; O(1), and O(frames) for callers. Empty in other
// builds.

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/mutex.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

#if POOLED_TRACKED
#include "pooled/impl/instrument/callers.hpp"
#include "pooled/impl/plugins/copies.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <source_location>
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::tracking {

// Whether only weak pointers keep the block. Requires one whose control block or header was written.
using weak_test = bool (*)(void const* block);

#if POOLED_TRACKED

using stack = callers<POOLED_TRACKED_STACKS>;

struct site {
    std::string_view type = {};        // empty: not known
    std::source_location source = {};  // line 0: not known
    void const* address = nullptr;     // where the call returns to
    weak_test is_only_weak = nullptr;
    bool is_listed = true;
    [[no_unique_address]] stack::addresses callers = {};  // of that place
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

// Null, too, once it has served.
POOLED_STATE(thread_local site const*, t_acquisition, = nullptr);

// The site of the acquisition under way, which has then served; empty if there is none.
[[nodiscard]] inline site take() noexcept {
    site const* const known = std::exchange(t_acquisition, nullptr);
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

// The outermost counts: the library's functions call each other. Pins the file of the names in its site, as `caller` does.
class acquisition {
public:
    POOLED_ALWAYS_INLINE explicit acquisition(site const& where) noexcept
        : m_site(where), m_before(t_acquisition) {
        detail::pin_this_library();
        if (m_before != nullptr) return;
        m_site.callers = stack::find(m_site.address);
        t_acquisition = &m_site;
    }
    ~acquisition() { t_acquisition = m_before; }
    acquisition(acquisition const&) = delete;
    acquisition& operator=(acquisition const&) = delete;

private:
    site m_site;
    site const* m_before;
};

// While it lives, the thread acquires for another reason than the acquisition under way: it runs code of the user, or of another pool.
class interruption {
public:
    interruption() noexcept : interruption(nullptr) {}
    ~interruption() { t_acquisition = m_before; }
    interruption(interruption const&) = delete;
    interruption& operator=(interruption const&) = delete;

protected:
    explicit interruption(site const* instead) noexcept : m_before(std::exchange(t_acquisition, instead)) {}

private:
    site const* m_before;
};

// The same, for a block that the library allocates for itself: it is not listed.
class for_itself : interruption {
public:
    for_itself() noexcept : interruption(&k_unlisted) {}

private:
    static constexpr site k_unlisted{.is_listed = false};
};

class table {
public:
    void add(void const* block, std::uint32_t pool_id, std::size_t bytes, site const& where) noexcept {
        void* const memory = g_metadata.try_allocate(sizeof(record));
        if (memory == nullptr) return;
        auto* const one =
            ::new (memory) record{nullptr, block, bytes, pool_id, std::chrono::steady_clock::now(), where};
        shard& s = shard_of(block);
        scoped_lock const lock(s.mutex);
        record*& first = s.bucket_of(block);
        one->next = std::exchange(first, one);
    }
    void remove(void const* block) noexcept {
        record* gone = nullptr;
        shard& s = shard_of(block);
        {
            scoped_lock const lock(s.mutex);
            for (record** at = &s.bucket_of(block); *at != nullptr; at = &(*at)->next)
                if ((*at)->block == block) {
                    gone = std::exchange(*at, (*at)->next);
                    break;
                }
        }
        if (gone != nullptr) g_metadata.deallocate(gone, sizeof(record));
    }
    // Calls visit(record) for each block of the pool, under a lock: it may not allocate. The block is not returned meanwhile.
    template <class Visit>
    void for_each(std::uint32_t pool_id, Visit&& visit) noexcept {
        for (shard& s : m_shards) {
            scoped_lock const lock(s.mutex);
            for (record const* one : s.buckets)
                for (; one != nullptr; one = one->next)
                    if (one->pool_id == pool_id) visit(*one);
        }
    }

private:
    static constexpr std::size_t k_shards = 64;
    static constexpr std::size_t k_buckets = 4096;
    struct shard {
        [[nodiscard]] record*& bucket_of(void const* block) noexcept {
            return buckets[hash(block) / k_shards % k_buckets];
        }
        detail::mutex mutex;
        std::array<record*, k_buckets> buckets{};
    };
    [[nodiscard]] static std::size_t hash(void const* block) noexcept {
        return (address_of(block) >> 3) * 0x9e3779b97f4a7c15 >> 20;
    }
    [[nodiscard]] shard& shard_of(void const* block) noexcept { return m_shards[hash(block) % k_shards]; }

    std::array<shard, k_shards> m_shards{};
};

POOLED_STATE(table, g_tracked);

// Out of line: its caller is the place, where there is no better one.
POOLED_NOINLINE inline void on_allocate(std::uint32_t pool_id, void* block, std::size_t bytes) noexcept {
    if (block == nullptr) return;
    site where = tracking::take();
    if (!where.is_listed) return;
    if (where.address == nullptr) {
        where.address = __builtin_return_address(0);
        where.callers = stack::find(where.address);
    }
    // With POOLED_SANITIZE the counts lie in a block of malloc's. Until they are written, what lies here says nothing.
    if constexpr (POOLED_SANITIZE != 0) where.is_only_weak = nullptr;
    if (where.is_only_weak != nullptr) std::memset(block, 1, (std::min)(bytes, std::size_t{64}));
    g_tracked.add(block, pool_id, bytes, where);
}
inline void on_deallocate(void const* block) noexcept { g_tracked.remove(block); }

// An object pool's slot, whose block is not listed, has a user from now on; null: nobody got one.
inline void on_acquire(std::uint32_t pool_id, void const* slot, std::size_t bytes, site where,
                       weak_test is_only_weak) noexcept {
    if (slot == nullptr) return;
    where.is_only_weak = is_only_weak;
    g_tracked.add(slot, pool_id, bytes, where);
}
inline void on_recycle(void const* slot) noexcept { g_tracked.remove(slot); }

#else

struct site {};
[[nodiscard]] POOLED_ALWAYS_INLINE site take() noexcept { return {}; }
struct interruption {};
struct for_itself {};

POOLED_ALWAYS_INLINE void on_allocate(std::uint32_t, void*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate(void const*) noexcept {}
POOLED_ALWAYS_INLINE void on_acquire(std::uint32_t, void const*, std::size_t, site, weak_test) noexcept {}
POOLED_ALWAYS_INLINE void on_recycle(void const*) noexcept {}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::tracking
