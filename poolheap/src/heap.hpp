// SPDX-License-Identifier: BSL-1.0
#pragma once

// The blocks of pooled's pools in an image: those that the program holds, and nothing else.
//
//   in the list        blocks in use, idle recycled objects, and those of an exchange that the image caught half done (uncertain)
//   not in the list    blocks in threads' caches, recent lists and the slots of a bound, free spans, spare memory of reservations
//
// A block that a pool gave to another pool as its memory is not in the list, since the blocks in it are.
//
//   slab     | slot | slot | slot |     equal blocks one behind the other
//   blocks   a bit a slot; a block's index is that of its bit, so its address is computed and not stored
//
// Invariants: slabs are ascending and disjoint; a slab's first index is the number of slots before it. find: O(1) but for a
// short search; operator[] and others: O(log slabs).

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace poolheap {

// Of an array in which walks will jump about, before it has pages: a step then does not wait for page tables, too.
template <class T>
void use_huge_pages(std::vector<T>& reserved) {
    auto const begin = reinterpret_cast<std::uintptr_t>(reserved.data()) & -std::uintptr_t{4096};
    if (begin != 0) ::madvise(reinterpret_cast<void*>(begin), reserved.capacity() * sizeof(T), MADV_HUGEPAGE);
}

class image;
using address = std::uint64_t;

enum block_state : std::uint8_t {
    in_use,
    idle,       // a recycled object that waits in an object_pool
    deferred,   // destroyed soon: an incremental pool's object without an owner
    uncertain,  // free or in use: the image was taken in the middle of a refill
};

using block_index = std::uint32_t;  // of a slot, whether it has a block or not
inline constexpr block_index k_no_block = ~block_index{0};

struct block {
    address begin = 0;
    std::uint64_t bytes = 0;  // of its size class
    std::uint16_t pool = 0;   // index in heap::pools
    block_state state = in_use;
};

struct slab {
    address begin = 0;
    std::uint64_t bytes = 0;  // of a block
    block_index first = 0;
    std::uint32_t count = 0;
    std::uint16_t pool = 0;

    [[nodiscard]] address end() const noexcept { return begin + bytes * count; }
};

class heap {
public:
    std::vector<std::string> pools;  // their names; each copy of the library has its own default pool
    std::vector<slab> slabs;
    std::vector<bool> blocks;                             // of all slots: whether there is one
    std::unordered_map<block_index, block_state> others;  // that are not in use, or perhaps not
    // Names of types by the number that is in the headers of make_rc and make_unique; as the compiler wrote them.
    std::map<std::uint32_t, std::string> counted_types;
    // What is not exact, in sentences; empty: nothing.
    std::vector<std::string> doubts;

    // The block that contains the address, also in its middle.
    struct hit {
        block_index index = k_no_block;
        address begin = 0;
    };
    [[nodiscard]] hit find(address a) const noexcept {
        hit const found = slot_of(a);
        return found.index != k_no_block && blocks[found.index] ? found : hit{};
    }
    // The same, also of a slot without a block.
    [[nodiscard]] hit slot_of(address a) const noexcept;
    [[nodiscard]] block operator[](block_index b) const noexcept;
    [[nodiscard]] block_state state(block_index b) const {
        auto const other = others.find(b);
        return other == others.end() ? in_use : other->second;
    }
    // Calls visit(block_index, block const&), ascending.
    void for_each_block(auto&& visit) const {
        for (slab const& s : slabs)
            for (std::uint32_t i = 0; i < s.count; ++i)
                if (blocks[s.first + i])
                    visit(s.first + i, block{s.begin + i * s.bytes, s.bytes, s.pool, state(s.first + i)});
    }
    using range = std::pair<address, address>;  // begin, end
    // Memory of the library's own records, and of pools, in use or not: its words are no roots. Ascending and disjoint.
    std::vector<range> records, pool_memory;

    // After the last slab, and before the first of the others: sorts slabs, and the bits likewise.
    void index();

private:
    std::vector<std::size_t> m_first_page;    // of each range of pool memory, in m_first_slab
    std::vector<std::uint32_t> m_first_slab;  // of each 16 KiB: the first slab that ends after their begin
};

// Throws error if no file of the image has a record of the library, or one of a layout that this program does not know.
[[nodiscard]] heap read_heap(image const& from);

}  // namespace poolheap
