// SPDX-License-Identifier: BSL-1.0
#pragma once

// Reads, by a record, which blocks the pools of one copy of the library's state hold: of a frozen image (poolheap), or of the running
// process itself (live_report). Memory is never read in place, but by `Memory::read`, which may fail.
//
//   for_each_pool ─▶ read_pool     addresses that are free, idle or deferred though their bits are clear
//   for_each_slab ─▶ read_slab     blocks whose bits are clear
//
// What is read may change meanwhile, be damaged, or have been caught in the middle of a change: each count and pointer is checked
// before it is used, each list ends where it becomes a circle, and what does not fit is left out and said: Visitor::doubt(sentence).
// Takes no lock, allocates nothing. Like record.hpp, this file uses nothing of the library.
//
// Memory:   std::size_t read(std::uint64_t from, void* to, std::size_t bytes) const; a result below `bytes` is a failure
// Visitor:  void doubt(char const*)
//           void pool(id, name)                     the functions below are about the pool named last
//           void free(address)                      a block's start
//           void uncertain(address)                 the same; or it is in use
//           void idle(address), deferred(address)   somewhere in a block
//           void own(address)                       the library's own block
//           void chunk(begin, bytes, outer id)      the pool whose block the chunk is, or 0
//           void slab(id, begin, bytes, count)      whose blocks of `bytes` follow; perhaps more than once
//           void block(id, address, bytes)          of that slab, whose bit is clear
//           void piece(address, bytes)              of the arena
//           void leaf(address, bytes)               of the page map

#include "pooled/inspect/record.hpp"

#include <bit>
#include <cstddef>

namespace pooled::inspect {

using address = std::uint64_t;

// Whether a list that is followed returns to an element (Brent, 1980): then it is damaged.
class circle {
public:
    [[nodiscard]] bool is_closed_by(address at) noexcept {
        if (at == m_seen) return true;
        if (std::has_single_bit(++m_count)) m_seen = at;
        return false;
    }

private:
    address m_seen = 0;
    std::uint64_t m_count = 0;
};

template <class Memory, class Visitor>
class walk {
public:
    walk(Memory const& from, record const& layout, Visitor& to) noexcept
        : m_from(from), m_layout(layout), m_to(to) {}

    void for_each_pool() {
        address const cores = address_of(m_layout.registry) + m_layout.of_registry.m_cores;
        constexpr std::uint32_t k_some = 512;
        address some[k_some];
        for (std::uint32_t first = 0; first < m_layout.of_registry.max_pools; first += k_some) {
            if (!read(cores + std::uint64_t{first} * sizeof(address), some)) return;
            for (std::uint32_t i = 0; i < k_some; ++i)
                if (some[i] != 0) read_pool(some[i]);
        }
    }

    // Leaves out pools of other copies.
    void read_pool(address core) {
        auto const& of = m_layout.of_core;
        if (get<address>(core + of.m_made_by) != address_of(m_layout.registry)) return;
        char name[k_name_bytes]{};
        static_cast<void>(m_from.read(core + of.m_name, name,
                                      of.name_bytes < k_name_bytes ? of.name_bytes : k_name_bytes - 1));
        address const memory = get<address>(core + of.m_memory);
        m_to.pool(get<std::uint32_t>(core + of.m_id), name);
        m_to.piece(core, memory + m_layout.of_memory.bytes - core);
        m_deferred = {};
        bool const is_recycling = read_extension(get<address>(core + of.m_extension));
        read_slots(memory);
        read_handed(memory);
        for (std::uint32_t c = 0; c < m_layout.geometry.count; ++c) {
            read_recent(memory + m_layout.of_memory.m_central +
                        std::uint64_t{c} * m_layout.of_memory.central_bytes);
            read_deferred(memory + m_layout.of_memory.m_deferred +
                          std::uint64_t{c} * m_layout.of_memory.deferred_bytes);
        }
        read_caches(memory, is_recycling);
    }

    // All slabs, or those of one pool.
    static constexpr std::uint32_t k_all = ~std::uint32_t{0};
    void for_each_slab(std::uint32_t only = k_all) {
        m_last_chunk = m_last_slab = 0;
        auto const& map = m_layout.map;
        std::uint64_t const leaf_bytes =
            (std::uint64_t{1} << map.leaf_bits) / map.granule_bytes * sizeof(std::uint64_t);
        for (std::uint32_t i = 0; i < map.root_entries; ++i) {
            if (i % k_batch == 0 &&
                !read(address_of(m_layout.page_map) + std::uint64_t{i} * sizeof(address), m_roots))
                return;
            address const leaf = m_roots[i % k_batch];
            if (leaf == 0) continue;
            m_to.leaf(leaf, leaf_bytes);
            read_leaf(leaf, leaf_bytes, address{i} << map.leaf_bits, only);
        }
    }

private:
    static constexpr std::size_t k_name_bytes = 64;
    static constexpr std::uint64_t k_most = std::uint64_t{1} << 22;  // bytes of an array, elements of a ring
    static constexpr std::uint32_t k_batch = 1024;
    static constexpr int k_attempts = 16;  // to read a slab of a living process between two changes
    static constexpr std::uint64_t k_low_48 = (std::uint64_t{1} << 48) - 1;
    static constexpr std::uint32_t k_slab_words =
        16 * 16;  // of the bitmap of the longest slab whose blocks are not large

    static address address_of(void const* p) noexcept { return reinterpret_cast<address>(p); }
    template <class T>
    [[nodiscard]] bool read(address from, T& to) const {
        return m_from.read(from, &to, sizeof(T)) == sizeof(T);
    }
    // 0 where the image has nothing.
    template <class T>
    [[nodiscard]] T get(address from) const {
        T value{};
        return read(from, value) ? value : T{};
    }
    // Calls visit(word) for each of `count` words.
    template <class Visit>
    void for_each_word(address from, std::uint64_t count, Visit&& visit) const {
        address some[128];
        for (std::uint64_t done = 0; done < count; done += 128) {
            std::uint64_t const now = count - done < 128 ? count - done : 128;
            std::size_t const bytes = m_from.read(from + done * sizeof(address), some, now * sizeof(address));
            for (std::size_t i = 0; i < bytes / sizeof(address); ++i)
                visit(some[i]);
        }
    }

    void read_slots(address memory) {
        auto const& of = m_layout.of_memory;
        for (std::uint32_t i = 0; i < of.slot_count; ++i)
            if (address const block =
                    (get<std::uint64_t>(memory + of.m_slots + std::uint64_t{i} * of.slot_bytes) >>
                     of.slot_address_shift) *
                    of.slot_unit)
                m_to.free(block);
    }

    void read_handed(address memory) {
        auto const& of = m_layout.of_memory;
        address const all = get<address>(memory + of.m_handed);
        if (all == 0 || of.handed_step == 0) return;
        m_to.piece(all, of.handed_bytes);
        std::uint32_t nth = 0;
        for_each_word(all, of.handed_bytes / sizeof(address), [&](address one) {
            if (nth++ % of.handed_step != 0 && one != 0) m_to.free(one);
        });
    }

    void read_recent(address list) {
        auto const& of = m_layout.of_central;
        auto const capacity = get<std::uint32_t>(list + of.ring_capacity);
        auto const begin = get<std::uint32_t>(list + of.ring_begin);
        auto const count = get<std::uint32_t>(list + of.ring_count);
        address const ring = get<address>(list + of.ring);
        if (capacity == 0 || capacity > k_most || !std::has_single_bit(capacity)) return;
        m_to.piece(ring, capacity * sizeof(address));
        auto const free = [this](address one) { m_to.free(one); };
        std::uint32_t const first = begin & (capacity - 1);
        std::uint32_t const all = count < capacity ? count : capacity;
        std::uint32_t const to_end = all < capacity - first ? all : capacity - first;
        for_each_word(ring + std::uint64_t{first} * sizeof(address), to_end, free);
        for_each_word(ring, all - to_end, free);
    }

    void read_deferred(address list) {
        auto const& of = m_layout.of_deferred;
        circle all;
        for (address at = get<address>(list); at != 0; at = get<address>(at + of.next)) {
            auto const count = get<std::uint32_t>(at + of.count);
            auto const room = get<std::uint32_t>(at + of.room);
            if (all.is_closed_by(at) || count > room || room > k_most)
                return m_to.doubt(
                    "a list of deferred blocks was read in the middle of a change: some count as in use");
            m_to.piece(at, of.blocks + room * sizeof(address));
            for_each_word(at + of.blocks, count, [this](address one) { m_to.free(one); });
        }
    }

    void read_caches(address memory, bool is_recycling) {
        auto const& of = m_layout.of_cache;
        address at = get<address>(memory + m_layout.of_memory.first_cache);
        for (circle all; at != 0;) {
            if (address next = 0; all.is_closed_by(at) || !read(at + of.next, next))
                return m_to.doubt("a pool's list of caches was read in the middle of a change: free blocks "
                                  "in some count as in use");
            m_to.piece(at, of.bytes);
            for (std::uint32_t c = 0; c < of.class_count; ++c) {
                address const list = memory + m_layout.of_memory.m_central +
                                     std::uint64_t{c} * m_layout.of_memory.central_bytes;
                read_class_cache(at + of.classes + std::uint64_t{c} * of.class_bytes, list, false);
            }
            read_class_cache(at + of.recycled, 0, is_recycling);
            if (m_deferred.kept != 0) static_cast<void>(read_queue(get<address>(at + of.deferred)));
            at = get<address>(at + of.next);
        }
    }

    // A refill makes room for its batch first, so that top and floor are equal, and then writes the addresses. Until it has ended,
    // which the class's lock tells, the array has those of the batch or those that it had before, which may be in use.
    void read_class_cache(address cache, address list, bool is_recycling) {
        auto const& of = m_layout.of_cache;
        address const hot = get<address>(cache + of.hot);
        if (hot != 0) is_recycling ? m_to.idle(hot) : m_to.free(hot);
        address const first = get<address>(cache + of.first);
        address const limit = get<address>(cache + of.limit);
        if (first == 0 || limit < first || limit - first > k_most) return;
        m_to.piece(first, limit - first);
        address const top = get<address>(cache + of.top);
        if (top < first || top > limit)
            return m_to.doubt(
                "a thread's cache was read in the middle of a change: free blocks in it count as in use");
        bool const is_refilled = list != 0 && top == get<address>(cache + of.floor) &&
                                 get<std::uint32_t>(list + m_layout.of_central.lock) != 0;
        for_each_word(first, (top - first) / sizeof(address), [&](address one) {
            is_recycling ? m_to.idle(one) : is_refilled ? m_to.uncertain(one) : m_to.free(one);
        });
    }

    // Whether the threads' caches have recycled objects of it.
    [[nodiscard]] bool read_extension(address at) {
        if (at == 0) return false;
        address const description = get<address>(at + m_layout.of_core.description);
        extension_kind const kind = get<extension_kind>(description);
        if (kind == extension_kind::recycle_list) {
            auto const layout = get<recycle_layout>(description);
            m_to.own(at);
            read_stack(at + layout.idle, layout);
            read_stack(at + layout.fresh, layout);
            return true;
        }
        if (kind == extension_kind::deferred_objects) {
            m_deferred = get<deferred_layout>(description);
            if (m_deferred.window > k_batch || m_deferred.most_words > k_batch) m_deferred = {};
            address queue = get<address>(at + m_deferred.kept);
            for (circle all; queue != 0 && !all.is_closed_by(queue);)
                queue = read_queue(queue);
        }
        return false;
    }
    void read_stack(address at, recycle_layout const& layout) {
        constexpr std::uint32_t k_ways = 8;
        address tops[k_ways]{};
        if (layout.ways != k_ways || !read(at + layout.stack_tops, tops)) return;
        std::uint64_t left = get<std::uint64_t>(at + layout.stack_size);
        for (circle all; left-- != 0;) {
            address& top = tops[left % k_ways];
            address const link = get<address>(top);
            if (link % 8 != layout.tag || all.is_closed_by(top))
                return m_to.doubt("an object pool's idle objects were read in the middle of a change: some "
                                  "count as in use");
            m_to.idle(top);
            top = link - layout.tag;
        }
    }
    // Returns the next one.
    [[nodiscard]] address read_queue(address at) {
        if (at == 0) return 0;
        auto const& of = m_deferred;
        auto const wait = [this](address word) { m_to.deferred(word & k_low_48); };
        auto const first = get<std::uint32_t>(at + of.window_first);
        auto const size = get<std::uint32_t>(at + of.window_size);
        for (std::uint32_t i = 0; i < size && i < of.window; ++i)
            wait(get<address>(at + of.window_words +
                              std::uint64_t{(first + i) % of.window} * sizeof(address)));
        address segment = get<address>(at + of.top);
        for (circle all; segment != 0 && !all.is_closed_by(segment);) {
            auto const count = get<std::uint64_t>(segment + of.count);
            for_each_word(segment + of.words, count < of.most_words ? count : of.most_words, wait);
            segment = get<address>(segment + of.below);
        }
        return get<address>(at + of.next_queue);
    }

    void read_leaf(address leaf, std::uint64_t bytes, address memory, std::uint32_t only) {
        auto const& map = m_layout.map;
        std::uint64_t previous = 0;
        for (std::uint64_t from = 0; from < bytes; from += sizeof(m_entries)) {
            if (!read(leaf + from, m_entries)) return;
            for (std::uint64_t const entry : m_entries) {
                if (entry != 0 && entry != previous && (only == k_all || entry >> map.pool_shift == only))
                    read_slab(entry, memory);
                previous = entry;
                memory += map.granule_bytes;
            }
        }
    }

    // `memory`: the granule whose entry it is.
    void read_slab(std::uint64_t entry, address memory) {
        auto const& of = m_layout.of_slab;
        address const at = entry & m_layout.map.descriptor_mask;
        address const owner = get<address>(at + of.owner);
        read_chunk(owner);
        for (int attempt = 0; attempt < k_attempts; ++attempt)
            if (read_bits(at))
                break;
            else if (attempt == k_attempts - 1)
                return m_to.doubt("a slab was read in the middle of a change: its blocks are left out");
        // The entries of a free span may lead to a longer one that was there before; blocks of a slab start in its first granule.
        if (m_total == 0 || memory < m_blocks - m_blocks % m_layout.map.granule_bytes ||
            memory >= m_blocks + m_total * m_bytes)
            return;
        if (at == m_last_slab) return;
        m_last_slab = at;
        auto const id = static_cast<std::uint32_t>(entry >> m_layout.map.pool_shift);
        m_to.slab(id, m_blocks, m_bytes, m_total);
        for (std::uint32_t w = 0; w * 64 < m_total; ++w) {
            std::uint64_t used = ~m_bits[w];
            if (m_total - w * 64 < 64) used &= (std::uint64_t{1} << (m_total - w * 64)) - 1;
            for (; used != 0; used &= used - 1)
                m_to.block(id,
                           m_blocks +
                               (std::uint64_t{w} * 64 + static_cast<unsigned>(std::countr_zero(used))) *
                                   m_bytes,
                           m_bytes);
        }
    }
    // False: it is being changed. m_total is 0 if no block is in use.
    [[nodiscard]] bool read_bits(address at) {
        auto const& of = m_layout.of_slab;
        m_total = 0;
        auto const size_class = get<std::uint8_t>(at + of.size_class);
        if (size_class > of.exact) return true;
        auto const granules = get<std::uint32_t>(at + of.granules);
        auto const total = get<std::uint32_t>(at + of.total);
        auto const free = get<std::uint32_t>(at + of.free);
        m_blocks = get<address>(at + of.blocks);
        std::uint64_t const span =
            std::uint64_t{granules} * m_layout.map.granule_bytes - get<std::uint16_t>(at + of.short_by);
        m_bytes = size_class == of.exact
                      ? span
                      : get<std::uint32_t>(address_of(m_layout.geometry.table) +
                                           std::uint64_t{size_class} * m_layout.geometry.stride +
                                           m_layout.geometry.block_bytes);
        if (total > k_slab_words * 64 || m_bytes == 0 || total * m_bytes > span || of.bits_words == 0 ||
            total > std::uint64_t{granules} * of.bits_words * 64)
            return false;
        std::uint32_t set = 0;
        for (std::uint32_t w = 0; w * 64 < total; w += of.bits_words) {
            std::uint32_t const words =
                (total - w * 64 + 63) / 64 < of.bits_words ? (total - w * 64 + 63) / 64 : of.bits_words;
            if (m_from.read(at + std::uint64_t{w / of.bits_words} * of.bytes + of.bits, m_bits + w,
                            words * sizeof(std::uint64_t)) != words * sizeof(std::uint64_t))
                return false;
            for (std::uint32_t i = 0; i < words; ++i)
                set += static_cast<std::uint32_t>(std::popcount(m_bits[w + i]));
        }
        // There are fewer bits than `free` says only as a slab with no block in use gets or loses its class: in every other change the bits
        // come first, or are cleared last.
        if (set >= free) m_total = total;
        return m_total != 0 ||
               get<std::uint32_t>(at + of.free) == free;  // else a living process went on meanwhile
    }
    void read_chunk(address at) {
        if (at == m_last_chunk || at == 0) return;
        m_last_chunk = at;
        auto const& of = m_layout.of_chunk;
        address const base = get<address>(at + of.base);
        auto const outer = get<std::uint64_t>(at + of.outer);
        m_to.piece(at, of.header_bytes +
                           std::uint64_t{get<std::uint32_t>(at + of.granules)} * m_layout.of_slab.bytes);
        m_to.chunk(base, get<std::uint64_t>(at + of.bytes),
                   static_cast<std::uint32_t>(outer >> m_layout.map.pool_shift));
        // Memory that is another pool's block: the entries there are of this pool, so that pool's slab is found here alone.
        if (outer != 0) read_slab(outer, base);
    }

    Memory const& m_from;
    record const& m_layout;
    Visitor& m_to;
    deferred_layout m_deferred{};
    address m_last_chunk = 0;
    address m_last_slab = 0;
    address m_blocks = 0;  // of the slab that is being read
    std::uint64_t m_bytes = 0;
    std::uint32_t m_total = 0;
    std::uint64_t m_bits[k_slab_words];
    std::uint64_t m_entries[k_batch];
    address m_roots[k_batch];
};

}  // namespace pooled::inspect
