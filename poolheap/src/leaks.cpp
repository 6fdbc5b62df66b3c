// SPDX-License-Identifier: BSL-1.0
#include "leaks.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace poolheap {

namespace {

// Of the lost blocks alone, by their number among these.
struct reference {
    std::uint32_t target = 0;
    std::uint32_t offset = 0;
    bool is_counted = false;  // leads to a control block
    bool owns = false;
};

constexpr std::uint32_t k_none = ~std::uint32_t{0};

class lost_blocks {
public:
    explicit lost_blocks(graph const& in) : m_graph(in) {
        for (block_index b = 0; b < in.size(); ++b)
            if (in.is_block(b) && !in.is_reachable(b)) m_blocks.push_back(b);
        if (m_blocks.empty()) return;
        read_references();
        find_weak();
        find_components();
    }

    leaks groups() {
        leaks found;
        found.objects = m_blocks.size();
        std::size_t const components = m_first_member.size() - 1;
        std::vector<bool> is_owned(components, false), is_cycle(components, false);
        for (std::uint32_t source = 0; source < m_blocks.size(); ++source)
            for (reference const& r : references(source)) {
                std::uint32_t const from = m_component[source], to = m_component[r.target];
                if (!r.owns) continue;
                // Nodes of a container refer to each other, too: a cycle is one if an object takes part.
                if (from != to)
                    is_owned[to] = true;
                else if (m_graph.type_of(m_blocks[source]).kind != kind::buffer)
                    is_cycle[to] = true;
            }
        std::vector<bool> is_counted(m_blocks.size(), false);
        std::unordered_map<std::string, std::size_t> by_cycle;
        std::vector<std::uint32_t> next;
        // Each cycle is a group, since each has to be broken, even if another one leads to it; and each block that nothing owns.
        // Components come after what they lead to, so this order begins with those that lead to others.
        for (std::size_t c = components; c-- > 0;) {
            if (is_owned[c] && !is_cycle[c]) continue;
            auto const members = std::span<std::uint32_t const>(m_members).subspan(
                m_first_member[c], m_first_member[c + 1] - m_first_member[c]);
            block_index const example = m_blocks[std::ranges::min(members)];
            leak_group group;
            group.is_cycle = is_cycle[c];
            group.cycle = group.is_cycle
                              ? cycle_of(members)
                              : std::vector{leak_step{m_graph.type_of(example).shown_name(), 0, {}}};
            group.length = group.cycle.size();
            found.heads.push_back(example);
            // In an order of their own: cycles that differ in where they begin are one group.
            std::vector<std::pair<std::string_view, std::uint64_t>> steps;
            for (leak_step const& s : group.cycle)
                steps.emplace_back(s.type, s.offset);
            std::ranges::sort(steps);
            std::string key = (group.is_cycle ? 'c' : 'l') + std::to_string(group.length);
            for (auto const& [type, offset] : std::span(steps).first(std::min(k_longest_cycle, steps.size())))
                key.append(type) += '+' + std::to_string(offset);
            if (group.length > k_longest_cycle) group.cycle.resize(k_longest_cycle);
            auto const [at, is_new] = by_cycle.try_emplace(std::move(key), found.groups.size());
            if (is_new) found.groups.push_back(std::move(group));
            leak_group& sum = found.groups[at->second];
            ++sum.times;
            auto const count = [&](std::uint32_t b) {
                if (!is_counted[b]) next.push_back(b);
                is_counted[b] = true;
            };
            std::ranges::for_each(members, count);
            while (!next.empty()) {
                std::uint32_t const b = next.back();
                next.pop_back();
                ++sum.objects;
                sum.bytes += m_graph[m_blocks[b]].bytes;
                for (reference const& r : references(b)) {
                    std::uint32_t const of = m_component[r.target];
                    if (r.owns && (!is_cycle[of] || of == c)) count(r.target);
                }
            }
        }
        for (leak_group const& g : found.groups)
            found.bytes += g.bytes;
        std::ranges::stable_sort(found.groups, std::greater(), &leak_group::bytes);
        return found;
    }

private:
    void read_references() {
        reference_reader reader = m_graph.reader();
        m_first.push_back(0);
        for (std::size_t i = 0; i < m_blocks.size(); ++i) {
            reader.in_block(m_blocks[i], [&](std::uint64_t offset, block_index target, address word) {
                auto const found = std::lower_bound(m_blocks.begin(), m_blocks.end(), target);
                if (found == m_blocks.end() || *found != target) return;
                reference r{static_cast<std::uint32_t>(found - m_blocks.begin()),
                            static_cast<std::uint32_t>(offset)};
                type const& t = m_graph.type_of(target);
                address const begin = m_graph[target].begin;
                bool const is_behind = t.rule.vtable != 0;
                bool const is_control =
                    is_behind ? m_graph.from().get<address>(word) == t.rule.vtable : word == begin;
                r.is_counted = t.kind == kind::shared && is_control;
                r.owns = is_control || (t.kind != kind::shared && word == begin + t.object_offset);
                // A shared_ptr's two words are one reference, at the place of the first.
                if (m_references.size() > m_first.back()) {
                    reference& before = m_references.back();
                    if (before.target == r.target && before.offset + sizeof(address) == offset &&
                        !before.owns && r.is_counted) {
                        before.is_counted = before.owns = true;
                        return;
                    }
                }
                m_references.push_back(r);
            });
            m_first.push_back(static_cast<std::uint32_t>(m_references.size()));
        }
        reader.first_words(
            naming::k_words, [&](block_index b) { return !m_graph.is_reachable(b); },
            [&](block_index b, std::span<std::uint64_t const> words) {
                m_counts.push_back(m_graph.names().counts_of(m_graph.type_id(b), words));
            });
        // An object without a pointer to its begin is owned by a pointer to one of its bases.
        std::vector<bool> has_owner(m_blocks.size(), false);
        for (reference const& r : m_references)
            if (r.owns) has_owner[r.target] = true;
        for (reference& r : m_references)
            if (!has_owner[r.target] && m_graph.type_of(m_blocks[r.target]).kind != kind::shared)
                r.owns = true;
    }

    void find_weak() {
        struct evidence {
            bool strong = false, weak = false;
        };
        std::unordered_map<std::uint64_t, evidence> known;
        std::vector<std::uint32_t> self_weak(m_blocks.size(), 0);
        auto const each = [&](auto&& visit) {
            for (std::uint32_t source = 0; source < m_blocks.size(); ++source) {
                type_id_t const holder = m_graph.type_id(m_blocks[source]);
                for (reference& r : references(source)) {
                    std::uint64_t const offset = m_graph.names()[holder].member_offset(r.offset);
                    if (r.owns)
                        visit(source, r, known[std::uint64_t{holder} << 32 | (offset & 0xffffffff)],
                              r.is_counted ? m_counts[r.target] : std::nullopt);
                }
            }
        };
        each([&](std::uint32_t source, reference& r, evidence& of, std::optional<counts> const& target) {
            strength const how = m_graph.names().at(m_graph.type_id(m_blocks[source]), r.offset).how;
            of.weak |= how == strength::weak || (target && target->owners == 0);
            of.strong |= how == strength::strong || (target && target->weak == 0);
            // A plain pointer to an object owns nothing; one to a buffer is how containers own it.
            r.owns = how != strength::raw || m_graph.type_of(m_blocks[r.target]).kind == kind::buffer;
        });
        each(
            [&](std::uint32_t source, reference& r, evidence const& of, std::optional<counts> const& target) {
                // std::enable_shared_from_this refers to its own object, before any callback of the object does.
                bool const is_own =
                    target && r.target == source && !of.strong && self_weak[source] < target->weak;
                r.owns = of.strong || !(of.weak || is_own);
                if (is_own && !of.weak) ++self_weak[source];
            });
    }

    // Tarjan's components of what owns, without recursion.
    void find_components() {
        std::size_t const n = m_blocks.size();
        std::vector<std::uint32_t> number(n, k_none), low(n, 0), stack, calls, next = m_first;
        m_component.assign(n, k_none);
        std::uint32_t numbers = 0;
        for (std::uint32_t start = 0; start < n; ++start) {
            if (number[start] == k_none) calls.push_back(start);
            while (!calls.empty()) {
                std::uint32_t const b = calls.back();
                if (number[b] == k_none) {
                    number[b] = low[b] = numbers++;
                    stack.push_back(b);
                }
                while (next[b] < m_first[b + 1] && calls.back() == b) {
                    reference const& r = m_references[next[b]++];
                    if (!r.owns) continue;
                    if (number[r.target] == k_none)
                        calls.push_back(r.target);
                    else if (m_component[r.target] == k_none)
                        low[b] = std::min(low[b], number[r.target]);
                }
                if (calls.back() != b) continue;
                calls.pop_back();
                if (!calls.empty()) low[calls.back()] = std::min(low[calls.back()], low[b]);
                if (low[b] != number[b]) continue;
                auto const first = std::ranges::find(stack.rbegin(), stack.rend(), b).base() - 1;
                for (auto member = first; member != stack.end(); ++member)
                    m_component[*member] = static_cast<std::uint32_t>(m_first_member.size() - 1);
                m_members.insert(m_members.end(), first, stack.end());
                stack.erase(first, stack.end());
                m_first_member.push_back(static_cast<std::uint32_t>(m_members.size()));
            }
        }
    }

    // A shortest cycle through that object of the component whose type's name is first.
    std::vector<leak_step> cycle_of(std::span<std::uint32_t const> members) {
        auto const rank = [&](std::uint32_t b) {
            type const& t = m_graph.type_of(m_blocks[b]);
            return std::tuple(t.kind == kind::buffer, std::string_view(t.name), b);
        };
        std::uint32_t const start = *std::ranges::min_element(members, {}, rank);
        std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>>
            found_by;  // and at which offset
        std::vector<std::uint32_t> queue{start};
        for (std::size_t i = 0; i < queue.size() && !found_by.contains(start); ++i)
            for (reference const& r : references(queue[i]))
                if (r.owns && m_component[r.target] == m_component[start] &&
                    found_by.try_emplace(r.target, queue[i], r.offset).second)
                    queue.push_back(r.target);
        std::vector<leak_step> steps;
        std::uint32_t b = start;
        do {
            auto const [from, offset] = found_by.at(b);
            b = from;
            type_id_t const id = m_graph.type_id(m_blocks[from]);
            type const& t = m_graph.names()[id];
            if (t.kind == kind::buffer) continue;  // the member that leads to it says enough
            std::uint64_t const at = t.member_offset(offset);
            steps.push_back({t.name, t.shown_offset(at), m_graph.names().at(id, at).name});
        } while (b != start);
        std::reverse(steps.begin(), steps.end());
        return steps;
    }

    [[nodiscard]] std::span<reference> references(std::uint32_t of) {
        return std::span(m_references).subspan(m_first[of], m_first[of + 1] - m_first[of]);
    }

    graph const& m_graph;
    std::vector<block_index> m_blocks;  // ascending
    std::vector<std::uint32_t> m_first;
    std::vector<reference> m_references;
    std::vector<std::optional<counts>> m_counts;
    std::vector<std::uint32_t> m_component;
    // Blocks by component, each component after those that it leads to; and where each begins, with the end of the last.
    std::vector<std::uint32_t> m_members, m_first_member{0};
};

}  // namespace

leaks find_leaks(graph const& in) { return lost_blocks(in).groups(); }

}  // namespace poolheap
