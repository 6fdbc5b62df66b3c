// SPDX-License-Identifier: BSL-1.0
#pragma once

// From an address to the pool and size class it belongs to. That is how a stateless deleter or an empty allocator, which
// hold nothing, find their way home, and how owns() answers without touching the memory it is asked about.
//
//   address  | 16 bits: must be 0 | 16 bits: root | 18 bits: leaf | 14 bits: within the granule |
//
//   root  65536 pointers, half a MiB of zero pages until used
//   leaf  262144 entries of 4 bytes for 4 GiB of addresses, made when a chunk first needs it, never given back
//   entry | near slot: 5 | 0: 1 | large: 1 | local: 1 | class + 1: 8 | pool: 16 |,  0: nobody's
//
// Two dependent loads from dense tables: a pool of 320 MiB has its entries in 80 KiB. A header at the base of each chunk
// would take one load, but all headers fall in the same few cache sets, and it cannot be asked about foreign addresses.
//
// Any thread may call anything. Entries are relaxed: whoever frees a block got its address from a thread that had it
// after the entry was written. O(1); assign: O(granules).

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::detail {

class map_entry {
public:
    constexpr map_entry() noexcept = default;
    constexpr explicit map_entry(std::uint32_t bits) noexcept : m_bits(bits) {}
    constexpr map_entry(std::uint32_t pool_id, class_index c, bool is_local) noexcept
        : m_bits(pool_id | (((c + 1) & 0xff) << 16) | (is_local ? k_local : 0) |
                 (c == k_large ? k_large_flag : 0) | (near_slot(pool_id) << k_slot_shift)) {}

    [[nodiscard]] constexpr bool empty() const noexcept { return m_bits == 0; }
    [[nodiscard]] constexpr std::uint32_t pool_id() const noexcept { return m_bits & 0xffff; }
    [[nodiscard]] constexpr std::uint32_t slot() const noexcept { return m_bits >> k_slot_shift; }
    [[nodiscard]] constexpr bool is_local() const noexcept { return (m_bits & k_local) != 0; }
    [[nodiscard]] constexpr class_index size_class() const noexcept {
        return (m_bits & k_large_flag) != 0 ? k_large : ((m_bits >> 16) & 0xff) - 1;
    }
    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return m_bits; }

private:
    static_assert(k_max_pools == 1U << 16 && k_near_slots == 1U << 5);
    static constexpr std::uint32_t k_local = 1U << 24;
    static constexpr std::uint32_t k_large_flag = 1U << 25;
    static constexpr unsigned k_slot_shift = 27;
    std::uint32_t m_bits = 0;
};

// Bounds of all memory that pools ever had: a guess, good enough for a prefetch.
struct address_span {
    std::uintptr_t first = 0;
    std::uintptr_t bytes = 0;
    [[nodiscard]] bool contains(std::uintptr_t address) const noexcept { return address - first < bytes; }
};

class address_map {
public:
    constexpr address_map() noexcept = default;
    address_map(address_map const&) = delete;
    address_map& operator=(address_map const&) = delete;

    // Empty for any address that no pool has.
    [[nodiscard]] map_entry find(void const* p) const noexcept {
        std::uintptr_t const address = address_of(p);
        if (address >> k_address_bits != 0) [[unlikely]]
            return {};
        leaf const* const l = leaf_of(address);
        if (l == nullptr) [[unlikely]]
            return {};
        return map_entry((*l)[granule_of(address)].load(std::memory_order_relaxed));
    }

    // Requires that `p` lies in memory of a pool.
    [[nodiscard]] POOLED_ALWAYS_INLINE map_entry find_owned(void const* p) const noexcept {
        std::uintptr_t const address = address_of(p);
        return map_entry((*leaf_of(address))[granule_of(address)].load(std::memory_order_relaxed));
    }

    // Makes the leaves for [base, base + bytes). False when the system has no memory for them, or when the addresses are
    // beyond the map (48 bits).
    [[nodiscard]] bool prepare(void const* base, std::size_t bytes) noexcept {
        std::uintptr_t const last = address_of(base) + bytes - 1;
        if (last >> k_address_bits != 0) return false;
        for (std::uintptr_t i = address_of(base) >> k_leaf_span_bits; i <= last >> k_leaf_span_bits; ++i)
            if (m_root[i].load(std::memory_order_acquire) == nullptr && !make_leaf(i)) return false;
        widen(address_of(base), last + 1);
        return true;
    }

    [[nodiscard]] address_span span() const noexcept {
        std::uintptr_t const first = ~m_complement_of_first.load(std::memory_order_relaxed);
        return {first, m_end.load(std::memory_order_relaxed) - first};
    }

    // Requires prepare() of the same range.
    void assign(void const* base, std::size_t bytes, map_entry entry) noexcept {
        std::uintptr_t const end = address_of(base) + bytes;
        for (std::uintptr_t a = round_down(address_of(base), k_granule_bytes); a < end; a += k_granule_bytes)
            (*leaf_of(a))[granule_of(a)].store(entry.bits(), std::memory_order_relaxed);
    }

private:
    static constexpr unsigned k_address_bits = 48;
    static constexpr unsigned k_leaf_span_bits = 32;
    static constexpr std::size_t k_leaf_entries = (std::size_t{1} << k_leaf_span_bits) / k_granule_bytes;
    using leaf = std::array<std::atomic<std::uint32_t>, k_leaf_entries>;

    // acquire: pairs with the release in make_leaf; the leaf's pages are seen mapped.
    [[nodiscard]] leaf* leaf_of(std::uintptr_t address) const noexcept {
        return m_root[address >> k_leaf_span_bits].load(std::memory_order_acquire);
    }
    [[nodiscard]] static std::size_t granule_of(std::uintptr_t address) noexcept {
        static_assert(k_leaf_span_bits == 32);
        return static_cast<std::uint32_t>(address) / k_granule_bytes;
    }

    void widen(std::uintptr_t first, std::uintptr_t end) noexcept {
        raise(m_complement_of_first, ~first);
        raise(m_end, end);
    }
    static void raise(std::atomic<std::uintptr_t>& bound, std::uintptr_t to) noexcept {
        std::uintptr_t known = bound.load(std::memory_order_relaxed);
        while (to > known && !bound.compare_exchange_weak(known, to, std::memory_order_relaxed)) {}
    }

    bool make_leaf(std::size_t index) noexcept {
        void* const pages = platform::map_pages(sizeof(leaf), platform::k_page_bytes);
        if (pages == nullptr) return false;
        leaf* expected = nullptr;
        // Zero pages are a leaf of empty entries. release: pairs with the acquire in leaf_of.
        if (!m_root[index].compare_exchange_strong(expected, static_cast<leaf*>(pages),
                                                   std::memory_order_release, std::memory_order_relaxed))
            platform::unmap_pages(pages, sizeof(leaf));
        return true;
    }

    std::array<std::atomic<leaf*>, std::size_t{1} << (k_address_bits - k_leaf_span_bits)> m_root{};
    std::atomic<std::uintptr_t> m_complement_of_first{
        0};  // all zero bytes until used: no page of a program's file
    std::atomic<std::uintptr_t> m_end{0};
};

POOLED_EXPORT inline constinit address_map g_address_map;

}  // namespace pooled::detail
