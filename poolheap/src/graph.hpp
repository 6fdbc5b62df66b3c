// SPDX-License-Identifier: BSL-1.0
#pragma once

// The graph of references: which block leads to which, from where the program can reach them, and what each block is.
//
//   root ──▶ block ──▶ block      edges: one for each pair of blocks, however many words lead from the one to the other
//
// Memory: 4 bytes an edge; a block has two bytes for its type, one for the number of its edges and half a one for where they begin.
// Equation: edges of b = [m_first[b / 16] + the degrees of the blocks before b in its sixteen, as many as b's degree).

#include "naming.hpp"
#include "references.hpp"

#include <array>

namespace poolheap {

enum class root_kind : std::uint8_t { global, thread_local_object, local, stack, registers, memory, idle };

struct root {
    root_kind kind = root_kind::memory;
    std::string name;    // "global g_table", "stack of thread 12 (worker)"
    std::string global;  // the symbol's own name; empty: none
};

struct root_reference {
    std::uint32_t from = 0;    // in graph::roots
    std::uint32_t offset = 0;  // in the global; 0 for others
    block_index target = 0;
};

// "Session::conn", or "Session+16" without a name.
[[nodiscard]] std::string place(std::string const& type, std::uint64_t offset, std::string const& member);

class graph {
public:
    graph(image const& from, heap const& blocks, naming& names);

    [[nodiscard]] std::span<block_index const> targets(block_index b) const;
    [[nodiscard]] bool is_reachable(block_index b) const { return m_reachable[b]; }
    [[nodiscard]] std::size_t size() const { return m_heap.states.size(); }  // of slots
    [[nodiscard]] bool is_block(block_index b) const { return m_heap.states[b] != no_block; }
    [[nodiscard]] block operator[](block_index b) const { return m_heap[b]; }
    [[nodiscard]] type const& type_of(block_index b) const { return m_names[m_types[b]]; }
    [[nodiscard]] type_id_t type_id(block_index b) const { return m_types[b]; }

    [[nodiscard]] reference_reader reader() const {
        return {m_image, m_heap, [this](block_index b) { return type_of(b).kind == kind::shared; }};
    }
    [[nodiscard]] image const& from() const { return m_image; }
    [[nodiscard]] heap const& blocks() const { return m_heap; }
    [[nodiscard]] naming& names() const { return m_names; }
    [[nodiscard]] std::span<root const> roots() const { return m_roots; }
    [[nodiscard]] std::span<root_reference const> root_references() const { return m_root_references; }

    // The same offset for the same member of each element of an array; 0 in a buffer of unknown elements.
    [[nodiscard]] std::uint64_t member_offset(type_id_t holder, std::uint64_t offset) const;
    // As a user counts: from the object's begin.
    [[nodiscard]] std::uint64_t shown_offset(type_id_t holder, std::uint64_t offset) const;
    // Empty: not known.
    [[nodiscard]] std::string member_name(type_id_t holder, std::uint64_t offset) const;
    [[nodiscard]] std::string member_name(root_reference const& r) const;
    // A shortest chain from a root: the reference that begins it, then its blocks. Empty: unreachable.
    struct chain {
        root_reference begin;
        std::vector<block_index> blocks;
    };
    [[nodiscard]] std::optional<chain> path_to(block_index b) const;
    // Where in `source` a word leads to `target`; the first one.
    [[nodiscard]] std::uint64_t offset_of(block_index source, block_index target) const;

private:
    void find_references();
    void find_roots();
    void scan_range(address begin, address end, auto&& root_of);
    void scan_mapping(mapping const& m);
    void add_edge(block_index source, block_index target);
    void name_buffers();
    bool name_buffer(block_index source, std::uint64_t offset, block_index target);
    [[nodiscard]] bool is_label(type_id_t t) const;
    type_id_t add_label(std::string name);
    void mark();
    std::uint32_t root_named(root_kind kind, std::string name, std::string global = {});
    [[nodiscard]] std::uint32_t degree(block_index b) const;

    image const& m_image;
    heap const& m_heap;
    naming& m_names;
    std::vector<type_id_t> m_types;
    std::vector<std::uint8_t> m_degrees;  // 255: in m_large_degrees
    std::vector<std::size_t> m_first;
    std::vector<block_index> m_edges;
    std::unordered_map<block_index, std::uint32_t> m_large_degrees;
    std::vector<bool> m_reachable;
    std::vector<root> m_roots;
    std::unordered_map<std::string, std::uint32_t> m_root_by_name;
    std::vector<root_reference> m_root_references;
    std::vector<block_index> m_to_walk;  // blocks that became named behind the scan
    std::unordered_map<std::uint64_t, type_id_t>
        m_labels;  // type and offset of the holder -> "buffer held by ..."
    std::unordered_map<std::string, type_id_t> m_label_by_name;
    std::vector<bool> m_is_label;  // by type
};

}  // namespace poolheap
