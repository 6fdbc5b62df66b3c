// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the checked build (POOLED_CHECKED) records of blocks, pools and threads, and writes into blocks; impl/instrument/checked.hpp
// uses it.
//
// Two maps have one bit for each 16 bytes of addresses. Blocks have at least 16 bytes, so each has a bit of its own.
//
//   g_live_map     a block in use starts here; in the library's own memory: a pool that was not destroyed is here
//   g_filled_map   a free block starts here that was filled when it was freed
//
// Patterns detect stray writes:
//
//   in use  | what the caller asked for: bytes | guard | bytes, encoded: 8 |     all after the caller's bytes is verified
//   free    | filled | head, if any | filled |                                   verified when the block is used again
//
// Pages are verified before they return to the system or change their size class.
//
// The head is a control block, where make_shared's was in the block. It detects a std::shared_ptr that is dropped once more after its
// last owner let go: two threads changed one shared_ptr object, its bytes were copied, or what holds it was destroyed twice. The
// library is not called then: the standard library's code changes the counts in the freed block. So the head is of a class (stale_owner)
// with one owner and one weak reference, and such a drop, of a shared_ptr or of a weak_ptr, calls a function of that class, which
// reports it. The same is written into an object_pool's slot when its object becomes idle. A copy that is made and dropped meanwhile is
// not seen. What else changes the counts is reported when the block or the object is used again. Known for libstdc++ and libc++,
// whose binary interfaces fix where the counts are.
//
// A destroyed pool is recognized by the address of its core, which a pool_allocator or a dangling reference may still hold. The memory of
// the last cores is kept, so that no new pool has such an address soon:
//
//   open     the pool's handle exists          ─▶ a bit at the core's address
//   closed   blocks are still in use           ─▶ a bit at the next unit of 16 bytes
//   dead     only the name is left             ─▶ a bit at the third
//
// A std::pmr container may still hold it as a memory_resource, too: what is left of a dead pool is one, which reports its use.
//
// A local pool is used by the thread that last allocated from it or adopted it or, once that thread has ended, by the next one that uses
// it. A block that another thread returns is reported. Whether a program synchronized the two threads is not seen, so a program must
// announce the transfer: by local_pool::adopt(), or by an allocation. Threads have numbers, and a bit for each says that it has ended,
// because the system reuses pthread_t and kernel ids.
//
// Any thread may call; O(1). The patterns: for a block that no other thread has; O(bytes). Empty in other builds.

#include "pooled/config.hpp"
#include "pooled/detail/address_map.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/misuse.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/os/platform.hpp"

#include <array>
#include <cstddef>

#if POOLED_CHECKED
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <typeinfo>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class live_map {
public:
#if POOLED_HAS_CODE
    // So that set() makes no system call later. False: no memory.
    [[nodiscard]] bool prepare(void const* base, std::size_t bytes) noexcept {
        return m_leaves.prepare(base, bytes);
    }
#endif

    [[nodiscard]] bool test(void const* p) const noexcept {
        word const* const w = word_of(p);
        return w != nullptr && (w->load(std::memory_order_relaxed) & bit_of(p)) != 0;
    }

    // The bit's former value. Without effect where nothing was prepared.
    bool set(void const* p, bool live) noexcept {
        word* const w = word_of(p);
        if (w == nullptr) return false;
        std::uint64_t const bit = bit_of(p);
        std::uint64_t const before = live ? w->fetch_or(bit, std::memory_order_relaxed)
                                          : w->fetch_and(~bit, std::memory_order_relaxed);
        return (before & bit) != 0;
    }

private:
    static constexpr unsigned k_leaf_bits = 32;  // 32 MiB of bits
    static constexpr std::size_t k_word_bytes = 64 * k_min_block_bytes;
    using word = atomic<std::uint64_t>;
    using leaf = std::array<word, (std::size_t{1} << k_leaf_bits) / k_word_bytes>;

    // Null: not prepared.
    [[nodiscard]] word* word_of(void const* p) const noexcept {
        leaf* const l = m_leaves.covers(address_of(p)) ? m_leaves.leaf_of(address_of(p)) : nullptr;
        return l != nullptr ? &(*l)[static_cast<std::uint32_t>(address_of(p)) / k_word_bytes] : nullptr;
    }
    [[nodiscard]] static std::uint64_t bit_of(void const* p) noexcept {
        return std::uint64_t{1} << (address_of(p) / k_min_block_bytes % 64);
    }

    address_map<leaf, k_leaf_bits> m_leaves;
};

POOLED_STATE(live_map, g_live_map);
POOLED_STATE(live_map, g_filled_map);

namespace fill {

// In the build for tools, the caller has another block, which the tool watches.
inline constexpr bool k_is_on = POOLED_SANITIZE == 0;
inline constexpr std::size_t k_word = sizeof(std::uint64_t);
inline constexpr std::size_t k_intact = k_size_max;
inline constexpr unsigned char k_free_byte = 0xdb;
inline constexpr unsigned char k_guard_byte = 0xfd;

// The index of the first byte other than `byte`; k_intact if there is none.
[[nodiscard]] inline std::size_t first_changed(std::byte const* p, std::size_t bytes,
                                               unsigned char byte) noexcept {
    if (bytes == 0) return k_intact;
    // The first byte is right, and the memory equals itself shifted by one byte: memcmp compares at the speed of memory.
    if (p[0] == std::byte{byte} && std::memcmp(p, p + 1, bytes - 1) == 0) return k_intact;
    std::size_t i = 0;
    while (p[i] == std::byte{byte})
        ++i;
    return i;
}

// Differs between blocks, so that a copy of one block over another is detected.
[[nodiscard]] inline std::uint64_t key_of(void const* block) noexcept {
    return (address_of(block) ^ 0x5bd1e995U) * 0x9e3779b97f4a7c15U;
}

// The guard after a caller's block of `total` bytes of memory. Requires k_guard_bytes after it.
inline void write_guard(void* block, std::size_t bytes, std::size_t total) noexcept {
    auto* const p = static_cast<std::byte*>(block);
    std::memset(p + bytes, k_guard_byte, total - k_word - bytes);
    std::uint64_t const word = bytes ^ key_of(block);
    std::memcpy(p + total - k_word, &word, k_word);
}

struct guard_state {
    std::size_t bytes;    // requested bytes; k_size_max: no longer known
    std::size_t changed;  // offset of the first byte after them that was written; k_intact: none
};
[[nodiscard]] inline guard_state read_guard(void const* block, std::size_t total) noexcept {
    auto const* const p = static_cast<std::byte const*>(block);
    std::uint64_t word = 0;
    std::memcpy(&word, p + total - k_word, k_word);
    std::uint64_t const bytes = word ^ key_of(block);
    if (bytes > total - k_word) return {k_size_max, total - k_word};
    std::size_t const at = first_changed(p + bytes, total - k_word - bytes, k_guard_byte);
    return {bytes, at == k_intact ? k_intact : bytes + at};
}

// Begins with a pointer that no other code writes. Set once, before the first block is freed.
struct free_head {
    static constexpr std::size_t k_most_bytes = 64;
    std::array<std::byte, k_most_bytes> bytes{};
    std::size_t count = 0;
};
inline constexpr std::size_t k_no_head = k_size_max;
POOLED_STATE(free_head, g_free_head, {});
// Where the head is in the block that this thread frees now: a multiple of its alignment from the start; k_no_head: nowhere.
POOLED_THREAD_STATE(std::size_t, t_head_at, = k_no_head);

// A block of a size class, from its deallocation to the next allocation.
inline void begin_free(void* block, std::size_t bytes) noexcept {
    std::memset(block, k_free_byte, bytes);
    if (t_head_at() < bytes && g_free_head.count <= bytes - t_head_at())
        std::memcpy(static_cast<std::byte*>(block) + t_head_at(), g_free_head.bytes.data(),
                    g_free_head.count);
    g_filled_map.set(block, true);
}
inline void end_free(char const* pool_name, void* block, std::size_t bytes) noexcept {
    if (!g_filled_map.set(block, false)) return;
    auto const* const p = static_cast<std::byte const*>(block);
    std::size_t at = first_changed(p, bytes, k_free_byte);
    if (at == k_intact) [[likely]]
        return;
    // A head is found by its first byte: that of an address of words, which is not the filling's.
    static_assert(k_free_byte % 2 != 0);
    std::byte const* const head = g_free_head.bytes.data();
    std::size_t const count = g_free_head.count;
    std::size_t const begin = at;
    if (count != 0 && count <= bytes - begin && std::memcmp(p + begin, head, sizeof(void*)) == 0) {
        while (at - begin != count && p[at] == head[at - begin])
            ++at;
        if (at - begin == count) {
            std::size_t const next = first_changed(p + at, bytes - at, k_free_byte);
            if (next == k_intact) return;
            at += next;
        }
    }
    detail::fail_write(
        pool_name, block, bytes, at,
        "after it was freed (use after free); look for pointers that outlived the object there");
}

}  // namespace fill

// The name of the pool that a block is of: the registry knows it.
using name_of_block = char const* (*)(void const* block) noexcept;
POOLED_STATE(name_of_block, g_name_of_block, = nullptr);

[[noreturn]] POOLED_NOINLINE inline void fail_stale_owner(void const* block, char const* what) noexcept {
    detail::fail_with(
        "pooled: bad drop of a %s to the block at %p of pool '%s': the last one was dropped before, and the "
        "block is free or its object idle; look for one that two threads change, that is copied by its "
        "bytes, or that is destroyed twice",
        what, block, g_name_of_block(block));
}

#if defined(_LIBCPP_VERSION)
class stale_owner final : public std::__shared_weak_count {
    void __on_zero_shared() noexcept override { fail_stale_owner(this, "std::shared_ptr"); }
    void __on_zero_shared_weak() noexcept override { fail_stale_owner(this, "std::weak_ptr"); }
};
#elif defined(__GLIBCXX__)
class stale_owner final : public std::_Sp_counted_base<> {
    void _M_dispose() noexcept override { fail_stale_owner(this, "std::shared_ptr"); }
    void _M_destroy() noexcept override { fail_stale_owner(this, "std::weak_ptr"); }
    void* _M_get_deleter(std::type_info const&) noexcept override { return nullptr; }
};
#else
struct stale_owner {};
#endif

// In a block in use, for a control block that nothing owns: one that reports its drop.
inline void write_stale_owner(void* control) noexcept {
    std::memcpy(control, fill::g_free_head.bytes.data(), fill::g_free_head.count);
}
// Before another control block takes its place: its counts are unchanged. One that another copy of the library wrote has another
// table of functions, and is not verified.
inline void expect_stale_owner(void const* block, void const* control) noexcept {
    auto const* const now = static_cast<std::byte const*>(control);
    auto const& head = fill::g_free_head;
    if (head.count == 0 || std::memcmp(now, head.bytes.data(), sizeof(void*)) != 0) return;
    if (std::memcmp(now, head.bytes.data(), head.count) == 0) [[likely]]
        return;
    detail::fail_with(
        "pooled: bad copy of a std::shared_ptr or std::weak_ptr to the block at %p of pool '%s': the "
        "last one was dropped before, and the object was idle; look for a pointer that outlived it",
        block, g_name_of_block(block));
}

// While it lives, its thread frees a block that has a control block so many bytes after its start.
class frees_control_block {
public:
    explicit frees_control_block(std::size_t at) noexcept { fill::t_head_at() = at; }
    ~frees_control_block() { fill::t_head_at() = fill::k_no_head; }
    frees_control_block(frees_control_block const&) = delete;
    frees_control_block& operator=(frees_control_block const&) = delete;
};

#if POOLED_HAS_CODE

// What the heap calls. False: no memory for the maps of what it got from upstream.
namespace checked_memory {

[[nodiscard]] inline bool prepare(void const* base, std::size_t bytes) noexcept {
    return g_live_map.prepare(base, bytes) && g_filled_map.prepare(base, bytes);
}
// Forgets all blocks there, including those in use. O(bytes).
inline void forget(std::byte* base, std::size_t bytes) noexcept {
    for (std::size_t at = 0; at < bytes; at += k_min_block_bytes) {
        g_live_map.set(base + at, false);
        g_filled_map.set(base + at, false);
    }
}
// Whether a block in use, perhaps of another pool, starts there. The former value.
inline bool set_live(void const* p, bool is_live) noexcept { return g_live_map.set(p, is_live); }
// The memory of all free blocks in [first, end) may change from now on.
inline void end_free(char const* pool_name, std::byte* first, std::byte const* end,
                     std::size_t bytes) noexcept {
    for (std::byte* block = first; block + bytes <= end; block += bytes)
        fill::end_free(pool_name, block, bytes);
}

}  // namespace checked_memory

[[noreturn]] POOLED_NOINLINE inline void fail_dead_pool(char const* name, void const* core) noexcept(false) {
    detail::fail_with("pooled: bad allocation from pool '%s' at %p: it was destroyed; a pool must outlive "
                      "the allocators and "
                      "references that allocate from it",
                      name, core);
}

class dead_pools {
public:
    using core_name = array<char, 48>;

    // The new core's memory. False when there is no memory.
    [[nodiscard]] bool open(void* core) noexcept {
        if (!g_live_map.prepare(core, 3 * k_min_block_bytes)) return false;
        mark(core, 0, true);
        return true;
    }
    void close(void* core) noexcept {
        mark(core, 0, false);
        mark(core, 1, true);
    }
    // The core was destroyed; its memory is freed later.
    void free(void* core, std::size_t bytes, core_name const& name) noexcept {
        mark(core, 0, false);
        mark(core, 1, false);
        mark(core, 2, true);
        dead_pool* const fresh = ::new (core) dead_pool(name, bytes);
        platform::release_pages(static_cast<std::byte*>(core) + sizeof(dead_pool), bytes - sizeof(dead_pool));
        dead_pool* evicted = nullptr;
        {
            scoped_lock const lock(m_mutex);
            evicted = m_dead[m_next];
            m_dead[m_next] = fresh;
            m_next = (m_next + 1) % k_kept;
        }
        if (evicted == nullptr) return;
        mark(evicted, 2, false);
        g_metadata.deallocate(evicted, evicted->bytes);
    }

    [[nodiscard]] static bool is_open(void const* core) noexcept { return is_marked(core, 0); }
    [[nodiscard]] static bool is_closed(void const* core) noexcept { return is_marked(core, 1); }
    [[nodiscard]] static bool is_dead(void const* core) noexcept { return is_marked(core, 2); }
    // Requires a dead pool.
    [[nodiscard]] static char const* name_of(void const* core) noexcept {
        return std::launder(static_cast<dead_pool const*>(core))->name.elements;
    }

private:
    static constexpr std::size_t k_kept = 256;
    struct dead_pool final : std::pmr::memory_resource {
        core_name name;
        std::size_t bytes;

        dead_pool(core_name const& of, std::size_t size) noexcept : name(of), bytes(size) {}
        void* do_allocate(std::size_t, std::size_t) override { fail_dead_pool(name.elements, this); }
        void do_deallocate(void* p, std::size_t, std::size_t) override {
            detail::fail_deallocation(name.elements, p,
                                      "it was freed before (double free), as all of this destroyed pool");
        }
        [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
            return this == &other;
        }
    };

    static void mark(void* core, std::size_t unit, bool is_set) noexcept {
        g_live_map.set(static_cast<std::byte*>(core) + unit * k_min_block_bytes, is_set);
    }
    [[nodiscard]] static bool is_marked(void const* core, std::size_t unit) noexcept {
        return g_live_map.test(static_cast<std::byte const*>(core) + unit * k_min_block_bytes);
    }

    detail::mutex m_mutex;
    std::size_t m_next = 0;
    std::array<dead_pool*, k_kept> m_dead{};
};

POOLED_STATE(dead_pools, g_dead_pools);

POOLED_THREAD_STATE(std::uint32_t, t_thread_number, {0});  // readable until the thread is gone

class local_users {
public:
    // Once, before the first pool.
    void create_hook() noexcept;
    // The calling thread allocates from the pool.
    void on_allocate(std::uint32_t pool_id) noexcept {
        m_users[pool_id].store(own_number(), std::memory_order_relaxed);
    }
    // False when another thread uses the pool.
    [[nodiscard]] bool on_deallocate(std::uint32_t pool_id) noexcept {
        std::uint32_t const user = m_users[pool_id].load(std::memory_order_relaxed);
        if (user == own_number()) return true;
        // acquire: pairs with the release in on_end().
        if ((bit_of(user).load(std::memory_order_acquire) & mask_of(user)) == 0) return false;
        on_allocate(pool_id);
        return true;
    }

private:
    static constexpr std::uint32_t k_threads = 1U << 23;  // then a number's bit is used again

    // Not 0.
    [[nodiscard]] std::uint32_t own_number() noexcept {
        std::uint32_t& number = t_thread_number();
        if (number == 0) {
            number = m_last.fetch_add(1, std::memory_order_relaxed) + 1;
            bit_of(number).fetch_and(~mask_of(number), std::memory_order_relaxed);
            // Not a thread_local object with a destructor, for which the C library calls malloc. Unarmed, it counts as ended.
            if (!m_hook.arm(reinterpret_cast<void*>(std::uintptr_t{number}))) on_end(number);
        }
        return number;
    }
    // release: pairs with the acquire in on_deallocate().
    void on_end(std::uint32_t number) noexcept {
        bit_of(number).fetch_or(mask_of(number), std::memory_order_release);
    }
    [[nodiscard]] atomic<std::uint64_t>& bit_of(std::uint32_t number) noexcept {
        return m_ended[number % k_threads / 64];
    }
    [[nodiscard]] static constexpr std::uint64_t mask_of(std::uint32_t number) noexcept {
        return std::uint64_t{1} << (number % 64);
    }

    platform::thread_exit_hook m_hook;
    atomic<std::uint32_t> m_last{0};
    std::array<atomic<std::uint64_t>, k_threads / 64> m_ended{};
    std::array<atomic<std::uint32_t>, k_max_pools> m_users{};  // numbers of threads
};

POOLED_STATE(local_users, g_local_users);

inline void local_users::create_hook() noexcept {
    m_hook.create([](void* number) {
        g_local_users.on_end(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(number)));
    });
}

// Once, before the first pool.
inline void start_checks(name_of_block name_of) noexcept {
    g_local_users.create_hook();
    g_name_of_block = name_of;
    if constexpr (std::is_polymorphic_v<stale_owner>) {
        static_assert(sizeof(stale_owner) <= fill::free_head::k_most_bytes);
        static_assert(alignof(stale_owner) == sizeof(void*));
        alignas(stale_owner) std::array<std::byte, sizeof(stale_owner)> memory;
        // Its members are a pointer to a table of functions, two counts, and for some processors a mutex that is all zero bytes: a
        // copy of its bytes is another one.
        static_cast<void>(std::construct_at(reinterpret_cast<stale_owner*>(memory.data())));
        std::memcpy(fill::g_free_head.bytes.data(), memory.data(), memory.size());
        fill::g_free_head.count = memory.size();
    }
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#else

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct stale_owner {};
inline void fail_stale_owner(void const*, char const*) noexcept {}
inline void write_stale_owner(void*) noexcept {}
inline void expect_stale_owner(void const*, void const*) noexcept {}
struct frees_control_block {
    explicit frees_control_block(std::size_t) noexcept {}
};

#if POOLED_HAS_CODE

namespace checked_memory {
[[nodiscard]] inline bool prepare(void const*, std::size_t) noexcept { return true; }
inline void forget(std::byte*, std::size_t) noexcept {}
inline bool set_live(void const*, bool) noexcept { return false; }
inline void end_free(char const*, std::byte*, std::byte const*, std::size_t) noexcept {}
}  // namespace checked_memory

struct dead_pools {
    [[nodiscard]] static bool open(void*) noexcept { return true; }
    static void close(void*) noexcept {}
    static void free(void* core, std::size_t bytes, array<char, 48> const&) noexcept {
        g_metadata.deallocate(core, bytes);
    }
};
inline constexpr dead_pools g_dead_pools;

inline void start_checks(char const* (*)(void const* block) noexcept) noexcept {}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
