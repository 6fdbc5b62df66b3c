// SPDX-License-Identifier: BSL-1.0
#pragma once

// The graph of references: which block leads to which, from where the program can reach them, and what each block is.
//
//   root ──▶ block ──▶ block      edges: one for each pair of blocks, however many words lead from the one to the other
//
// A block that says nothing about itself is a buffer. The pointer that leads to it says what it is, and its holder owns it; a buffer in a
// buffer has the owner of the outer one. Type and owner are one number.
//
#include "edges.hpp"
#include "naming.hpp"
#include "references.hpp"

#include <array>
#include <unordered_map>

namespace poolheap {

enum class root_kind : std::uint8_t { global, stack, registers, memory, idle };

struct root {
    root_kind kind = root_kind::memory;
    std::string name;           // "global g_table", "stack of thread 12 (worker)"
    type_id_t type = k_buffer;  // of the variable; k_buffer: it is none

    // Of what it holds: threads come and go, and their buffers are one type.
    [[nodiscard]] std::string label() const {
        return kind == root_kind::stack || kind == root_kind::registers ? "stacks of threads" : name;
    }
};

inline constexpr std::uint32_t k_no_root = ~std::uint32_t{0};

struct root_reference {
    std::uint32_t from = k_no_root;  // in graph::roots
    std::uint32_t offset = 0;        // in the variable; 0 for others
    block_index target = k_no_block;
};

// What holds something: a member of a type, or a place in a root. What reads the same is one holder.
struct holder {
    std::uint32_t root = k_no_root;  // not a type but a root
    type_id_t type = k_buffer;
    std::uint64_t offset = 0;  // as a user counts
    std::string member;        // empty: not known
};

// "Session::conn", or "Session+16" without a name.
[[nodiscard]] std::string place(std::string const& type, std::uint64_t offset, std::string const& member);

class graph {
public:
    graph(image const& from, heap const& blocks, naming& names);

    [[nodiscard]] auto edges(block_index b) const { return m_edges[b]; }
    [[nodiscard]] bool has_edges(block_index b) const { return m_edges.has(b); }
    [[nodiscard]] bool is_reachable(block_index b) const { return m_reachable[b]; }
    // visit(block_index from, edge) for each edge of the blocks in the worklist, to which visit may add. Some at once, so that they wait for
    // memory together; fetch(block_index to) does that for what visit looks at.
    void walk(auto& from, auto&& fetch, auto&& visit) const {
        std::pair<block_index, edge> some[64];
        std::size_t count = 0;
        auto const visit_some = [&] {
            for (auto const& [source, e] : std::span(some, count)) {
                m_edges.fetch({&e.target, 1});
                fetch(e.target);
            }
            for (auto const& [source, e] : std::span(some, std::exchange(count, 0)))
                visit(source, e);
        };
        for (auto sources = from.take(); !sources.empty(); sources = from.take()) {
            m_edges.fetch(sources);
            for (block_index const source : sources)
                for (edge const e : edges(source)) {
                    if (count == std::size(some)) visit_some();
                    some[count++] = {source, e};
                }
            visit_some();
        }
    }
    // What the roots reach without what is marked, and the marks: the others would be freed with these.
    [[nodiscard]] std::vector<bool> reached(std::vector<bool> const& without) const;
    [[nodiscard]] std::size_t size() const { return m_heap.blocks.size(); }  // of slots
    [[nodiscard]] bool is_block(block_index b) const { return m_heap.blocks[b]; }
    [[nodiscard]] block operator[](block_index b) const { return m_heap[b]; }
    [[nodiscard]] type const& type_of(block_index b) const { return m_names[type_id(b)]; }
    [[nodiscard]] type_id_t type_id(block_index b) const { return static_cast<type_id_t>(m_types[b]); }
    // Into the processor's cache: its type; and whether it is reachable.
    void fetch_type(block_index b) const { m_types.fetch(b); }
    void fetch(block_index b) const { fetch_type(b), poolheap::fetch(m_reachable, b); }

    [[nodiscard]] reference_reader reader() const {
        return {m_image, m_heap, [this](block_index b) { return type_of(b).kind == kind::shared; }};
    }
    [[nodiscard]] image const& from() const { return m_image; }
    [[nodiscard]] heap const& blocks() const { return m_heap; }
    [[nodiscard]] naming& names() const { return m_names; }
    [[nodiscard]] std::span<root const> roots() const { return m_roots; }
    [[nodiscard]] std::span<root_reference const> root_references() const { return m_root_references; }

    // Numbers of holders: of a word in a block of this type, which is its owner's if it is a buffer; and of a root.
    [[nodiscard]] std::uint32_t holder_of(type_id_t type, std::uint64_t offset);
    [[nodiscard]] std::uint32_t holder_of(root_reference const& r);
    [[nodiscard]] holder const& operator()(std::uint32_t holder) const { return m_holders[holder]; }
    // A shortest chain from a root: the reference that begins it, then its blocks; none: unreachable.
    struct chain {
        root_reference begin;
        std::vector<block_index> blocks;
    };
    [[nodiscard]] chain path_to(block_index b) const;

private:
    void find_references();
    // From what is in the list on; all of that is in `found`.
    void reach(std::vector<bool>& found, worklist& next) const;

    void find_roots();
    void scan_range(address begin, address end, auto&& root_of);
    void scan_mapping(mapping const& m);
    std::uint32_t root_named(root_kind kind, std::string name, type_id_t type = k_buffer);

    // Whether nobody owns it yet: a nameless buffer, or what a std::function holds.
    [[nodiscard]] bool is_open(block_index b) const {
        type_id_t const t = type_id(b);
        return t < m_is_open.size() && m_is_open[t];
    }
    void give(block_index target, std::uint32_t owner, type_id_t pointee) {
        m_types.set(target, buffer_of(owner, m_types[target] != k_buffer ? type_id(target) : pointee));
    }
    // True if `target` was open and now is named by what leads to it.
    bool name_target(block_index source, std::uint64_t offset, block_index target, bool are_raw_named);
    bool queue(block_index b) {
        if (has_edges(b)) (is_label(b) ? m_labelled : m_typed).push(b);
        return true;
    }
    void name_by_roots(bool are_owners);
    void spread(bool are_labels_spread);
    [[nodiscard]] bool is_label(block_index b) const {
        return m_types[b] != k_buffer && type_of(b).is_nameless();
    }
    [[nodiscard]] type_id_t buffer_of(std::uint32_t owner, type_id_t what);
    [[nodiscard]] std::uint32_t add_holder(holder h, std::uint64_t key);

    image const& m_image;
    heap const& m_heap;
    naming& m_names;
    block_numbers m_types;
    std::vector<bool> m_is_open;  // by type
    edge_list m_edges;
    std::vector<bool> m_reachable;
    std::vector<root> m_roots;
    std::unordered_map<std::string, std::uint32_t> m_root_by_name;
    std::vector<root_reference> m_root_references;
    std::vector<holder> m_holders;
    std::unordered_map<std::uint64_t, std::uint32_t> m_holder_at;  // by type or root, and offset
    std::unordered_map<std::string, std::uint32_t> m_holder_by_text;
    std::unordered_map<std::uint64_t, type_id_t> m_buffers;  // by owner and type
    // Blocks that became named behind the scan; those that have a type, and those that have a label instead.
    worklist m_typed, m_labelled;
    worklist m_raw;      // with plain pointers to nameless buffers
    worklist m_reached;  // blocks that are marked as reachable, while their edges may lead to others
    // What name_target found last: neighbours in a list are alike.
    std::array<std::uint64_t, 2> m_last_named{};
    type_id_t m_last_name = k_buffer;
};

}  // namespace poolheap
