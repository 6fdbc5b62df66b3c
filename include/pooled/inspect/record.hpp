// SPDX-License-Identifier: BSL-1.0
#pragma once

// Another program, poolheap, reads from these records what the pools of a process or core file hold. They are plain structs and constants: this file
// includes nothing of the library, so that poolheap can.
//
//   ELF note (.note.pooled, type k_copies_layout)   in each file with the library, also when it is stripped: plugins/copies_elf.hpp
//     └▶ a pointer to the directory of the process; null until this file has made a pool
//          └▶ copy_head ─▶ copy_head ─▶ …           one for each copy of the library's state that has a pool
//               └▶ record                          addresses of page map, registry and arena, and where their members are
//                    registry ─▶ cores ─▶ caches, central lists: addresses of blocks that are not in use
//                    page map ─▶ slabs: a bit for each block, set if it is free
//
// A block is in use if its bit is clear and its address is in no cache, recent list, deferred list or slot of the bound, and not handed over.
//
// The record is constant data. It holds offsets instead of types, so that a reader also understands builds in which members
// lie elsewhere. k_layout is raised whenever an offset or a meaning changes; a reader refuses numbers that it does not know.
// test/unit/inspect/record.cpp fails when an offset changed and the number did not.

#include <cstdint>

namespace pooled::inspect {

inline constexpr std::uint64_t k_magic = 0x70616568'6c6f6f70;  // "poolheap", as bytes
inline constexpr std::uint32_t k_layout = 1;

// In the header of a counted object (of_directory): its observers are those above k_no_weak, with which it is still an operand of 32 bits.
// A reader takes a word with k_most_weak or more of them for another one.
inline constexpr std::uint64_t k_no_weak = 0x15554;
inline constexpr std::uint64_t k_most_weak = 4096;

inline constexpr char const* k_note_name = "pooled";
inline constexpr std::uint32_t k_copies_layout = 4;
inline constexpr std::uint64_t k_link_magic = 0x6bd1'4c0a'9e37'f205;  // follows the pointer to the directory

struct record;

// The first members of memory_copy (plugins/copies.hpp). The directory begins with a pointer to the first one.
struct copy_head {
    char const* abi = nullptr;  // equal for copies with the same layouts
    copy_head* next = nullptr;  // the one registered before this one
    record const* heap = nullptr;
};

// Bytes from the start of the structure that a group is named after. Lists are linked by pointers to elements; null ends them.
struct record {
    std::uint64_t magic = k_magic;
    std::uint32_t layout = k_layout;
    std::uint32_t bytes = 0;  // of this record
    // 0: blocks are the pool's own; else this build gives callers blocks of malloc, and the pools' are not what they hold.
    std::uint32_t are_blocks_of_malloc = 0;
    std::uint32_t guard_bytes = 0;  // after each block, in the checked build

    void const* page_map = nullptr;
    void const* registry = nullptr;
    void const* arena = nullptr;
    std::uint64_t page_map_bytes = 0;
    std::uint64_t registry_bytes = 0;
    std::uint64_t arena_bytes = 0;

    // page map: a root of pointers to leaves, with an entry of 8 bytes for each granule: | pool id: 16 | record | flags below a line |
    struct {
        std::uint32_t root_entries, leaf_bits, granule_bytes, pool_shift;
        std::uint64_t descriptor_mask;
    } map = {};

    struct {
        std::uint32_t m_cores, max_pools;
    } of_registry = {};

    struct {
        std::uint32_t m_made_by, m_id, m_extension, m_name, name_bytes, m_memory, bytes;
        std::uint32_t description;  // in the extension: a pointer to recycle_layout or deferred_layout
    } of_core = {};

    // pool_memory, and its cache_set
    struct {
        std::uint32_t first_cache, m_slots, slot_count, slot_bytes, slot_address_shift, slot_unit, m_central,
            central_bytes;
        std::uint32_t m_deferred, deferred_bytes;  // of each class, the first of a list of deferred_blocks
        // A pointer, perhaps null, to words: addresses or null, but for each first of `handed_step`.
        std::uint32_t m_handed, handed_step, handed_bytes;
        std::uint32_t bytes;
    } of_memory = {};

    // central: the list of one class. The lock's word is 0 while it is free.
    struct {
        std::uint32_t lock, ring, ring_capacity, ring_begin, ring_count;
    } of_central = {};

    // deferred_blocks: `count` addresses of free blocks, and room for some.
    struct {
        std::uint32_t next, count, room, blocks;
    } of_deferred = {};

    // thread_cache: `recycled` and `classes` are class_caches. The addresses are hot, unless null, and those from first to top.
    struct {
        std::uint32_t next, bytes, recycled, classes, class_count, class_bytes;
        std::uint32_t hot, first, floor, top, limit;
        std::uint32_t deferred;  // a deferred_queue, or null
    } of_cache = {};

    // slab: the records of a span's granules follow each other, and so do their bits. `exact`: the class of one block of any size.
    struct {
        std::uint32_t blocks, owner, granules, total, free, size_class, short_by, bits, bits_words, bytes;
        std::uint32_t exact;
    } of_slab = {};
    struct {
        std::uint32_t base, bytes, granules, outer, header_bytes;
    } of_chunk = {};

    // Blocks of each class: `count` elements of `stride` bytes, with 4 bytes for the size.
    struct {
        void const* table;
        std::uint32_t stride, block_bytes, count;
    } geometry = {};

    // metadata_arena: `list_count` lists of regions, of region_bytes at a multiple of it. Larger pieces are pages of their own.
    struct {
        std::uint32_t m_regions, list_bytes, list_count, next, region_bytes, largest_piece, page_bytes;
    } of_arena = {};

    // The directory: `type_numbers` pointers to block_types, of which those from `first_type` on may be set. A block_type has a
    // pointer to its name, "… [with T = name]" or "… [T = name]". The number is in the headers of counted objects:
    // | strong: 26 | weak: 24 | type: 14 |; strong is one less than the owners, among which a unique_ptr is none; weak is k_no_weak, and one
    // for each observer and for all owners together.
    struct {
        std::uint32_t types, first_type, type_numbers, name;
    } of_directory = {};
};

// A word that may be such a header.
struct counted_word {
    std::uint64_t type, weak, owners;  // weak: with one for all owners

    constexpr explicit counted_word(std::uint64_t word) noexcept
        : type(word & 0x3fff),
          weak((word >> 14 & 0xffffff) - k_no_weak),
          owners(((word >> 38) + 1) & 0x3ffffff) {}
    // Not two numbers, of 4 bytes or less, nor a floating-point number: these have many observers or owners.
    [[nodiscard]] constexpr bool is_plausible() const noexcept {
        return weak != 0 && weak < k_most_weak && owners < 1 << 23;
    }
};

// What a pool may have above it. `kind` is the first member of each.
enum class extension_kind : std::uint32_t { recycle_list = 1, deferred_objects = 2 };

// recycle_list: the idle objects of an object pool. It lies in a block of that pool. A stack has its size and `ways` tops: the object
// pushed when the size was i is the top of i % ways, and its word links to the one pushed `ways` before it, plus `tag`. The caches
// have addresses of objects, the stacks those of words in them.
struct recycle_layout {
    extension_kind kind = extension_kind::recycle_list;
    std::uint32_t bytes, idle, fresh, stack_size, stack_tops, ways, tag;
};

// deferred_objects: what waits for its destruction in an incremental pool, in queues: one of each cache, and a list of them, linked by
// next_queue. A queue has a ring of `window` words, and segments. The low 48 bits of a word are an address in the object's block.
struct deferred_layout {
    extension_kind kind = extension_kind::deferred_objects;
    std::uint32_t kept, next_queue, window_first, window_size, window, window_words, top, below, count, words,
        most_words;
};

}  // namespace pooled::inspect
