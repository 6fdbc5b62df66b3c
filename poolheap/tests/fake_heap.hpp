// SPDX-License-Identifier: BSL-1.0
#pragma once

// A heap made by hand: blocks with types, words that lead from one to another, and roots.
//
//   fake_heap h;
//   auto a = h.add("Session", kind::shared), b = h.add("Connection", kind::shared);
//   h.refer(a, 16, b), h.refer_from_global("g_table", 0, a);
//   graph const& g = h.build();

#include "graph.hpp"

#include <cstring>
#include <map>

namespace poolheap::test {

class fake_heap final : public naming, public image {
public:
    static constexpr address k_blocks = 0x7f0000100000;
    static constexpr address k_globals = 0x555500000000;
    static constexpr std::uint32_t k_bytes = 64;

    fake_heap() { m_heap.pools.emplace_back("default"); }

    type_id_t type_named(std::string const& name, kind k) {
        for (type_id_t id = 1; id < types(); ++id)
            if ((*this)[id].name == name && (*this)[id].kind == k) return id;
        type t;
        t.name = name;
        t.kind = k;
        t.object_offset = k == kind::shared ? 16 : 0;
        return naming::add(t);
    }

    // The address of a new block.
    address add(std::string const& name, kind k, block_state state = in_use, std::uint32_t bytes = k_bytes) {
        address const at = m_next;
        m_next += bytes;
        m_heap.slabs.push_back({at, bytes, static_cast<block_index>(m_heap.blocks.size()), 1, 0});
        if (state != in_use) m_heap.others[static_cast<block_index>(m_heap.blocks.size())] = state;
        m_heap.blocks.push_back(true);
        m_of_block.push_back(k == kind::buffer && name.empty() ? k_buffer : type_named(name, k));
        m_words.resize((m_next - k_blocks) / 8);
        return at;
    }
    // One slab of equal blocks: the address of the first.
    address add_row(std::string const& name, kind k, std::uint32_t count) {
        address const first = m_next;
        m_heap.slabs.push_back({first, k_bytes, static_cast<block_index>(m_heap.blocks.size()), count, 0});
        m_heap.blocks.resize(m_heap.blocks.size() + count, true);
        m_of_block.resize(m_of_block.size() + count, type_named(name, k));
        m_next += count * k_bytes;
        m_words.resize((m_next - k_blocks) / 8);
        return first;
    }
    void refer(address from, std::uint32_t offset, address to) {
        m_words[(from - k_blocks + offset) / 8] = to;
    }
    // As a shared_ptr does: to the object, and to its control block.
    void own(address from, std::uint32_t offset, address to) {
        refer(from, offset, to + 16);
        refer(from, offset + 8, to);
    }
    void refer_from_global(std::string const& name, std::uint32_t offset, address to) {
        auto const [at, is_new] = m_globals.try_emplace(name, k_globals + 256 * m_globals.size());
        m_data.resize(256 * m_globals.size() / 8);
        m_data[(at->second - k_globals + offset) / 8] = to;
    }
    // Its first word then is a number that finds them, as a vtable would.
    void count(address of, std::uint32_t owners, std::uint32_t weak) {
        m_counts.push_back({owners, weak});
        refer(of, 0, m_counts.size());
    }
    void name_member(std::string const& type, std::uint64_t offset, std::string name,
                     strength how = strength::unknown) {
        m_members[{type, offset}] = {std::move(name), how};
    }
    // With another path than [stack], the image has one of that name, too.
    void add_thread(thread t, address stack_begin, std::vector<std::uint64_t> words,
                    std::string path = "[stack]") {
        m_threads.push_back(std::move(t));
        m_stack_begin = stack_begin;
        m_stack = std::move(words);
        m_stack_path = std::move(path);
    }

    graph build() {
        m_heap.pool_memory = {{k_blocks, m_next + 0x10000}};
        m_heap.index();
        m_mappings = {{k_globals, k_globals + 8 * m_data.size(), true, true, false, "/bin/program", 0},
                      {k_blocks, m_next + 0x10000, true, true, false, "", 0}};
        if (!m_stack.empty())
            m_mappings.push_back(
                {m_stack_begin, m_stack_begin + 8 * m_stack.size(), true, true, false, m_stack_path, 0});
        if (m_stack_path != "[stack]")
            m_mappings.push_back({0x7fff00000000, 0x7fff00001000, true, true, false, "[stack]", 0});
        return graph(*this, m_heap, *this);
    }
    block_index index_of(address a) const { return m_heap.find(a).index; }

    // ---- image
    std::size_t read(address from, std::span<std::byte> to) const override {
        auto const copy = [&](address begin, std::vector<std::uint64_t> const& words) -> std::size_t {
            if (from < begin || from >= begin + words.size() * 8) return 0;
            std::size_t const bytes = std::min<std::size_t>(to.size(), begin + words.size() * 8 - from);
            std::memcpy(to.data(), reinterpret_cast<char const*>(words.data()) + (from - begin), bytes);
            return bytes;
        };
        return copy(k_blocks, m_words) + copy(k_globals, m_data) + copy(m_stack_begin, m_stack);
    }

    // ---- naming
    block_numbers name_all() override {
        block_numbers all(m_of_block.size());
        for (block_index b = 0; b < m_of_block.size(); ++b)
            all.set(b, m_of_block[b]);
        return all;
    }
    std::optional<counts> counts_of(type_id_t, std::span<std::uint64_t const> words) const override {
        if (words.empty() || words[0] == 0 || words[0] > m_counts.size()) return {};
        return m_counts[words[0] - 1];
    }
    member const& at(type_id_t holder, std::uint64_t offset) override {
        return m_members[{(*this)[holder].name, offset}];
    }
    std::optional<variable> global(address a) override {
        for (auto const& [name, begin] : m_globals)
            if (a >= begin && a < begin + 256) return variable{name, begin, type_named(name, kind::variable)};
        return {};
    }
    std::string module_name(address) const override { return {}; }

    heap m_heap;

private:
    address m_next = k_blocks;
    std::vector<type_id_t> m_of_block;
    std::vector<std::uint64_t> m_words, m_data, m_stack;
    address m_stack_begin = 0x7ffe00000000;
    std::string m_stack_path;
    std::map<std::string, address> m_globals;
    std::vector<counts> m_counts;
    std::map<std::pair<std::string, std::uint64_t>, member> m_members;
};

}  // namespace poolheap::test
