// SPDX-License-Identifier: BSL-1.0
#include "retained.hpp"

#include <algorithm>
#include <numeric>

namespace poolheap {

namespace {

using node = std::uint32_t;    // a block, or behind them: a root, what is lost, the start of all
using number = std::uint32_t;  // of a node, in the order in which the first search met it
constexpr std::uint32_t k_none = ~std::uint32_t{0};

class dominators {
public:
    dominators(graph const& in, leaks const& lost)
        : m_graph(in),
          m_lost(lost),
          m_blocks(static_cast<node>(in.size())),
          m_start(m_blocks + static_cast<node>(in.roots().size()) + 1) {
        count_holders();
        search();
        collect_predecessors();
        find();
    }

    [[nodiscard]] type_tree tree() const;

private:
    // Of a node, as far as they count: what is lost holds nothing that the program reaches.
    template <class Visit>
    void successors(node of, Visit&& visit) const;
    void count_holders();
    void search();
    void collect_predecessors();
    void find();
    [[nodiscard]] number least(number of);
    // Its holder dominates it and it dominates nothing: no question for the algorithm.
    [[nodiscard]] bool is_plain_leaf(node of) const {
        return of < m_blocks && m_holders[of] == 1 && m_graph.targets(of).empty();
    }

    graph const& m_graph;
    leaks const& m_lost;
    node m_blocks;
    node m_start;
    std::vector<std::uint8_t> m_holders;  // 2: more than one
    std::vector<std::span<root_reference const>> m_of_root;
    std::vector<number> m_number;  // by node
    std::vector<node> m_node;      // by number, as all below
    std::vector<number> m_parent, m_semi, m_ancestor, m_label;
    std::vector<std::size_t> m_first_predecessor;
    std::vector<number> m_predecessors;
    std::vector<number> m_path;
};

template <class Visit>
void dominators::successors(node of, Visit&& visit) const {
    if (of < m_blocks) {
        bool const is_reachable = m_graph.is_reachable(of);
        for (block_index const to : m_graph.targets(of))
            if (is_reachable || !m_graph.is_reachable(to)) visit(to);
    } else if (of == m_start) {
        for (node root = m_blocks; root < m_start; ++root)
            visit(root);
    } else if (of + 1 == m_start) {
        for (block_index const to : m_lost.heads)
            visit(to);
    } else {
        for (root_reference const& r : m_of_root[of - m_blocks])
            visit(r.target);
    }
}

void dominators::count_holders() {
    std::span<root_reference const> const references = m_graph.root_references();
    // References are sorted by kind of root, then by root: each root's are together.
    m_of_root.resize(m_graph.roots().size());
    for (std::size_t first = 0, last = 0; first < references.size(); first = last) {
        while (last < references.size() && references[last].from == references[first].from)
            ++last;
        m_of_root[references[first].from] = references.subspan(first, last - first);
    }
    m_holders.assign(m_blocks, 0);
    auto const count = [&](node to) {
        if (to < m_blocks && m_holders[to] < 2) ++m_holders[to];
    };
    for (node of = 0; of < m_blocks; ++of)
        successors(of, count);
    for (root_reference const& r : references)
        count(r.target);
    for (block_index const to : m_lost.heads)
        count(to);
}

void dominators::search() {
    m_number.assign(m_start + std::size_t{1}, k_none);
    std::vector<std::pair<node, number>> stack{{m_start, 0}};
    // Each node is numbered when it is taken: its parent is the one that put it there last.
    while (!stack.empty()) {
        auto const [of, parent] = stack.back();
        stack.pop_back();
        if (m_number[of] != k_none) continue;
        number const mine = static_cast<number>(m_node.size());
        m_number[of] = mine;
        m_node.push_back(of);
        m_parent.push_back(parent);
        successors(of, [&](node to) {
            if (m_number[to] == k_none && !is_plain_leaf(to)) stack.emplace_back(to, mine);
        });
    }
}

void dominators::collect_predecessors() {
    std::size_t const n = m_node.size();
    m_first_predecessor.assign(n + 2, 0);
    auto const each = [&](auto&& visit) {
        for (number w = 0; w < n; ++w)
            successors(m_node[w], [&](node to) {
                if (m_number[to] != k_none) visit(w, m_number[to]);
            });
    };
    each([&](number, number to) { ++m_first_predecessor[to + 2]; });
    for (std::size_t i = 2; i < n + 2; ++i)
        m_first_predecessor[i] += m_first_predecessor[i - 1];
    m_predecessors.resize(m_first_predecessor[n + 1]);
    each([&](number of, number to) { m_predecessors[m_first_predecessor[to + 1]++] = of; });
}

// The node of least semidominator on the path from `of` up the forest; shortens the path.
number dominators::least(number of) {
    if (m_ancestor[of] == k_none) return of;
    for (number v = of; m_ancestor[m_ancestor[v]] != k_none; v = m_ancestor[v])
        m_path.push_back(v);
    while (!m_path.empty()) {
        number const v = m_path.back();
        m_path.pop_back();
        number const up = m_ancestor[v];
        if (m_semi[m_label[up]] < m_semi[m_label[v]]) m_label[v] = m_label[up];
        m_ancestor[v] = m_ancestor[up];
    }
    return m_label[of];
}

void dominators::find() {
    std::size_t const n = m_node.size();
    m_semi.resize(n);
    std::iota(m_semi.begin(), m_semi.end(), 0);
    m_label = m_semi;
    m_ancestor.assign(n, k_none);
    for (number w = static_cast<number>(n); w-- > 1;) {
        for (std::size_t i = m_first_predecessor[w]; i < m_first_predecessor[w + std::size_t{1}]; ++i)
            m_semi[w] = std::min(m_semi[w], m_semi[least(m_predecessors[i])]);
        m_ancestor[w] = m_parent[w];
    }
    // The parent becomes the dominator: the nearest one above it that is no deeper than the semidominator.
    for (number w = 1; w < n; ++w)
        while (m_parent[w] > m_semi[w])
            m_parent[w] = m_parent[m_parent[w]];
}

type_tree dominators::tree() const {
    type_tree tree;
    constexpr std::uint32_t k_no_type = k_none;
    std::vector<std::uint32_t> types;  // of parts
    std::unordered_map<std::uint64_t, std::uint32_t> children;
    // Types that have the same name are one.
    std::unordered_map<std::string_view, std::uint32_t> by_name;
    std::vector<std::uint32_t> name_number(m_graph.names().types());
    for (type_id_t id = 0; id < name_number.size(); ++id)
        name_number[id] = by_name.try_emplace(m_graph.names()[id].name, id).first->second;
    auto const add = [&](std::uint32_t parent, std::string name, std::uint32_t type) {
        tree.parts.push_back({parent, std::move(name)});
        types.push_back(type);
        return static_cast<std::uint32_t>(tree.parts.size() - 1);
    };
    auto const child = [&](std::uint32_t parent, std::uint32_t type) {
        auto const [at, is_new] = children.try_emplace(std::uint64_t{parent} << 32 | type, 0);
        if (!is_new) return at->second;
        for (std::uint32_t up = parent; up != 0; up = tree.parts[up].parent)
            if (types[up] == type) return at->second = up;
        return at->second = add(parent, m_graph.names()[static_cast<type_id_t>(type)].name, type);
    };
    add(0, "all", k_no_type);
    std::uint32_t several = 0;
    std::vector<std::uint32_t> part(m_node.size(), 0);
    auto const put = [&](std::uint32_t in, block_index b) {
        std::uint32_t const to = child(in, name_number[m_graph.type_id(b)]);
        ++tree.parts[to].objects;
        tree.parts[to].bytes += m_graph[b].bytes;
        return to;
    };
    for (number w = 1; w < m_node.size(); ++w) {
        node const of = m_node[w];
        if (of + 1 == m_start) {
            if (!m_lost.heads.empty()) part[w] = add(0, "lost: nothing reaches it", k_no_type);
            continue;
        }
        if (of >= m_blocks) {
            part[w] = add(0, m_graph.roots()[of - m_blocks].name, k_no_type);
        } else {
            std::uint32_t in = part[m_parent[w]];
            if (in == 0) in = several != 0 ? several : several = add(0, "held from several roots", k_no_type);
            part[w] = put(in, of);
        }
        successors(of, [&](node to) {
            if (is_plain_leaf(to)) put(part[w], to);
        });
    }
    for (std::size_t i = tree.parts.size(); i-- > 0;) {
        type_tree::part& p = tree.parts[i];
        p.retained += p.bytes;
        if (i != 0) tree.parts[p.parent].retained += p.retained;
    }
    for (std::size_t i = 0; i < types.size(); ++i)
        if (types[i] != k_no_type) tree.by_type[tree.parts[i].name] += tree.parts[i].retained;
    return tree;
}

}  // namespace

type_tree find_retained(graph const& in, leaks const& lost) { return dominators(in, lost).tree(); }

}  // namespace poolheap
