// SPDX-License-Identifier: BSL-1.0
#pragma once

// Finds the pool and the descriptor of the memory at an address. A stateless deleter or an empty allocator finds the pool
// of a block this way, and owns() answers without reading the memory in question.
//
//   address  | 16 bits: must be 0 | 16 bits: root | 18 bits: leaf | 14 bits: within the granule |
//
//   root  65536 pointers, half a MiB of zero pages until used
//   leaf  262144 entries of 8 bytes for 4 GiB of addresses
//   entry | pool: 16 | record: 42 | 0: 5 | local: 1 |,  0: no pool's memory
//
// Two dependent loads from dense tables: a pool of 320 MiB has its entries in 160 KiB. A header at the base of each chunk
// would take one load, but all headers would map to the same few cache sets, and foreign addresses could not be looked up.
// An entry is written when a span gets a size class, and when a chunk arrives from upstream or returns.
//
// Any thread may call any function. Entries are relaxed, because a thread that frees a block received its address, directly or
// indirectly, from the thread that wrote the entry. O(1); assign: O(granules); prepare: O(leaves).

#include "pooled/base/size_class.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

struct slab;

class map_entry {
public:
    constexpr map_entry() noexcept = default;
    constexpr explicit map_entry(std::uint64_t bits) noexcept : m_bits(bits) {}
    // `descriptor`: the first record of the span.
    map_entry(std::uint32_t pool_id, slab const* descriptor, bool is_local) noexcept
        : m_bits((std::uint64_t{pool_id} << k_pool_shift) | address_of(descriptor) | is_local) {}

    [[nodiscard]] constexpr bool empty() const noexcept { return m_bits == 0; }
    [[nodiscard]] constexpr std::uint32_t pool_id() const noexcept {
        return static_cast<std::uint32_t>(m_bits >> k_pool_shift);
    }
    [[nodiscard]] constexpr bool is_local() const noexcept { return (m_bits & 1) != 0; }
    // Requires memory that cannot return to upstream because a block there is in use.
    [[nodiscard]] slab* slab_at() const noexcept {
        return reinterpret_cast<slab*>(m_bits & k_descriptor_mask);
    }
    [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return m_bits; }

private:
    friend record_access;
    static_assert(k_max_pools == 1U << 16);
    static constexpr unsigned k_pool_shift = 48;
    static constexpr std::uint64_t k_descriptor_mask =
        ((std::uint64_t{1} << k_pool_shift) - 1) & ~std::uint64_t{k_cache_line - 1};

    std::uint64_t m_bits = 0;
};

// A number for each `Unit` bytes of addresses. A leaf has those of 2^LeafBits bytes; it is zero pages until it is written, made when
// memory first arrives there, and never freed.
template <std::size_t Unit, unsigned LeafBits>
class address_map {
public:
    using entry = atomic<std::uint64_t>;
    using leaf = entry[(std::size_t{1} << LeafBits) / Unit];

    constexpr address_map() noexcept = default;
    address_map& operator=(address_map&&) = delete;

    // 0 where no leaf was made, or the address is beyond the map.
    [[nodiscard]] POOLED_ALWAYS_INLINE std::uint64_t get(std::uintptr_t address) const noexcept {
        leaf const* const of = find_leaf(address);
        if (of == nullptr) [[unlikely]]
            return 0;
        return (*of)[index_of(address)].load(std::memory_order_relaxed);
    }
    // Null: no memory ever arrived near the address, or it is beyond the map.
    [[nodiscard]] POOLED_ALWAYS_INLINE leaf const* find_leaf(std::uintptr_t address) const noexcept {
        return covers(address) ? leaf_of(address) : nullptr;
    }
    // Requires that prepare() was called for the address.
    [[nodiscard]] POOLED_ALWAYS_INLINE entry& at(std::uintptr_t address) const noexcept {
        return (*leaf_of(address))[index_of(address)];
    }
    // Null: none was made. Requires an address that the map covers. acquire: pairs with the release in prepare(); the leaf's mapped
    // pages are seen.
    [[nodiscard]] leaf* leaf_of(std::uintptr_t address) const noexcept {
        return __atomic_load_n(&m_root[address >> LeafBits], __ATOMIC_ACQUIRE);
    }

#if POOLED_HAS_CODE
    // Makes the leaves for [base, base + bytes). False when the system has no memory for them, or when the addresses are
    // beyond the map.
    [[nodiscard]] bool prepare(void const* base, std::size_t bytes) noexcept {
        std::uintptr_t const last = last_of(base, bytes);
        if (!covers(last)) return false;
        for (std::uintptr_t i = address_of(base) >> LeafBits; i <= last >> LeafBits; ++i) {
            if (leaf_of(i << LeafBits) != nullptr) continue;
            void* const pages = platform::map_pages(sizeof(leaf), platform::k_page_bytes);
            if (pages == nullptr) return false;
            leaf* none = nullptr;
            // release: pairs with the acquire in leaf_of().
            if (!__atomic_compare_exchange_n(&m_root[i], &none, static_cast<leaf*>(pages), false,
                                             __ATOMIC_RELEASE, __ATOMIC_RELAXED))
                platform::unmap_pages(pages, sizeof(leaf));
        }
        return true;
    }

    // Requires prepare() of the same range.
    void assign(void const* base, std::size_t bytes, std::uint64_t value) noexcept {
        std::uintptr_t const last = last_of(base, bytes);
        for (std::uintptr_t a = round_down(address_of(base), Unit); a <= last; a += Unit)
            at(a).store(value, std::memory_order_relaxed);
    }
#endif

private:
    friend record_access;
    static constexpr unsigned k_address_bits = 48;
    static constexpr unsigned k_leaf_bits = LeafBits;

    [[nodiscard]] static constexpr std::size_t index_of(std::uintptr_t address) noexcept {
        return address % (std::uintptr_t{1} << LeafBits) / Unit;
    }
    [[nodiscard]] static bool covers(std::uintptr_t address) noexcept {
        return address >> LeafBits < std::uintptr_t{1} << (k_address_bits - LeafBits);
    }
    [[nodiscard]] static std::uintptr_t last_of(void const* base, std::size_t bytes) noexcept {
        return address_of(base) + (bytes == 0 ? 0 : bytes - 1);
    }

    // Not std::atomic, because Clang does not evaluate a million constructors for a constant.
    leaf* m_root[std::size_t{1} << (k_address_bits - LeafBits)]{};
};

class page_map : public address_map<k_granule_bytes, 32> {
public:
    // The entry is empty for addresses outside all pools.
    [[nodiscard]] POOLED_ALWAYS_INLINE map_entry find(void const* p) const noexcept {
        return map_entry(get(address_of(p)));
    }

    // As find(), for an address that the process may read or write: on Linux, the map covers all of those.
    [[nodiscard]] POOLED_ALWAYS_INLINE map_entry find_mapped(void const* p) const noexcept {
        auto const* const l = leaf_of(address_of(p));
        if (l == nullptr) [[unlikely]]
            return {};
        auto low = static_cast<std::uint32_t>(address_of(p));
        asm("" : "+r"(low));  // GCC 12 shifts the whole address and then masks it: one instruction more
        return map_entry((*l)[low / std::uint32_t{k_granule_bytes}].load(std::memory_order_relaxed));
    }

    // Passes the descriptor of each block on. False: not all are of the pool of `own`, which has no descriptor, and within the leaf of the first
    // one; what was passed may then be anything. Fewer instructions than find(), as one branch is for all.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool find_all(span<void* const> blocks, map_entry own,
                                                     auto&& pass) const noexcept {
        leaf const* const first = find_leaf(address_of(blocks.front()));
        if (first == nullptr) return false;
        std::uint64_t others = 0, beyond = 0;
        for (void* const block : blocks) {
            std::size_t const nth = static_cast<std::uint32_t>(address_of(block)) / k_granule_bytes;
            std::uint64_t const rest = (*first)[nth].load(std::memory_order_relaxed) ^ own.bits();
            others |= rest;
            beyond |= address_of(block) ^ address_of(blocks.front());
            pass(reinterpret_cast<slab*>(rest));
        }
        return map_entry(others).pool_id() == 0 && beyond >> 32 == 0;
    }

    // Requires that `p` lies in memory of a pool.
    [[nodiscard]] POOLED_ALWAYS_INLINE map_entry find_owned(void const* p) const noexcept {
        return map_entry(at(address_of(p)).load(std::memory_order_relaxed));
    }
};

POOLED_STATE(page_map, g_page_map);

POOLED_END_DETAIL
