// SPDX-License-Identifier: BSL-1.0
#include "retained.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace poolheap {

namespace {

using keeper = std::uint32_t;    // the first type of a name, or behind the types: a root, what is lost
using sequence = std::uint32_t;  // of keepers
constexpr sequence k_all = 0, k_none = 1;

class keepers {
public:
    keepers(graph const& in, leaks const& lost)
        : m_graph(in), m_first_root(static_cast<keeper>(in.names().types())), m_of(in.size()) {
        std::unordered_map<std::string_view, keeper> by_name;
        for (type_id_t id = 0; id < m_first_root; ++id)
            m_of_type.push_back(by_name.try_emplace(in.names()[id].name, id).first->second);
        m_is_marked.resize(m_first_root + in.roots().size() + 1);
        for (root_reference const& r : in.root_references())
            keep(r.target, with(k_none, m_first_root + r.from));
        for (block_index const b : lost.heads)
            keep(b, with(k_none, lost_root()));
        block_index last = k_no_block;
        sequence own = k_none;
        // The keepers of a block do not change while its edges are visited: none leads to itself.
        in.walk(
            m_next, [&](block_index to) { m_of.fetch(to), in.fetch(to); },
            [&](block_index from, edge const& e) {
                if (from != std::exchange(last, from)) own = with(m_of[from], m_of_type[in.type_id(from)]);
                // What is lost keeps nothing that the program reaches.
                if (in.is_reachable(from) || !in.is_reachable(e.target)) keep(e.target, own);
            });
    }

    [[nodiscard]] type_tree tree() {
        struct sum {
            // Of blocks whose own type ends the sequence; of those that these keep, and are one of them.
            std::size_t objects = 0, bytes = 0, kept = 0;
        };
        std::vector<sum> sums;
        m_graph.blocks().for_each_block([&](block_index b, block const& own) {
            if (m_of[b] == k_all) return;
            keeper const type = m_of_type[m_graph.type_id(b)];
            sequence const part = step_of(m_of[b], type), all = std::max(part, m_of[b]);
            if (sums.size() <= all) sums.resize(all + std::size_t{1});
            ++sums[part].objects;
            sums[part].bytes += own.bytes;
            sums[all].kept += own.bytes;
        });
        std::vector<std::size_t> kept(m_is_marked.size(), 0);
        std::vector<bool> is_shown(sums.size(), false);
        for (sequence s = static_cast<sequence>(sums.size()); s-- > k_none + 1;) {
            // With what is behind it; no keeper is twice in a sequence.
            kept[m_steps[s].last] += sums[s].kept;
            sums[m_steps[s].before].kept += sums[s].kept;
            if (sums[s].objects != 0) is_shown[s] = true;
            if (is_shown[s]) is_shown[m_steps[s].before] = true;
        }
        type_tree tree;
        tree.parts.push_back({0, "all"});
        std::uint32_t several = 0;
        std::vector<std::uint32_t> part(sums.size(), 0);
        auto const add = [&](std::uint32_t parent, std::string name, sum const& own) {
            tree.parts.push_back({parent, std::move(name), own.objects, own.bytes, 0});
            return static_cast<std::uint32_t>(tree.parts.size() - 1);
        };
        for (sequence s = k_none + 1; s < sums.size(); ++s) {
            if (!is_shown[s]) continue;
            auto const [before, last] = m_steps[s];
            if (before == k_none && last < m_first_root && several == 0)
                several = add(0, "held from several roots", {});
            part[s] = add(before != k_none      ? part[before]
                          : last < m_first_root ? several
                                                : 0,
                          name_of(last), sums[s]);
        }
        for (std::size_t i = tree.parts.size(); i-- > 0;) {
            type_tree::part& p = tree.parts[i];
            p.retained += p.bytes;
            if (i != 0) tree.parts[p.parent].retained += p.retained;
        }
        for (keeper k = 0; k < m_first_root; ++k)
            if (kept[k] != 0) tree.by_type[name_of(k)] = kept[k];
        return tree;
    }

private:
    // Each but the first two: another one, which has a smaller number, and a keeper behind it.
    struct step {
        sequence before;
        keeper last;
    };

    [[nodiscard]] keeper lost_root() const { return static_cast<keeper>(m_is_marked.size() - 1); }
    [[nodiscard]] std::string name_of(keeper k) const {
        if (k < m_first_root) return m_graph.names()[static_cast<type_id_t>(k)].shown_name();
        return k == lost_root() ? "lost: nothing reaches it" : m_graph.roots()[k - m_first_root].name;
    }

    // visit(keeper), the last one first, to where another sequence ends.
    void each(sequence of, sequence end, auto&& visit) const {
        for (; of != end; of = m_steps[of].before)
            visit(m_steps[of].last);
    }
    // The step of this keeper in the sequence, or the new one behind it: a smaller number than the sequence, its own, or a greater one.
    [[nodiscard]] sequence step_of(sequence s, keeper k) {
        auto const [at, is_new] = m_step_of.try_emplace(std::uint64_t{s} << 32 | k, s);
        if (!is_new) return at->second;
        sequence& found = at->second;
        while (found != k_none && m_steps[found].last != k)
            found = m_steps[found].before;
        if (found != k_none) return found;
        m_steps.push_back({s, k});
        return found = static_cast<sequence>(m_steps.size() - 1);
    }
    // The sequence with this keeper, behind the others if it is none of them.
    [[nodiscard]] sequence with(sequence s, keeper k) { return std::max(s, step_of(s, k)); }
    // What both have, in the order of the first.
    [[nodiscard]] sequence both(sequence a, sequence b) {
        if (a == b || a == k_all) return b;
        auto& [of, found] = m_both[(a * 31 + b) % m_both.size()];
        if (of == std::pair(a, b)) return found;
        // What they begin with: a step has a greater number than those before it.
        sequence shared = a;
        for (sequence other = b; shared != other;)
            (shared > other ? shared : other) = m_steps[std::max(shared, other)].before;
        each(b, shared, [&](keeper k) { m_is_marked[k] = true; });
        std::vector<keeper> common;
        each(a, shared, [&](keeper k) {
            if (m_is_marked[k]) common.push_back(k);
        });
        each(b, shared, [&](keeper k) { m_is_marked[k] = false; });
        of = {a, b};
        found = shared;
        while (!common.empty()) {
            found = with(found, common.back());
            common.pop_back();
        }
        return found;
    }
    void keep(block_index b, sequence by) {
        sequence const before = m_of[b], now = both(before, by);
        if (now == before) return;
        m_of.set(b, now);
        if (m_graph.has_edges(b)) m_next.push(b);
    }

    graph const& m_graph;
    keeper m_first_root;
    std::vector<keeper> m_of_type;
    block_numbers m_of;  // of blocks: sequences
    breadth_first_worklist m_next;
    std::vector<step> m_steps{2};
    std::unordered_map<std::uint64_t, sequence> m_step_of;
    std::array<std::pair<std::pair<sequence, sequence>, sequence>, 4096> m_both{};  // what was asked last
    std::vector<bool> m_is_marked;  // keepers, in both(): none outside
};

}  // namespace

type_tree find_retained(graph const& in, leaks const& lost) { return keepers(in, lost).tree(); }

}  // namespace poolheap
