// SPDX-License-Identifier: BSL-1.0
#pragma once

// The mark that the hardened build (instrument/hardened.hpp) keeps in a free block: its first word is the block's address plus a secret
// of the process.
//
//   free block  | mark | untouched …          block in use  | the user's: never the mark |
//
// A block gets its mark when a refill takes it from its slab for the first time, and whenever it is freed. The mark occupies the word
// where the library's objects have their counts, which creation and destruction touch anyway. It therefore causes no cache miss; a
// separate table of blocks in use would cause one for each operation.
//
// The secret is chosen before the first block exists. The owner of a block, or the holder of its size class's lock while it is
// free, may call; O(1). Unused in other builds.

#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

// The other two builds see more of each block. NOLINTNEXTLINE(misc-redundant-expression): where both macros are 0
inline constexpr bool k_hardened = POOLED_HARDENED != 0 && POOLED_CHECKED == 0 && POOLED_SANITIZE == 0;

namespace free_mark {

POOLED_STATE(std::uintptr_t, g_secret, = 0);

#if POOLED_HAS_CODE
// Called once, before the first pool. The secret is odd, so no mark is zero or the address of a block. Its two highest bits
// differ, so no mark is a valid address, and a call through it always ends the program.
inline void choose() noexcept {
    constexpr std::uintptr_t k_high = std::uintptr_t{1} << 62;
    g_secret = (static_cast<std::uintptr_t>(platform::random_bits()) & (k_high - 1)) | k_high | 1;
}
#endif

// The sum is compared and stored: one instruction less per freed block than the difference.
[[nodiscard]] POOLED_ALWAYS_INLINE std::uintptr_t mark_of(void const* block) noexcept {
    return address_of(block) + g_secret;
}
[[nodiscard]] POOLED_ALWAYS_INLINE bool is_on(void const* block) noexcept {
    std::uintptr_t word = 0;
    __builtin_memcpy(&word, block, sizeof(word));
    return word == mark_of(block);
}
POOLED_ALWAYS_INLINE void put_on(void* block) noexcept {
    std::uintptr_t const word = mark_of(block);
    __builtin_memcpy(block, &word, sizeof(word));
}
POOLED_ALWAYS_INLINE void take_off(void* block) noexcept {
    std::uintptr_t const word = 0;
    __builtin_memcpy(block, &word, sizeof(word));
    asm volatile("" : : "r"(block) : "memory");  // keeps the store, which to the compiler has no effect
}

}  // namespace free_mark

POOLED_END_DETAIL
