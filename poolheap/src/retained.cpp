// SPDX-License-Identifier: BSL-1.0
#include "retained.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <optional>

namespace poolheap {

namespace {

using node = std::uint32_t;  // a block, or behind them: a root, what is lost, the start of all
using rank = std::uint32_t;  // number of a node, in the order in which the first search met it
constexpr std::uint32_t k_none = ~std::uint32_t{0};

class dominators {
public:
    dominators(graph const& in, leaks const& lost)
        : m_graph(in),
          m_lost(lost),
          m_blocks(static_cast<node>(in.size())),
          m_start(m_blocks + static_cast<node>(in.roots().size()) + 1),
          m_holders(m_blocks, 0),
          m_number(static_cast<rank*>(std::calloc(m_start + std::size_t{1}, sizeof(rank))), std::free) {
        if (m_number == nullptr) throw std::bad_alloc();
        for (node of = 0; of < m_start; ++of)
            successors(of, [&](node to) { m_holders[to] += m_holders[to] < 2 ? 1 : 0; });
        search();
        find();
    }

    [[nodiscard]] type_tree tree() const {
        type_tree tree;
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
            return at->second = add(parent, m_graph.names()[static_cast<type_id_t>(type)].shown_name(), type);
        };
        add(0, "all", k_none);
        std::uint32_t several = 0;
        std::vector<std::uint32_t> part(m_node.size(), 0);
        auto const put = [&](std::uint32_t in, block_index b) {
            std::uint32_t const to = child(in, name_number[m_graph.type_id(b)]);
            ++tree.parts[to].objects;
            tree.parts[to].bytes += m_graph[b].bytes;
            return to;
        };
        for (rank w = 1; w < m_node.size(); ++w) {
            node const of = m_node[w];
            if (of + 1 == m_start) {
                if (m_lost.heads.empty()) continue;
                part[w] = add(0, "lost: nothing reaches it", k_none);
            } else if (of >= m_blocks) {
                part[w] = add(0, m_graph.roots()[of - m_blocks].name, k_none);
            } else {
                std::uint32_t in = part[m_parent[w]];
                if (in == 0)
                    in = several != 0 ? several : several = add(0, "held from several roots", k_none);
                part[w] = put(in, of);
            }
            successors(of, [&](node to) {
                if (to < m_blocks && m_holders[to] == 1 && m_number[to] == 0)
                    below(to, put(part[w], to),
                          [&](node b, std::uint32_t in) { return std::optional(put(in, b)); });
            });
        }
        for (std::size_t i = tree.parts.size(); i-- > 0;) {
            type_tree::part& p = tree.parts[i];
            p.retained += p.bytes;
            if (i != 0) tree.parts[p.parent].retained += p.retained;
        }
        for (std::size_t i = 0; i < types.size(); ++i)
            if (types[i] != k_none) tree.by_type[tree.parts[i].name] += tree.parts[i].retained;
        return tree;
    }

private:
    // Of a node, as far as they count: what is lost holds nothing that the program reaches.
    void successors(node of, auto&& visit) const {
        if (of < m_blocks) {
            bool const is_reachable = m_graph.is_reachable(of);
            for (auto const [to, word] : m_graph.edges(of))
                if (is_reachable || !m_graph.is_reachable(to)) visit(to);
        } else if (of == m_start) {
            for (node root = m_blocks; root < m_start; ++root)
                visit(root);
        } else if (of + 1 == m_start) {
            std::ranges::for_each(m_lost.heads, visit);
        } else {
            // They are sorted by kind of root, then by root.
            auto const place = [&](std::uint32_t root) {
                return std::pair(m_graph.roots()[root].kind, root);
            };
            for (root_reference const& r :
                 std::ranges::equal_range(m_graph.root_references(), place(of - m_blocks), {},
                                          [&](root_reference const& r) { return place(r.from); }))
                visit(r.target);
        }
    }

    void search() {
        m_node.reserve(m_start + std::size_t{1});  // of address space, likewise
        m_parent.reserve(m_start + std::size_t{1});
        std::vector<std::pair<node, rank>> stack{{m_start, 0}};
        // Each node is numbered when it is taken: its parent is the one that put it there last.
        while (!stack.empty()) {
            auto const [of, parent] = stack.back();
            stack.pop_back();
            if (m_number[of] != 0) continue;
            rank const mine = static_cast<rank>(m_node.size());
            m_number[of] = mine + 1;
            m_node.push_back(of);
            m_parent.push_back(parent);
            successors(of, [&](node to) {
                if (m_number[to] == 0 && !is_private(to, of)) stack.emplace_back(to, mine);
            });
        }
    }

    // The least semidominator on the path from `of` up the forest of those from `linked` on; shortens the path.
    [[nodiscard]] rank least(rank of, rank linked) {
        if (of < linked) return of;
        for (rank v = of; m_ancestor[v] >= linked; v = m_ancestor[v])
            m_path.push_back(v);
        for (; !m_path.empty(); m_path.pop_back()) {
            rank const v = m_path.back(), up = m_ancestor[v];
            m_label[v] = std::min(m_label[v], m_label[up]);
            m_ancestor[v] = m_ancestor[up];
        }
        return m_label[of];
    }

    void find() {
        std::size_t const n = m_node.size();
        // Predecessors of w: from first[w] to first[w + 1].
        std::vector<std::uint64_t> first(n + 2, 0);
        std::vector<rank> predecessors;
        auto const each = [&](auto&& visit) {
            for (rank w = 0; w < n; ++w)
                successors(m_node[w], [&](node to) {
                    if (m_number[to] != 0) visit(w, m_number[to] - 1);
                });
        };
        each([&](rank, rank to) { ++first[to + 2]; });
        std::partial_sum(first.begin(), first.end(), first.begin());
        predecessors.resize(first[n + 1]);
        each([&](rank of, rank to) { predecessors[first[to + 1]++] = of; });
        m_semi.resize(n);
        m_label.resize(n);
        m_ancestor = m_parent;
        for (rank w = static_cast<rank>(n); w-- > 1;) {
            m_semi[w] = w;
            for (std::uint64_t i = first[w]; i < first[w + std::size_t{1}]; ++i)
                m_semi[w] = std::min(m_semi[w], least(predecessors[i], w + 1));
            m_label[w] = m_semi[w];
        }
        // The parent becomes the dominator: the nearest one above it that is no deeper than the semidominator.
        for (rank w = 1; w < n; ++w)
            while (m_parent[w] > m_semi[w])
                m_parent[w] = m_parent[m_parent[w]];
        m_semi = m_label = m_ancestor = {};
    }

    // A block with one holder, which dominates it, and so for all that it leads to: no question for the algorithm, so it has no number.
    // Each block is looked at once: of a block with one holder, whose own holder then has a number, leaves alone.
    [[nodiscard]] bool is_private(node to, node holder) const {
        if (to >= m_blocks || m_holders[to] != 1) return false;
        return !m_graph.has_edges(to) ||
               ((holder >= m_blocks || m_holders[holder] != 1) && below(to, 0U, [&](node b, unsigned) {
                    return m_holders[b] == 1 ? std::optional(0U) : std::nullopt;
                }));
    }
    // Depth first: visit(block, value of its holder) -> its own value, or nothing, which ends this. A list takes no more room than a leaf.
    bool below(node top, auto of_top, auto&& visit) const {
        using value_of = decltype(of_top);
        struct step {
            edge_list::edges next;
            value_of value;
        };
        std::vector<step> path;
        auto const enter = [&](node of, value_of value) {
            if (m_graph.has_edges(of)) path.push_back({m_graph.edges(of), value});
        };
        enter(top, of_top);
        while (!path.empty()) {
            step& last = path.back();
            node const to = (*last.next).target;
            value_of const value = last.value;
            if (++last.next == std::default_sentinel) path.pop_back();
            if (to == top || m_graph.is_reachable(to) != m_graph.is_reachable(top)) continue;
            std::optional<value_of> const own = visit(to, value);
            if (!own) return false;
            enter(to, *own);
        }
        return true;
    }

    graph const& m_graph;
    leaks const& m_lost;
    node m_blocks;
    node m_start;
    std::vector<std::uint8_t> m_holders;  // 2: more than one
    // By node, plus one: what is not numbered takes no memory, since its pages are not written.
    std::unique_ptr<rank[], decltype(&std::free)> m_number;
    std::vector<node> m_node;  // by number, as all below
    std::vector<rank> m_parent, m_semi, m_ancestor, m_label;
    std::vector<rank> m_path;
};

}  // namespace

type_tree find_retained(graph const& in, leaks const& lost) { return dominators(in, lost).tree(); }

}  // namespace poolheap
