// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the checked build (POOLED_CHECKED) records of blocks, pools and threads, and writes into blocks; instrument/checked.hpp
// uses it. Patterns detect stray writes:
//
//   in use  | what the caller asked for: bytes | guard | bytes, encoded: 8 |     all after the caller's bytes is verified
//   free    | filled | control block, if any | filled |                          verified when the block is used again, and before
//                                                                                its pages return or get another size class
//
// The control block is what make_shared's was replaced by, as is that of an idle slot of an object_pool: of a class (stale_owner) that
// reports when it is dropped once more, which only the standard library's code sees: two threads changed one shared_ptr object, its
// bytes were copied, or what holds it was destroyed twice. A copy that is made and dropped meanwhile is not seen; what else changes the
// counts is reported when the block or the object is used again.
//
// Any thread may call; O(1). The patterns: for a block that no other thread has; O(bytes). Empty in other builds.

#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#if POOLED_CHECKED
#include <cstring>
#include <memory>
#include <typeinfo>
#endif

POOLED_BEGIN_DETAIL

class pool_core;

#if POOLED_CHECKED

// Two bits for an address where a block starts, or a core (pool/core.hpp): one for each 8 bytes of addresses.
//   exists   the block is in use; the core was not freed
//   ended    the block is free, and was filled when it was freed; the core was destroyed
inline constexpr std::size_t k_mark_bytes = 8;
enum class mark : std::size_t { exists = 0, ended = k_mark_bytes };  // the distance of its bit's address
using mark_map = address_map<64 * k_mark_bytes, 32>;
POOLED_STATE(mark_map, g_marks);

[[nodiscard]] inline bool has_mark(void const* p, mark which) noexcept {
    std::uintptr_t const at = address_of(p) + static_cast<std::size_t>(which);
    return (g_marks.get(at) >> (at / k_mark_bytes % 64) & 1) != 0;
}
// The former value. Requires memory for which the map was prepared.
inline bool set_mark(void const* p, mark which, bool value) noexcept {
    std::uintptr_t const at = address_of(p) + static_cast<std::size_t>(which);
    auto& word = g_marks.at(at);
    std::uint64_t const bit = std::uint64_t{1} << (at / k_mark_bytes % 64);
    std::uint64_t const before = value ? word.fetch_or(bit, std::memory_order_relaxed)
                                       : word.fetch_and(~bit, std::memory_order_relaxed);
    return (before & bit) != 0;
}

// Control blocks that nothing owns.

[[noreturn]] POOLED_NOINLINE inline void fail_stale_owner(void const* block, char const* what) noexcept {
    detail::fail_with(
        "pooled: bad drop of a %s to the block at %p of pool '%s': the last one was dropped before, and the "
        "block is free or its object idle; look for one that two threads change, that is copied by its "
        "bytes, or that is destroyed twice",
        what, block, name_of_pool_at(block));
}

// Their members are a pointer to a table of functions, two counts, and for some processors a mutex that is all zero bytes: all have
// the same bytes. Visible, so that all files of a process have one table.
#if defined(_LIBCPP_VERSION)
class [[gnu::visibility("default")]] stale_owner final : public std::__shared_weak_count {
    void __on_zero_shared() noexcept override { fail_stale_owner(this, "std::shared_ptr"); }
    void __on_zero_shared_weak() noexcept override { fail_stale_owner(this, "std::weak_ptr"); }
};
#elif defined(__GLIBCXX__)
class [[gnu::visibility("default")]] stale_owner final : public std::_Sp_counted_base<> {
    void _M_dispose() noexcept override { fail_stale_owner(this, "std::shared_ptr"); }
    void _M_destroy() noexcept override { fail_stale_owner(this, "std::weak_ptr"); }
    void* _M_get_deleter(std::type_info const&) noexcept override { return nullptr; }
};
#else
struct stale_owner {};
#endif

// In a block in use, for a control block that nothing owns: one that reports its drop.
inline void write_stale_owner(void* control) noexcept { ::new (control) stale_owner; }

class stale_bytes {
public:
    static constexpr std::size_t k_count = sizeof(stale_owner);
    stale_bytes() noexcept { write_stale_owner(m_bytes.data()); }
    // Whether one begins there, perhaps with other counts. One that another copy of the library wrote has another table, and is not known.
    [[nodiscard]] bool begins(std::byte const* p, std::size_t room) const noexcept {
        return std::is_polymorphic_v<stale_owner> && room >= k_count &&
               std::memcmp(p, m_bytes.data(), sizeof(void*)) == 0;
    }
    // How many of its bytes are as they were written.
    [[nodiscard]] std::size_t count_equal(std::byte const* p) const noexcept {
        std::size_t i = 0;
        while (i != k_count && p[i] == m_bytes[i])
            ++i;
        return i;
    }

private:
    alignas(stale_owner) std::array<std::byte, k_count> m_bytes;
};

// Before another control block takes its place: its counts are unchanged.
inline void expect_stale_owner(void const* block, void const* control) noexcept {
    stale_bytes const written;
    auto const* const now = static_cast<std::byte const*>(control);
    if (!written.begins(now, stale_bytes::k_count) || written.count_equal(now) == stale_bytes::k_count)
        return;
    detail::fail_with(
        "pooled: bad copy of a std::shared_ptr or std::weak_ptr to the block at %p of pool '%s': the "
        "last one was dropped before, and the object was idle; look for a pointer that outlived it",
        block, name_of_pool_at(block));
}

namespace fill {

// In the build for tools, the caller has another block, which the tool watches.
inline constexpr bool k_is_on = POOLED_SANITIZE == 0;
inline constexpr std::size_t k_word = sizeof(std::uint64_t);
inline constexpr unsigned char k_free_byte = 0xdb;
inline constexpr unsigned char k_guard_byte = 0xfd;

// The index of the first byte other than `byte`; `bytes` if there is none.
[[nodiscard]] inline std::size_t first_changed(std::byte const* p, std::size_t bytes,
                                               unsigned char byte) noexcept {
    // The first byte is right, and the memory equals itself shifted by one byte: memcmp compares at the speed of memory.
    if (bytes == 0 || (p[0] == std::byte{byte} && std::memcmp(p, p + 1, bytes - 1) == 0)) return bytes;
    std::size_t i = 0;
    while (p[i] == std::byte{byte})
        ++i;
    return i;
}

// Reports a write to the byte `at` bytes after the start of the block of `bytes`. `when`: what is wrong, and what to do.
[[noreturn]] POOLED_NOINLINE inline void fail_write(void const* block, std::size_t bytes, std::size_t at,
                                                    char const* when) noexcept {
    detail::fail_with(
        "pooled: bad write to the block of %zu bytes at %p of pool '%s': the byte at offset %zu was "
        "written %s",
        bytes, block, name_of_pool_at(block), at, when);
}

// Differs between blocks, so that a copy of one block over another is detected.
[[nodiscard]] inline std::uint64_t key_of(void const* block) noexcept {
    return (address_of(block) ^ 0x5bd1e995U) * 0x9e3779b97f4a7c15U;
}

// The guard after a caller's block of `total` bytes of memory. Requires k_guard_bytes after it.
inline void write_guard(void* block, std::size_t bytes, std::size_t total) noexcept {
    if constexpr (k_guard_bytes == 0) return;
    auto* const p = static_cast<std::byte*>(block);
    std::memset(p + bytes, k_guard_byte, total - k_word - bytes);
    std::uint64_t const word = bytes ^ key_of(block);
    std::memcpy(p + total - k_word, &word, k_word);
}

inline constexpr std::size_t k_unknown = k_size_max;
struct guard_state {
    std::size_t bytes;    // requested bytes, or k_unknown
    std::size_t changed;  // offset of the first byte after them that was written; `total`: none
};
[[nodiscard]] inline guard_state read_guard(void const* block, std::size_t total) noexcept {
    if constexpr (k_guard_bytes == 0) return {k_unknown, total};
    auto const* const p = static_cast<std::byte const*>(block);
    std::uint64_t word = 0;
    std::memcpy(&word, p + total - k_word, k_word);
    std::uint64_t const bytes = word ^ key_of(block);
    if (bytes > total - k_word) return {k_unknown, total - k_word};
    std::size_t const guard = total - k_word - bytes;
    std::size_t const intact = first_changed(p + bytes, guard, k_guard_byte);
    return {bytes, intact == guard ? total : bytes + intact};
}

// A block of a size class, from its deallocation to the next allocation. A stale control block stays where the caller wrote it.
inline void begin_free(void* block, std::size_t bytes) noexcept {
    stale_bytes const stale;
    auto* const p = static_cast<std::byte*>(block);
    std::size_t at = 0;
    while (at != bytes && !stale.begins(p + at, bytes - at))
        at += k_word;
    std::memset(p, k_free_byte, bytes);
    if (at != bytes) write_stale_owner(p + at);
    set_mark(block, mark::ended, true);
}
inline void end_free(void* block, std::size_t bytes) noexcept {
    if (!set_mark(block, mark::ended, false)) return;
    auto const* const p = static_cast<std::byte const*>(block);
    std::size_t at = first_changed(p, bytes, k_free_byte);
    if (at == bytes) [[likely]]
        return;
    if (stale_bytes const stale; stale.begins(p + at, bytes - at)) {
        std::size_t const equal = stale.count_equal(p + at);
        at += equal;
        if (equal == stale_bytes::k_count) at += first_changed(p + at, bytes - at, k_free_byte);
    }
    if (at != bytes)
        fail_write(block, bytes, at,
                   "after it was freed (use after free); look for pointers that outlived the object there");
}

}  // namespace fill

#if POOLED_HAS_CODE

// What the heap and the core of a pool call. False: no memory for the map of what came from upstream.
namespace checked_memory {

[[nodiscard]] inline bool prepare(void const* base, std::size_t bytes) noexcept {
    return g_marks.prepare(base, bytes);
}
// Forgets all blocks there, including those in use. O(bytes).
inline void forget(std::byte* base, std::size_t bytes) noexcept {
    for (std::size_t at = 0; at < bytes; at += k_mark_bytes)
        set_mark(base + at, mark::exists, false);
}
// Whether a block in use, perhaps of another pool, or a core starts there. The former value.
inline bool set_exists(void const* p, bool value) noexcept { return set_mark(p, mark::exists, value); }
// The memory of all free blocks in [first, end) may change from now on.
inline void end_free(std::byte* first, std::byte const* end, std::size_t bytes) noexcept {
    for (std::byte* block = first; block + bytes <= end; block += bytes)
        fill::end_free(block, bytes);
}

}  // namespace checked_memory

// The last cores that were destroyed keep their memory, so that no new one has such an address soon: a pool_allocator, a memory_resource
// or a dangling reference may still hold it.
class dead_cores {
public:
    // The core whose memory is freed instead of that of `core`, which was destroyed; null: none yet. `rest`: of the pool's memory, which
    // nobody reads.
    [[nodiscard]] pool_core* exchange(pool_core* core, span<std::byte> rest) noexcept {
        set_mark(core, mark::ended, true);
        platform::release_pages(rest.begin(), rest.size());
        scoped_lock const lock(m_mutex);
        return std::exchange(m_cores[m_next++ % m_cores.size()], core);
    }

    // In a forked child whose other threads may have been in the midst of this.
    void begin_anew() noexcept { ::new (static_cast<void*>(this)) dead_cores; }

private:
    detail::mutex m_mutex;
    std::size_t m_next = 0;
    std::array<pool_core*, 256> m_cores{};
};

POOLED_STATE(dead_cores, g_dead_cores);

// 0: it used no local pool yet; 1: its end will be noted; 2: it has ended. Readable until the thread is gone.
POOLED_THREAD_STATE(char, t_uses_local, {0});

// A local pool is used by the thread that last allocated from it or adopted it or, once that thread has ended, by the next one that uses
// it. Whether a program synchronized the two threads is not seen, so it must announce the transfer in one of these ways.
class local_users {
public:
    // Once, before the first pool.
    void make_key() noexcept;
    // The calling thread allocates from the pool.
    void on_allocate(std::uint32_t pool_id) noexcept {
        char& mine = t_uses_local();
        if (mine == 0) mine = m_has_key && platform::set_exit_argument(m_key, &mine) ? 1 : 2;
        m_users[pool_id].store(mine == 1 ? &mine : nullptr, std::memory_order_relaxed);
    }
    // False when another thread uses the pool.
    [[nodiscard]] bool on_deallocate(std::uint32_t pool_id) noexcept {
        // acquire: pairs with the release in on_end().
        char const* const user = m_users[pool_id].load(std::memory_order_acquire);
        if (user == nullptr) on_allocate(pool_id);
        return user == nullptr || user == &t_uses_local();
    }

private:
    // O(pools).
    void on_end(char* user) noexcept {
        *user = 2;
        for (auto& each : m_users)
            if (each.load(std::memory_order_relaxed) == user) each.store(nullptr, std::memory_order_release);
    }

    std::uintptr_t m_key = 0;
    bool m_has_key = false;
    std::array<atomic<char*>, k_max_pools> m_users{};  // null: none, or one that has ended
};

POOLED_STATE(local_users, g_local_users);

inline void local_users::make_key() noexcept {
    m_has_key =
        platform::make_exit_key(m_key, [](void* user) { g_local_users.on_end(static_cast<char*>(user)); });
}

#endif

#else

struct stale_owner {};
inline void fail_stale_owner(void const*, char const*) noexcept {}
inline void write_stale_owner(void*) noexcept {}
inline void expect_stale_owner(void const*, void const*) noexcept {}

#if POOLED_HAS_CODE

namespace checked_memory {
[[nodiscard]] inline bool prepare(void const*, std::size_t) noexcept { return true; }
inline void forget(std::byte*, std::size_t) noexcept {}
inline bool set_exists(void const*, bool) noexcept { return false; }
inline void end_free(std::byte*, std::byte const*, std::size_t) noexcept {}
}  // namespace checked_memory

struct dead_cores {
    [[nodiscard]] static pool_core* exchange(pool_core* core, span<std::byte>) noexcept { return core; }
    static void begin_anew() noexcept {}
};
inline constexpr dead_cores g_dead_cores;
struct local_users {
    static void make_key() noexcept {}
};
inline constexpr local_users g_local_users;

#endif

#endif

POOLED_END_DETAIL
