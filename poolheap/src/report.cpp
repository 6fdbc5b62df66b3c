// SPDX-License-Identifier: BSL-1.0
#include "report.hpp"

#include <algorithm>
#include <map>

namespace poolheap {

namespace {

// What owns buffers: a member of a type, or a place in a root. A buffer in a buffer has the owner of the outer one.
class buffer_owners {
public:
    struct owner {
        type_id_t type = k_buffer;
        std::uint32_t root = k_none;  // not a type but a root
        std::uint64_t offset = 0;

        [[nodiscard]] bool operator==(owner const&) const = default;
    };
    static constexpr std::uint32_t k_none = ~std::uint32_t{0};

    explicit buffer_owners(graph const& in) : m_of(in.size(), k_none) {
        std::vector<block_index> queue;
        auto const give = [&](block_index target, owner const& o) {
            if (in.type_of(target).kind != kind::buffer || m_of[target] != k_none) return;
            m_of[target] = number_of(o);
            queue.push_back(target);
        };
        // A plain pointer to a buffer is an iterator, a view, a way back: it owns nothing if something else leads there.
        reference_reader reader = in.reader();
        std::vector<std::pair<block_index, owner>> plain;
        reader.in_blocks([&](block_index source, std::uint64_t offset, block_index target, address) {
            type_id_t const type = in.type_id(source);
            if (in.type_of(source).kind == kind::buffer || in.type_of(target).kind != kind::buffer) return;
            owner const o{type, k_none, in.member_offset(type, offset)};
            if (in.names().at(type, o.offset).how == strength::raw)
                plain.emplace_back(target, o);
            else
                give(target, o);
        });
        auto const spread = [&] {
            for (std::size_t i = 0; i < queue.size(); ++i)
                for (block_index const to : in.targets(queue[i]))
                    if (in.type_of(to).kind == kind::buffer && m_of[to] == k_none) {
                        m_of[to] = m_of[queue[i]];
                        queue.push_back(to);
                    }
            queue.clear();
        };
        spread();
        for (bool const of_globals : {true, false}) {
            for (root_reference const& r : in.root_references())
                if (is_owner(in, r) == of_globals) give(r.target, {k_buffer, r.from, r.offset});
            spread();
            if (!of_globals) break;
            for (auto const& [target, o] : plain)
                give(target, o);
            spread();
        }
    }

    [[nodiscard]] owner const* of(block_index b) const {
        return m_of[b] == k_none ? nullptr : &m_owners[m_of[b]];
    }

private:
    // An iterator on a stack owns nothing either.
    static bool is_owner(graph const& in, root_reference const& r) {
        root const& from = in.roots()[r.from];
        return from.kind < root_kind::local ||
               (from.kind == root_kind::local &&
                in.names().at_global(from.global, r.offset).how != strength::raw);
    }
    std::uint32_t number_of(owner const& o) {
        if (!m_owners.empty() && m_owners[m_last] == o) return m_last;
        std::string const key =
            std::to_string(o.type) + ' ' + std::to_string(o.root) + ' ' + std::to_string(o.offset);
        auto const [at, is_new] = m_numbers.try_emplace(key, static_cast<std::uint32_t>(m_owners.size()));
        if (is_new) m_owners.push_back(o);
        return m_last = at->second;
    }

    std::vector<std::uint32_t> m_of;  // by block, in m_owners
    std::vector<owner> m_owners;
    std::unordered_map<std::string, std::uint32_t> m_numbers;
    std::uint32_t m_last = 0;
};

struct holder_class {
    type_id_t of = k_buffer;
    type_id_t type = k_buffer;
    type_id_t via = k_buffer;
    std::uint32_t root = buffer_owners::k_none;
    std::uint64_t offset = 0;

    [[nodiscard]] bool operator==(holder_class const&) const = default;
};

struct hash_of_class {
    std::size_t operator()(holder_class const& c) const {
        std::uint64_t h = 0;
        for (std::uint64_t const part : {std::uint64_t{c.of}, std::uint64_t{c.type}, std::uint64_t{c.via},
                                         std::uint64_t{c.root}, c.offset})
            h = (h ^ part) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
        return h;
    }
};

bool is_larger(report::holder_row const& a, report::holder_row const& b) {
    return std::tuple(b.references, a.type, a.root, a.offset) <
           std::tuple(a.references, b.type, b.root, b.offset);
}

}  // namespace

std::vector<report::holder_row> find_holders(graph const& in, std::vector<bool> const& marked) {
    buffer_owners const owners(in);
    struct sum {
        std::size_t references = 0, bytes = 0;
    };
    std::unordered_map<holder_class, sum, hash_of_class> sums;
    auto const count = [&](holder_class const& c, block_index target) {
        sum& s = sums[c];
        ++s.references;
        s.bytes += in[target].bytes;
    };
    auto const is_wanted = [&](block_index b) { return marked.empty() || marked[b]; };
    reference_reader reader = in.reader();
    block_index last_source = k_no_block, last_target = k_no_block;
    std::uint64_t last_offset = 0;
    reader.in_blocks([&](block_index source, std::uint64_t offset, block_index target, address word) {
        if (!is_wanted(target)) return;
        // A pointer into the own object holds nothing, nor does what lies in front of it; its own control block may.
        if (source == target && (word != in[target].begin || offset < in.type_of(source).object_offset))
            return;
        // The two words of a shared_ptr are one reference.
        bool const is_second =
            source == last_source && target == last_target && offset == last_offset + sizeof(address);
        last_source = source, last_target = is_second ? k_no_block : target, last_offset = offset;
        if (is_second) return;
        type_id_t const type = in.type_id(source);
        holder_class c{marked.empty() ? in.type_id(target) : k_buffer, type, k_buffer, buffer_owners::k_none,
                       in.member_offset(type, offset)};
        if (in.type_of(source).kind == kind::buffer) {
            if (marked.empty() && in.type_of(target).kind == kind::buffer) return;
            // References among the nodes of one container say nothing about who holds it.
            if (in.type_id(source) == in.type_id(target)) return;
            if (buffer_owners::owner const* const o = owners.of(source))
                c = {c.of, o->type, type, o->root, o->offset};
        }
        count(c, target);
    });
    for (root_reference const& r : in.root_references())
        if (is_wanted(r.target))
            count({marked.empty() ? in.type_id(r.target) : k_buffer, k_buffer, k_buffer, r.from, r.offset},
                  r.target);
    // What reads the same is one row: the pointers of a map to its first, last and root node are one holder.
    std::map<std::tuple<type_id_t, std::string, std::uint64_t, std::string, type_id_t>, report::holder_row>
        by_text;
    for (auto const& [c, s] : sums) {
        report::holder_row row;
        row.of = in.names()[c.of].name;
        row.offset = c.offset;
        if (c.root != buffer_owners::k_none) {
            row.root = in.roots()[c.root].name;
            row.member = in.member_name({c.root, static_cast<std::uint32_t>(c.offset), 0});
        } else {
            row.type = in.names()[c.type].name;
            row.member = in.member_name(c.type, c.offset);
            row.offset = in.shown_offset(c.type, c.offset);
        }
        if (c.via != k_buffer) row.via = in.names()[c.via].name;
        bool const is_at_offset = row.root.empty() && row.member.empty();
        auto const at =
            by_text.try_emplace({c.of, row.root.empty() ? row.type : row.root,
                                 is_at_offset ? row.offset : ~std::uint64_t{0}, row.member, c.via});
        report::holder_row& sum = at.first->second;
        row.offset = at.second ? row.offset : std::min(row.offset, sum.offset);
        row.references = sum.references + s.references;
        row.bytes = sum.bytes + s.bytes;
        sum = std::move(row);
    }
    std::vector<report::holder_row> rows;
    for (auto& [text, row] : by_text)
        rows.push_back(std::move(row));
    std::sort(rows.begin(), rows.end(), is_larger);
    return rows;
}

report make_report(graph const& of, report_options const& options) {
    report r;
    heap const& blocks = of.blocks();
    struct sum {
        std::size_t objects = 0, bytes = 0, weak_only = 0;
    };
    std::unordered_map<std::uint64_t, sum> sums;
    auto const key = [](type_id_t type, block const& b) {
        return std::uint64_t{type} << 32 | std::uint64_t{b.pool} << 1 | (b.state == idle ? 1 : 0);
    };
    blocks.for_each_block([&](block_index b, block const& own) {
        sum& s = sums[key(of.type_id(b), own)];
        ++s.objects;
        s.bytes += own.bytes;
        ++r.objects;
        r.bytes += own.bytes;
    });
    of.reader().first_words(type_namer::k_words, [&](block_index b, std::span<std::uint64_t const> words) {
        kind const k = of.type_of(b).kind;
        if (k != kind::shared && k != kind::rc && k != kind::object) return;
        auto const known = of.names().counts_of(of.type_id(b), words);
        if (!known || known->owners != 0 || known->weak == 0) return;
        if (block const own = of[b]; own.state == in_use) ++sums[key(of.type_id(b), own)].weak_only;
    });
    leaks const lost = options.leaks || options.retained ? find_leaks(of) : leaks{};
    if (options.retained) r.retained = find_retained(of, lost);
    for (auto const& [k, s] : sums) {
        type_id_t const id = static_cast<type_id_t>(k >> 32);
        type const& t = of.names()[id];
        std::string name = t.name.empty() ? "buffer that nothing names" : t.name;
        if (k & 1) name = "idle " + name;
        pool_info const& pool = blocks.pools[(k & 0xffffffff) >> 1];
        r.types.push_back({std::move(name), std::string(name_of(t.kind)), pool.name, s.objects, s.bytes,
                           s.weak_only, options.retained ? r.retained.by_type[id] : 0});
        if (t.kind == kind::buffer && t.layout < 0) r.unnamed_bytes += s.bytes;
    }
    std::sort(r.types.begin(), r.types.end(), [](report::type_row const& a, report::type_row const& b) {
        return std::tuple(b.bytes, a.type, a.pool) < std::tuple(a.bytes, b.type, b.pool);
    });
    if (options.leaks) {
        r.leaks = {lost.objects, lost.bytes, {}};
        for (leak_group const& g : lost.groups) {
            report::leak_row row{g.times, g.objects, g.bytes, g.is_cycle, g.length, {}};
            for (leak_step const& s : g.steps) {
                std::string const& name = of.names()[s.type].name;
                row.cycle.push_back({name.empty() ? "buffer that nothing names" : name,
                                     of.shown_offset(s.type, s.offset), s.member});
            }
            r.leaks->groups.push_back(std::move(row));
        }
    }
    if (options.holders) r.holders = find_holders(of);
    r.notes = blocks.doubts;
    for (std::string const& remark : of.from().remarks())
        r.notes.push_back(remark);
    if (double const stopped = of.from().stopped_seconds(); stopped != 0) {
        char text[80];
        std::snprintf(text, sizeof text, "The program stood still for %.1f ms.", stopped * 1000);
        r.notes.emplace_back(text);
    }
    return r;
}

}  // namespace poolheap
