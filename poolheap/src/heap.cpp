// SPDX-License-Identifier: BSL-1.0

// read_heap: find_records ─▶ of each copy of the library's state, inspect::walk tells the blocks whose bits are clear, and the
// addresses that are free all the same ─▶ settle takes the latter from the former.

#include "heap.hpp"

#include "pooled/inspect/record.hpp"
#include "pooled/inspect/walk.hpp"

#include "elf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

namespace poolheap {

namespace {

namespace inspect = pooled::inspect;

constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 40;  // of a chunk
constexpr address k_page = 4096;
constexpr address k_granule = address{16} << 10;  // of the index

address round_down(address a, address unit) { return a - a % unit; }
address round_up(address a, address unit) { return round_down(a + unit - 1, unit); }
address address_of(void const* p) { return reinterpret_cast<address>(p); }

// The ranges sorted, and merged where they touch.
void merge(std::vector<heap::range>& all) {
    std::ranges::sort(all);
    std::size_t last = 0;
    for (std::size_t i = 1; i < all.size(); ++i)
        if (all[i].first <= all[last].second)
            all[last].second = std::max(all[last].second, all[i].second);
        else
            all[++last] = all[i];
    if (!all.empty()) all.resize(last + 1);
}

class heap_reader {
public:
    heap_reader(image const& from, heap& to) : m_image(from), m_heap(to) {}

    // Of one copy of the library's state.
    void read(inspect::record const& m) {
        m_pools.clear();
        m_arena = &m.of_arena;
        add_record(address_of(m.page_map), m.page_map_bytes);
        add_record(address_of(m.registry), m.registry_bytes);
        add_record(address_of(m.arena), m.arena_bytes);
        read_arena(m);
        auto const walk = std::make_unique<inspect::walk<heap_reader, heap_reader>>(*this, m, *this);
        walk->for_each_pool();
        walk->for_each_slab();
    }
    // After all copies.
    void settle() {
        split_around_chunks();
        m_heap.index();
        for (address const list : m_own)
            if (auto const one = m_heap.find(list); one.index != k_no_block) {
                add_record(one.begin, m_heap[one.index].bytes);
                m_heap.blocks[one.index] = false;
            }
        std::size_t uncertain = 0;
        for (auto const& [at, state] : m_told) {
            auto const one = m_heap.find(at);
            bool const is_start = state == in_use || state == poolheap::uncertain;
            if (one.index == k_no_block || (is_start && one.begin != at)) continue;
            if (state == in_use)
                m_heap.blocks[one.index] = false;
            else
                m_heap.others[one.index] = state;
            uncertain += state == poolheap::uncertain ? 1 : 0;
        }
        if (uncertain != 0)
            doubt(
                std::to_string(uncertain) +
                " blocks may be free or in use: the image was taken while a thread took them from the pool");
        if (m_heap.pools.empty()) doubt("the program has not made a pool yet");
        merge(m_heap.records);
    }

    // For inspect::walk.

    std::size_t read(address from, void* to, std::size_t bytes) const {
        return m_image.read(from, {static_cast<std::byte*>(to), bytes});
    }
    void doubt(std::string const& what) {
        if (std::ranges::find(m_heap.doubts, what) == m_heap.doubts.end()) m_heap.doubts.push_back(what);
    }
    void pool(std::uint32_t id, char const* name) {
        m_pools.emplace(id, static_cast<std::uint16_t>(m_heap.pools.size()));
        m_heap.pools.emplace_back(name);
        m_core = {};
    }
    void free(address a) { m_told.emplace_back(a, in_use); }
    void uncertain(address a) { m_told.emplace_back(a, poolheap::uncertain); }
    void idle(address a) { m_told.emplace_back(a, poolheap::idle); }
    void deferred(address a) { m_told.emplace_back(a, poolheap::deferred); }
    void own(address a) { m_own.push_back(a); }
    void chunk(address begin, std::uint64_t bytes, std::uint32_t outer) {
        if (bytes == 0 || bytes > k_most_bytes || begin > ~bytes || !m_image.get<std::byte>(begin) ||
            !m_image.get<std::byte>(begin + bytes - 1))
            return doubt("a chunk's record is damaged or was being changed: its memory is left out");
        m_heap.pool_memory.emplace_back(begin, begin + bytes);
        auto const pool = m_pools.find(outer);
        if (outer != 0 && pool != m_pools.end()) m_chunks_in_blocks.emplace_back(pool->second, begin);
    }
    void slab(std::uint32_t id, address begin, std::uint64_t bytes, std::uint32_t count) {
        m_slab = {};
        auto const pool = m_pools.find(id);
        if (pool == m_pools.end())
            return doubt("a pool began or ended while the image was taken: its blocks are left out");
        m_slab = {begin, bytes, static_cast<block_index>(m_heap.blocks.size()), count, pool->second};
        m_heap.slabs.push_back(m_slab);
        m_heap.blocks.resize(m_heap.blocks.size() + count);
    }
    void block(std::uint32_t, address begin, std::uint64_t) {
        if (m_slab.count != 0) m_heap.blocks[m_slab.first + (begin - m_slab.begin) / m_slab.bytes] = true;
    }
    // The region of the arena that it lies in, or its own pages. A core comes first: a local pool's cache is in its piece.
    void piece(address begin, std::uint64_t bytes) {
        if (begin >= m_core.first && begin < m_core.second) return;
        if (bytes > k_most_bytes || begin > ~bytes) return;
        if (m_core.second == 0) m_core = {begin, begin + bytes};
        if (bytes > m_arena->largest_piece) return add_record(begin, round_up(bytes, m_arena->page_bytes));
        add_record(round_down(begin, m_arena->region_bytes), m_arena->region_bytes);
    }
    void leaf(address begin, std::uint64_t bytes) { add_record(begin, bytes); }

private:
    void add_record(address begin, std::uint64_t bytes) { m_heap.records.emplace_back(begin, begin + bytes); }

    // Regions with a free piece, whose old contents may look like references; the others are found by what is in them.
    void read_arena(inspect::record const& m) {
        for (std::uint32_t i = 0; i < m.of_arena.list_count; ++i) {
            inspect::circle regions;
            for (address at =
                     address_of(m.arena) + m.of_arena.m_regions + std::uint64_t{i} * m.of_arena.list_bytes;
                 (at = m_image.get<address>(at).value_or(0)) != 0 && !regions.is_closed_by(at);
                 at += m.of_arena.next)
                add_record(at, m.of_arena.region_bytes);
        }
    }
    // A block that is the memory of another pool's chunk splits its slab, so that slabs are disjoint.
    void split_around_chunks() {
        auto const place = [](poolheap::slab const& s) { return std::pair(s.pool, s.begin); };
        std::ranges::sort(m_heap.slabs, {}, place);
        // The walk may tell a slab twice.
        auto const again = std::ranges::unique(m_heap.slabs, {}, place);
        m_heap.slabs.erase(again.begin(), again.end());
        // From the last one on: what was cut off lies behind those that follow.
        std::ranges::sort(m_chunks_in_blocks, std::greater());
        std::vector<poolheap::slab> cut;
        for (auto const& chunk : m_chunks_in_blocks) {
            auto const after = std::ranges::upper_bound(m_heap.slabs, chunk, {}, place);
            if (after == m_heap.slabs.begin() || after[-1].pool != chunk.first ||
                chunk.second >= after[-1].end())
                continue;
            poolheap::slab &s = after[-1], &rest = cut.emplace_back(s);
            auto const slots = static_cast<std::uint32_t>((chunk.second - s.begin) / s.bytes);
            s.count = slots;
            rest.begin += (slots + 1) * s.bytes, rest.first += slots + 1, rest.count -= slots + 1;
        }
        m_heap.slabs.insert(m_heap.slabs.end(), cut.begin(), cut.end());
        std::erase_if(m_heap.slabs, [](poolheap::slab const& s) { return s.count == 0; });
    }

    image const& m_image;
    heap& m_heap;
    decltype(inspect::record::of_arena) const* m_arena = nullptr;
    std::unordered_map<std::uint32_t, std::uint16_t> m_pools;  // id → index
    poolheap::slab m_slab;  // whose blocks are being told; none: they are left out
    std::vector<std::pair<address, block_state>>
        m_told;  // in_use: it is free, though its bit does not say so
    std::vector<address> m_own;
    std::vector<std::pair<std::uint16_t, address>> m_chunks_in_blocks;  // with the pool that the block is of
    heap::range m_core;                                                 // of the pool that is being read
};

// The pointer that is `offset` from the first byte of the file, which begins at one of its segments: at the first, unless a tool has put
// another before it. 0: none, as no magic word follows it.
address link_at(image const& from, loaded_file const& file, address offset) {
    for (Elf64_Phdr const& first : file.segments) {
        if (first.p_type != PT_LOAD) continue;
        address const at = file.bias + round_down(first.p_vaddr, k_page) + offset;
        if (from.get<std::uint64_t>(at + sizeof(address)) == inspect::k_link_magic) return at;
    }
    return 0;
}

std::map<std::uint32_t, std::string> read_types(image const& from, address directory,
                                                inspect::record const& record) {
    auto const& at = record.of_directory;
    std::map<std::uint32_t, std::string> names;
    for (std::uint32_t number = at.first_type; number < at.type_numbers; ++number) {
        auto const type = from.get<address>(directory + at.types + std::uint64_t{8} * number).value_or(0);
        if (type == 0) break;
        std::string const text = from.text(from.get<address>(type + at.name).value_or(0), 1 << 16);
        std::size_t const begin = text.find("T = ");
        if (begin != std::string::npos) names[number] = text.substr(begin + 4, text.rfind(']') - (begin + 4));
    }
    return names;
}

// The numbers by which loops end and memory is taken.
bool is_plausible(inspect::record const& r) {
    auto const is_size = [](std::uint64_t n) {
        return std::has_single_bit(n) && n >= k_page && n <= 1U << 30;
    };
    return r.page_map_bytes <= 1U << 30 && r.registry_bytes <= 1U << 30 && r.arena_bytes <= 1U << 30 &&
           r.map.root_entries <= 1U << 20 && r.map.leaf_bits >= 24 && r.map.leaf_bits <= 40 &&
           is_size(r.map.granule_bytes) && r.of_registry.max_pools <= 1U << 20 &&
           r.of_memory.slot_count <= 1024 && r.geometry.count <= 256 &&
           r.of_cache.class_count <= r.geometry.count && r.of_slab.bits_words != 0 &&
           r.of_slab.bits_words <= 64 && r.of_arena.list_count <= 1U << 16 &&
           is_size(r.of_arena.region_bytes) && is_size(r.of_arena.page_bytes) &&
           r.of_directory.type_numbers <= 1U << 20;
}

// Of each copy of the library's state in which a pool was made; and the types that they number together.
std::vector<inspect::record> find_records(image const& from, std::map<std::uint32_t, std::string>& types) {
    std::set<address> directories;
    std::set<std::string> unknown;
    bool is_any = false;
    for (mapping const& m : from.mappings()) {
        auto const file = m.readable && m.offset == 0 ? loaded_file_at(from, m.begin) : std::nullopt;
        for (loaded_file::note const& note : file ? file->notes : std::vector<loaded_file::note>()) {
            if (note.name != inspect::k_note_name) continue;
            is_any = true;
            auto const to = value_at<std::array<address, 2>>(note.content, 0);
            if (note.type != inspect::k_copies_layout || !to)
                unknown.insert("note " + std::to_string(note.type));
            else if (address const link = link_at(from, *file, (*to)[0] - (*to)[1]))
                directories.insert(from.get<address>(link).value_or(0));
        }
    }
    if (!is_any)
        throw error("no file of this program has pooled in it: run it by `poolheap run -- command`, or link "
                    "it with pooled");
    std::vector<inspect::record> records;
    std::set<address> seen;
    for (address const directory : directories)
        for (address at = from.get<address>(directory).value_or(0); at != 0;) {
            auto const copy = from.get<std::array<address, 3>>(at);
            if (!copy || !seen.insert(at).second) break;
            at = (*copy)[1];
            auto record = from.get<inspect::record>((*copy)[2]);
            if (!record || record->magic != inspect::k_magic ||
                (record->layout == inspect::k_layout && !is_plausible(*record)))
                throw error("the record of pooled in this image is damaged or missing");
            if (record->layout == 0 || record->layout > inspect::k_layout ||
                record->bytes != sizeof(inspect::record))
                unknown.insert("layout " + std::to_string(record->layout));
            else if (record->are_blocks_of_malloc != 0)
                throw error("this program was built with POOLED_SANITIZE or a sanitizer: its objects lie in "
                            "blocks of malloc, "
                            "which poolheap cannot list");
            else {
                if (types.empty()) types = read_types(from, directory, *record);
                records.push_back(*record);
            }
        }
    if (records.empty() && !unknown.empty())
        throw error("this program has a version of pooled whose records (" + *unknown.begin() +
                    ") this poolheap does not know: it knows layout 1 to " +
                    std::to_string(inspect::k_layout) + "; use the poolheap of that version");
    return records;
}

}  // namespace

void heap::index() {
    std::ranges::sort(slabs, {}, &slab::begin);
    std::vector<bool> ordered;
    ordered.reserve(blocks.size());
    for (slab& s : slabs) {
        auto const from = blocks.begin() + std::exchange(s.first, static_cast<block_index>(ordered.size()));
        ordered.insert(ordered.end(), from, from + s.count);
    }
    blocks = std::move(ordered);
    merge(pool_memory);
    m_first_page.clear();
    m_first_slab.clear();
    std::uint32_t next = 0;
    for (auto const& [begin, end] : pool_memory) {
        m_first_page.push_back(m_first_slab.size());
        for (address page = begin; page < end; page += k_granule) {
            while (next < slabs.size() && slabs[next].end() <= page)
                ++next;
            m_first_slab.push_back(next);
        }
    }
    m_first_slab.push_back(static_cast<std::uint32_t>(slabs.size()));
}

heap::hit heap::slot_of(address a) const noexcept {
    auto const after = std::ranges::upper_bound(pool_memory, a, {}, &range::first);
    if (after == pool_memory.begin() || a >= std::prev(after)->second) return {};
    auto const nth = static_cast<std::size_t>(after - pool_memory.begin()) - 1;
    std::size_t const page = m_first_page[nth] + (a - pool_memory[nth].first) / k_granule;
    std::uint32_t i = m_first_slab[page];
    if (i == slabs.size()) return {};
    while (i < m_first_slab[page + 1] && i + 1 < slabs.size() && slabs[i + 1].begin <= a)
        ++i;
    slab const& s = slabs[i];
    if (a < s.begin || a >= s.end()) return {};
    std::uint64_t const slot = (a - s.begin) / s.bytes;
    return {s.first + static_cast<block_index>(slot), s.begin + slot * s.bytes};
}

block heap::operator[](block_index b) const noexcept {
    slab const& s = std::ranges::upper_bound(slabs, b, {}, &slab::first)[-1];
    return {s.begin + (b - s.first) * s.bytes, s.bytes, s.pool, state(b)};
}

heap read_heap(image const& from) {
    heap all;
    std::vector<inspect::record> const records = find_records(from, all.counted_types);
    heap_reader reader(from, all);
    for (inspect::record const& one : records)
        reader.read(one);
    reader.settle();
    return all;
}

}  // namespace poolheap
