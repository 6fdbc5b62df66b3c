// SPDX-License-Identifier: BSL-1.0
#pragma once

// From an address to a leaf: what is known of 2^LeafBits bytes of addresses. A leaf is zero pages until it is written, made when memory
// first arrives there, and never freed.
//
//   address  | 16 bits: must be 0 | root: 48 - LeafBits bits | within the leaf: LeafBits bits |
//
// Any thread may call any function. O(1); prepare: O(leaves).

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/impl/os/platform.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// `Leaf`: zero bytes are a valid one.
template <class Leaf, unsigned LeafBits>
class address_map {
public:
    constexpr address_map() noexcept = default;
    address_map(address_map const&) = delete;
    address_map& operator=(address_map const&) = delete;

    [[nodiscard]] static bool covers(std::uintptr_t address) noexcept {
        return address >> k_address_bits == 0;
    }
    // Null: none was made. Requires an address that the map covers. acquire: pairs with the release in prepare(); the leaf's mapped
    // pages are seen.
    [[nodiscard]] Leaf* leaf_of(std::uintptr_t address) const noexcept {
        return __atomic_load_n(&m_root[address >> LeafBits], __ATOMIC_ACQUIRE);
    }

#if POOLED_HAS_CODE
    // Makes the leaves for [base, base + bytes). False when the system has no memory for them, or when the addresses are
    // beyond the map.
    [[nodiscard]] bool prepare(void const* base, std::size_t bytes) noexcept {
        std::uintptr_t const last = address_of(base) + (bytes == 0 ? 0 : bytes - 1);
        if (!covers(last)) return false;
        for (std::uintptr_t i = address_of(base) >> LeafBits; i <= last >> LeafBits; ++i) {
            if (leaf_of(i << LeafBits) != nullptr) continue;
            void* const pages = platform::map_pages(sizeof(Leaf), platform::k_page_bytes);
            if (pages == nullptr) return false;
            Leaf* none = nullptr;
            // release: pairs with the acquire in leaf_of().
            if (!__atomic_compare_exchange_n(&m_root[i], &none, static_cast<Leaf*>(pages), false,
                                             __ATOMIC_RELEASE, __ATOMIC_RELAXED))
                platform::unmap_pages(pages, sizeof(Leaf));
        }
        return true;
    }
#endif

private:
    static constexpr unsigned k_address_bits = 48;

    // Not std::atomic, because Clang does not evaluate a million constructors for a constant.
    Leaf* m_root[std::size_t{1} << (k_address_bits - LeafBits)]{};
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
