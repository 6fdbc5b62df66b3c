// SPDX-License-Identifier: BSL-1.0
#pragma once

// The patterns that the checked build writes into blocks, to detect stray writes:
//
//   in use  | what the caller asked for: bytes | guard | bytes, encoded: 8 |     all after the caller's bytes is verified
//   free    | filled | head, if any | filled |                                   verified when the block is used again
//
// A bit for each block records which free blocks are filled, in a map like that of the blocks in use. Pages are verified before
// they return to the system or change their size class.
//
// A block of make_shared has a head where its control block was: what a std::shared_ptr meets that still points there
// (impl/instrument/stale_owner.hpp).
//
// Any thread may call, for a block that no other one has. O(bytes). Not compiled in other builds.

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/misuse.hpp"
#include "pooled/impl/instrument/live_map.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#if POOLED_CHECKED
#include <cstring>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::fill {

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

[[noreturn]] POOLED_NOINLINE inline void fail_written(char const* pool_name, void const* block,
                                                      std::size_t bytes, std::size_t at) noexcept {
    detail::fail_write(
        pool_name, block, bytes, at,
        "after it was freed (use after free); look for pointers that outlived the object there");
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
POOLED_STATE(thread_local std::size_t, t_head_at, = k_no_head);

inline void write_free(void* block, std::size_t bytes) noexcept {
    std::memset(block, k_free_byte, bytes);
    if (t_head_at < bytes && g_free_head.count <= bytes - t_head_at)
        std::memcpy(static_cast<std::byte*>(block) + t_head_at, g_free_head.bytes.data(), g_free_head.count);
}
inline void verify_free(char const* pool_name, void const* block, std::size_t bytes) noexcept {
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
    fail_written(pool_name, block, bytes, at);
}

#if POOLED_HAS_CODE
// A block of a size class, from its deallocation to the next allocation.
inline void begin_free(void* block, std::size_t bytes) noexcept {
    write_free(block, bytes);
    static_cast<void>(g_filled_map.set(block, true));
}
inline void end_free(char const* pool_name, void* block, std::size_t bytes) noexcept {
    if (g_filled_map.set(block, false)) verify_free(pool_name, block, bytes);
}
// The same for all free blocks in [first, end).
inline void end_free(char const* pool_name, std::byte* first, std::byte const* end,
                     std::size_t bytes) noexcept {
    for (std::byte* block = first; block + bytes <= end; block += bytes)
        end_free(pool_name, block, bytes);
}
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::fill

#endif
