// SPDX-License-Identifier: BSL-1.0
#pragma once

// The blocks of pooled's pools in an image: those that the program holds, and nothing else.
//
//   in the list        blocks in use, idle recycled objects, and those of an exchange that the image caught half done (uncertain)
//   not in the list    blocks in threads' caches, recent lists and the slots of a bound, free spans, spare memory of reservations
//
// A block that a pool gave to another pool as its memory is not in the list, since the blocks in it are.
// Invariant: blocks are ascending and disjoint. find: O(log blocks of its 16 KiB), others: O(log ranges).

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace poolheap {

class image;
using address = std::uint64_t;

struct pool_info {
    std::uint32_t id = 0;  // in the program; each copy of the library has its own default pool 1
    std::string name;
    std::size_t objects = 0;  // in use, idle or uncertain
    std::size_t bytes = 0;
};

enum block_state : std::uint8_t {
    in_use,
    idle,       // a recycled object that waits in an object_pool
    deferred,   // destroyed soon: an incremental pool's object without an owner
    uncertain,  // free or in use: the image was taken in the middle of a refill
};

struct block {
    address begin = 0;
    std::uint32_t bytes = 0;  // of its size class; at most 4 GiB - 1
    std::uint16_t pool = 0;   // index in heap::pools
    std::uint8_t state = in_use;
};

class heap {
public:
    std::vector<pool_info> pools;
    std::vector<block> blocks;
    // Names of types by the number that is in the headers of make_rc and make_unique; as the compiler wrote them.
    std::map<std::uint32_t, std::string> counted_types;
    // What is not exact, in sentences; empty: nothing.
    std::vector<std::string> doubts;

    // The block that contains the address, also in its middle; null: none.
    [[nodiscard]] block const* find(address a) const noexcept;
    // Memory of the library's own records: its words are no references.
    [[nodiscard]] bool is_record(address a) const noexcept;
    // Memory of a pool, in use or not: what is not a block there is no root.
    [[nodiscard]] bool is_pool_memory(address a) const noexcept;

    using range = std::pair<address, address>;  // begin, end
    // Ascending and disjoint; for those who walk the mappings.
    [[nodiscard]] std::span<range const> records() const noexcept { return m_records; }
    [[nodiscard]] std::span<range const> pool_memory() const noexcept { return m_pool_memory; }

    // After `blocks` is filled by hand, in tests.
    void index();

    std::vector<range> m_records;
    std::vector<range> m_pool_memory;

private:
    std::vector<std::size_t> m_first_page;     // of each range of pool memory, in m_first_block
    std::vector<std::uint32_t> m_first_block;  // of each 16 KiB: the first block that ends after their begin
};

// Throws error if no file of the image has a record of the library, or one of a layout that this program does not know.
[[nodiscard]] heap read_heap(image const& from);

}  // namespace poolheap
