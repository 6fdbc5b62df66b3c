// SPDX-License-Identifier: BSL-1.0
#include "report.hpp"

#include "image.hpp"

#include <algorithm>
#include <map>

namespace poolheap {

namespace {

constexpr int k_version = 1;

void sort_rows(json& rows, char const* figure) {
    std::sort(rows.begin(), rows.end(), [&](json const& a, json const& b) {
        return a[figure] != b[figure] ? a[figure] > b[figure] : a < b;
    });
}

}  // namespace

json find_holders(graph& in, std::vector<bool> const& marked, std::string const& what) {
    struct sum {
        std::size_t references = 0, bytes = 0;

        void add(sum const& s) { references += s.references, bytes += s.bytes; }
    };
    bool const is_all = marked.empty();
    auto const is_wanted = [&](block_index b) { return is_all || marked[b]; };
    // By the types of target and source, and the offset in the source: of a buffer it is the owner that counts.
    std::unordered_map<std::uint64_t, sum> sums;
    block_index last_source = k_no_block, last_target = k_no_block;
    std::uint64_t last_offset = 0, last_key = ~std::uint64_t{0};
    sum* last_sum = nullptr;
    auto const count = [&](block_index source, std::uint64_t offset, block_index target, address word) {
        if (!is_wanted(target)) return;
        type const &from = in.type_of(source), &to = in.type_of(target);
        // A pointer into the own object holds nothing, nor does what lies in front of it; its own control block may.
        bool const is_behind = from.rule.counts == word_rule::behind;
        if (source == target && (is_behind || word != in[target].begin || offset < from.object_offset))
            return;
        // The two words of a shared_ptr are one reference.
        bool const is_second =
            source == last_source && target == last_target && offset == last_offset + sizeof(address);
        last_source = source, last_target = is_second ? k_no_block : target, last_offset = offset;
        if (is_second) return;
        // References among the nodes of one container say nothing about who holds it.
        if (from.kind == kind::buffer &&
            ((is_all && to.kind == kind::buffer) || in.type_id(source) == in.type_id(target)))
            return;
        std::uint64_t const place = from.owner == k_no_root ? from.member_offset(offset) & 0xffffffff : 0;
        std::uint64_t const key =
            std::uint64_t{in.type_id(target)} << 48 | std::uint64_t{in.type_id(source)} << 32 | place;
        if (key != std::exchange(last_key, key)) last_sum = &sums[key];
        last_sum->add({1, in[target].bytes});
    };
    in.reader().in_blocks(count, [&](block_index target) {
        if (!is_all) fetch(marked, target);
        in.fetch_type(target);
    });
    // What reads the same is one row.
    std::map<std::tuple<std::string, std::uint32_t, std::string>, sum> rows;
    for (auto const& [key, s] : sums) {
        auto const of = static_cast<type_id_t>(key >> 48), from = static_cast<type_id_t>(key >> 32);
        type const& t = in.names()[from];
        rows[{is_all ? in.names()[of].shown_name() : what, in.holder_of(from, key & 0xffffffff),
              t.owner == k_no_root ? "" : t.name}]
            .add(s);
    }
    for (root_reference const& r : in.root_references())
        if (is_wanted(r.target))
            rows[{is_all ? in.type_of(r.target).shown_name() : what, in.holder_of(r), ""}].add(
                {1, in[r.target].bytes});
    json all = json::array();
    for (auto const& [key, s] : rows) {
        holder const& h = in(std::get<1>(key));
        bool const is_root = h.root != k_no_root;
        all.push_back({{"of", std::get<0>(key)},
                       {"type", is_root ? "" : in.names()[h.type].shown_name()},
                       {"root", is_root ? in.roots()[h.root].name : ""},
                       {"offset", h.offset},
                       {"member", h.member},
                       {"via", std::get<2>(key)},
                       {"references", s.references},
                       {"bytes", s.bytes}});
    }
    sort_rows(all, "references");
    return all;
}

report make_report(graph& of, report_options const& options) {
    report r;
    heap const& blocks = of.blocks();
    struct sum {
        std::size_t objects = 0, bytes = 0, weak_only = 0;
    };
    std::unordered_map<std::uint64_t, sum> sums;  // by type, pool and whether it is idle
    auto const key = [&](block_index b, block const& own) {
        return std::uint64_t{of.type_id(b)} << 32 | std::uint64_t{own.pool} << 1 |
               (own.state == idle ? 1 : 0);
    };
    std::uint64_t last = ~std::uint64_t{0};
    sum* s = nullptr;
    blocks.for_each_block([&](block_index b, block const& own) {
        if (std::uint64_t const k = key(b, own); k != std::exchange(last, k)) s = &sums[k];
        ++s->objects;
        s->bytes += own.bytes;
    });
    of.reader().first_words(
        naming::k_words, [&](block_index b) { return of.type_of(b).may_be_counted(); },
        [&](block_index b, std::span<std::uint64_t const> words) {
            auto const known = of.names().counts_of(of.type_id(b), words);
            if (known && known->owners == 0 && known->weak != 0 && of[b].state == in_use)
                ++sums[key(b, of[b])].weak_only;
        });
    leaks const lost = options.leaks || options.retained ? find_leaks(of) : leaks{};
    if (options.retained) r.retained = find_retained(of, lost);
    // Types of one name are one row.
    std::map<std::tuple<std::string, std::string_view, std::string>, sum> rows;
    std::size_t objects = 0, bytes = 0, unnamed = 0;
    for (auto const& [k, each] : sums) {
        auto const id = static_cast<type_id_t>(k >> 32);
        type const& t = of.names()[id];
        sum& row = rows[{(k & 1 ? "idle " : "") + of.names()[id].shown_name(), name_of(t.kind),
                         blocks.pools[(k & 0xffffffff) >> 1]}];
        row.objects += each.objects, row.bytes += each.bytes, row.weak_only += each.weak_only;
        objects += each.objects, bytes += each.bytes, unnamed += t.is_nameless() ? each.bytes : 0;
    }
    json types = json::array();
    for (auto const& [row, s] : rows) {
        auto const& [name, kind, pool] = row;
        auto const retained = r.retained.by_type.find(name.starts_with("idle ") ? name.substr(5) : name);
        types.push_back({{"type", name},
                         {"kind", kind},
                         {"pool", pool},
                         {"objects", s.objects},
                         {"bytes", s.bytes},
                         {"weak_only", s.weak_only},
                         {"retained", retained == r.retained.by_type.end() ? 0 : retained->second}});
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
    r.all["leaks"] = {{"objects", lost.objects}, {"bytes", lost.bytes}, {"groups", lost.groups}};
    return r;
}

void write_json(std::ostream& to, json const& all) {
    // Names come from foreign files: what is no UTF-8 is replaced.
    to << all.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
}

std::size_t typed_percent(json const& all) {
    std::size_t const bytes = all["bytes"], unnamed = all["unnamed_bytes"];
    return bytes == 0 ? 100 : (bytes - unnamed) * 100 / bytes;
}

json read_json(std::istream& from, std::string const& path) {
    json all = json::parse(from, nullptr, false);
    if (!all.is_object() || !all.contains("poolheap"))
        throw error(path + " is not a report of poolheap; write one with --json --output FILE.");
    if (all["poolheap"] != k_version)
        throw error("The report " + path + " has version " + all["poolheap"].dump() +
                    "; this program knows version " + std::to_string(k_version) + ".");
    try {
        static_cast<void>(find_growth(all, all));
    } catch (json::exception const&) {
        throw error("The report " + path + " cannot be read: it is damaged.");
    }
    return all;
}

}  // namespace poolheap
