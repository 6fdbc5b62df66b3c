// SPDX-License-Identifier: BSL-1.0
#include "report.hpp"

#include "image.hpp"

#include <algorithm>
#include <fstream>
#include <map>

namespace poolheap {

namespace {

constexpr int k_version = 1;

// What owns buffers: a member of a type, or a place in a root. A buffer in a buffer has the owner of the outer one.
class buffer_owners {
public:
    struct owner {
        type_id_t type = k_buffer;
        std::uint32_t root = k_none;  // not a type but a root
        std::uint64_t offset = 0;

        [[nodiscard]] auto operator<=>(owner const&) const = default;
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
        auto const [at, is_new] = m_numbers.try_emplace(o, static_cast<std::uint32_t>(m_owners.size()));
        if (is_new) m_owners.push_back(o);
        return m_last = at->second;
    }

    std::vector<std::uint32_t> m_of;  // by block, in m_owners
    std::vector<owner> m_owners;
    std::map<owner, std::uint32_t> m_numbers;
    std::uint32_t m_last = 0;
};

// What refers to what: sums of these are the rows.
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
        std::uint64_t const types = std::uint64_t{c.of} << 32 | std::uint64_t{c.type} << 16 | c.via;
        return ((types ^ std::uint64_t{c.root} << 48) * 0x9e3779b97f4a7c15u ^ c.offset) *
                   0x9e3779b97f4a7c15u >>
               16;
    }
};

std::string known_type(graph const& in, type_id_t id) {
    std::string const& name = in.names()[id].name;
    return name.empty() ? "buffer that nothing names" : name;
}

void sort_rows(json& rows, char const* figure) {
    std::sort(rows.begin(), rows.end(), [&](json const& a, json const& b) {
        return a[figure] != b[figure] ? a[figure] > b[figure] : a < b;
    });
}

// Gives a value what it lacks of an example, as a report of an older version may; false: something is of another type.
bool complete(json& value, json const& example) {
    if (value.type() != example.type()) return false;
    if (example.is_array())
        return std::all_of(value.begin(), value.end(),
                           [&](json& each) { return complete(each, example[0]); });
    bool is_valid = true;
    if (example.is_object())
        for (auto const& [key, part] : example.items())
            is_valid = is_valid && complete(value.emplace(key, part).first.value(), part);
    return is_valid;
}

}  // namespace

json find_holders(graph const& in, std::vector<bool> const& marked) {
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
    std::map<std::string, json> by_text;
    for (auto const& [c, s] : sums) {
        bool const is_root = c.root != buffer_owners::k_none;
        std::string const member = is_root ? in.member_name({c.root, static_cast<std::uint32_t>(c.offset), 0})
                                           : in.member_name(c.type, c.offset);
        json row{{"of", in.names()[c.of].name},
                 {"type", is_root ? "" : in.names()[c.type].name},
                 {"root", is_root ? in.roots()[c.root].name : ""},
                 {"offset", is_root ? c.offset : in.shown_offset(c.type, c.offset)},
                 {"member", member},
                 {"via", c.via != k_buffer ? in.names()[c.via].name : ""}};
        json key = row;
        if (is_root || !member.empty()) key.erase("offset");
        auto const [at, is_new] = by_text.try_emplace(
            key.dump(-1, ' ', false, json::error_handler_t::replace) + std::to_string(c.of), row);
        json& sum = at->second;
        sum["offset"] = std::min(sum["offset"], row["offset"]);
        sum["references"] = sum.value("references", std::size_t{0}) + s.references;
        sum["bytes"] = sum.value("bytes", std::size_t{0}) + s.bytes;
    }
    json rows = json::array();
    for (auto& [text, row] : by_text)
        rows.push_back(std::move(row));
    sort_rows(rows, "references");
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
    std::size_t objects = 0, bytes = 0, unnamed = 0;
    blocks.for_each_block([&](block_index b, block const& own) {
        sum& s = sums[key(of.type_id(b), own)];
        ++s.objects, ++objects;
        s.bytes += own.bytes, bytes += own.bytes;
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
    json types = json::array();
    for (auto const& [k, s] : sums) {
        auto const id = static_cast<type_id_t>(k >> 32);
        type const& t = of.names()[id];
        types.push_back({{"type", (k & 1 ? "idle " : "") + known_type(of, id)},
                         {"kind", name_of(t.kind)},
                         {"pool", blocks.pools[(k & 0xffffffff) >> 1].name},
                         {"objects", s.objects},
                         {"bytes", s.bytes},
                         {"weak_only", s.weak_only},
                         {"retained", options.retained ? r.retained.by_type[id] : 0}});
        if (t.kind == kind::buffer && t.layout < 0) unnamed += s.bytes;
    }
    sort_rows(types, "bytes");
    std::vector<std::string> notes = blocks.doubts;
    notes.insert(notes.end(), of.from().remarks().begin(), of.from().remarks().end());
    if (double const stopped = of.from().stopped_seconds(); stopped != 0) {
        char text[80];
        std::snprintf(text, sizeof text, "The program stood still for %.1f ms.", stopped * 1000);
        notes.emplace_back(text);
    }
    r.all = {{"poolheap", k_version}, {"program", ""},           {"objects", objects},
             {"bytes", bytes},        {"types", types},          {"unnamed_bytes", unnamed},
             {"notes", notes},        {"holders", json::array()}};
    if (options.holders) r.all["holders"] = find_holders(of);
    if (!options.leaks) return r;
    json groups = json::array();
    for (leak_group const& g : lost.groups) {
        json cycle = json::array();
        for (leak_step const& s : g.steps)
            cycle.push_back({{"type", known_type(of, s.type)},
                             {"offset", of.shown_offset(s.type, s.offset)},
                             {"member", s.member}});
        groups.push_back({{"times", g.times},
                          {"objects", g.objects},
                          {"bytes", g.bytes},
                          {"is_cycle", g.is_cycle},
                          {"length", g.length},
                          {"cycle", cycle}});
    }
    r.all["leaks"] = {{"objects", lost.objects}, {"bytes", lost.bytes}, {"groups", groups}};
    return r;
}

void write_json(std::ostream& to, json const& all) {
    // Names come from foreign files: what is no UTF-8 is replaced.
    to << all.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
}

report read_json(std::string const& path) {
    std::ifstream from(path);
    if (!from) throw error("The report " + path + " cannot be opened.");
    json all = json::parse(from, nullptr, false);
    if (!all.is_object() || !all.contains("poolheap"))
        throw error(path + " is not a report of poolheap; write one with --json --output FILE.");
    if (all["poolheap"] != k_version)
        throw error("The report " + path + " has version " + all["poolheap"].dump() +
                    "; this program knows version " + std::to_string(k_version) + ".");
    json const expected = json::parse(R"({"program": "", "objects": 0, "bytes": 0,
        "types": [{"type": "", "kind": "", "pool": "", "objects": 0, "bytes": 0}],
        "holders": [{"of": "", "type": "", "offset": 0, "member": "", "root": "", "references": 0, "bytes": 0}]})");
    json const lost = json::parse(R"({"groups": [{"times": 0, "bytes": 0, "is_cycle": true, "length": 0,
        "cycle": [{"type": "", "offset": 0, "member": ""}]}]})");
    bool is_valid = !all.contains("leaks") || complete(all["leaks"], lost);
    for (auto const& [key, part] : expected.items())
        is_valid = is_valid && all.contains(key) && complete(all[key], part);
    if (!is_valid) throw error("The report " + path + " cannot be read: it is damaged.");
    return {std::move(all), {}};
}

}  // namespace poolheap
