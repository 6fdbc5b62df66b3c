// SPDX-License-Identifier: BSL-1.0
// What grew between two reports: types, holders and groups of lost objects. Objects of the program's own types come before buffers, since a
// buffer grows because of who holds it.
#include "report.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <ostream>

namespace poolheap {

namespace {

constexpr std::size_t k_rows = 20;

struct grown {
    std::string name;
    bool is_buffer = false;
    std::size_t count[2] = {0, 0};  // before, after
    std::size_t bytes[2] = {0, 0};

    [[nodiscard]] std::ptrdiff_t growth() const { return static_cast<std::ptrdiff_t>(bytes[1] - bytes[0]); }
    [[nodiscard]] std::ptrdiff_t more() const { return static_cast<std::ptrdiff_t>(count[1] - count[0]); }
};

using rows = std::map<std::string, grown>;  // by what makes a row the same in both

std::vector<grown> sorted(rows const& of) {
    std::vector<grown> changed;
    for (auto const& [key, row] : of)
        if (row.growth() != 0 || row.more() != 0) changed.push_back(row);
    std::stable_sort(changed.begin(), changed.end(), [](grown const& a, grown const& b) {
        auto const key = [](grown const& g) {
            return std::tuple(g.growth() <= 0, g.is_buffer, -g.growth(), -g.more());
        };
        return key(a) < key(b);
    });
    return changed;
}

std::vector<grown> types_of(report const* const (&reports)[2]) {
    rows all;
    for (int when : {0, 1})
        for (report::type_row const& t : reports[when]->types) {
            grown& row = all[t.pool + '\n' + t.kind + '\n' + t.type];
            row.name = t.type;
            row.is_buffer = t.kind == "buffer";
            row.count[when] += t.objects;
            row.bytes[when] += t.bytes;
        }
    return sorted(all);
}

std::vector<grown> holders_of(report const* const (&reports)[2]) {
    rows all;
    for (int when : {0, 1})
        for (report::holder_row const& h : reports[when]->holders) {
            std::string const from = h.type.empty() ? h.root + (h.member.empty() ? "" : "." + h.member)
                                                    : place(h.type, h.offset, h.member);
            grown& row = all[from + '\n' + h.of];
            row.name = from + " → " + h.of;
            row.is_buffer = h.of.starts_with("buffer ") || h.of.empty() || from.starts_with("buffer ");
            row.count[when] += h.references;
            row.bytes[when] += h.bytes;
        }
    return sorted(all);
}

std::vector<grown> leaks_of(report const* const (&reports)[2]) {
    rows all;
    for (int when : {0, 1})
        for (report::leak_row const& g : reports[when]->leaks.value_or(report::lost()).groups) {
            std::string name;
            for (report::step const& s : g.cycle)
                name += g.is_cycle ? place(s.type, s.offset, s.member) + " → " : s.type;
            if (g.is_cycle) name += g.cycle.front().type;
            grown& row = all[name + std::to_string(g.length)];
            row.name = std::move(name);
            row.count[when] += g.times;
            row.bytes[when] += g.bytes;
        }
    return sorted(all);
}

void print_table(std::ostream& to, char const* counted, char const* what, std::vector<grown> const& rows) {
    to << '\n' << right(counted, 12) << right("bytes", 13) << "  " << what << '\n';
    for (std::size_t i = 0; i < rows.size() && i < k_rows; ++i) {
        std::string const figures = right(change(rows[i].count[0], rows[i].count[1], with_commas), 12) +
                                    right(change(rows[i].bytes[0], rows[i].bytes[1], in_bytes), 13) + "  ";
        to << figures << fit(rows[i].name, 80 - figures.size()) << '\n';
    }
    if (rows.empty()) to << right("no change", 12) << '\n';
    if (rows.size() > k_rows) to << "  … and " << with_commas(rows.size() - k_rows) << " rows more.\n";
}

}  // namespace

void print_diff(std::ostream& to, report const& before, report const& after) {
    report const* const both[2] = {&before, &after};
    to << "From " << in_bytes(before.bytes) << " in " << with_commas(before.objects) << " objects to "
       << in_bytes(after.bytes) << " in " << with_commas(after.objects) << ".\n";
    print_table(to, "objects", "type", types_of(both));
    print_table(to, "references", "holder → type", holders_of(both));
    if (before.leaks && after.leaks) print_table(to, "times", "lost", leaks_of(both));
}

void write_diff_json(std::ostream& to, report const& before, report const& after) {
    report const* const both[2] = {&before, &after};
    using json = nlohmann::ordered_json;
    auto const of = [](std::vector<grown> const& rows, char const* name, char const* counted) {
        json all = json::array();
        for (grown const& g : rows)
            all.push_back({{name, g.name}, {counted, g.more()}, {"bytes", g.growth()}});
        return all;
    };
    json const all{{"poolheap_diff", 1},
                   {"types", of(types_of(both), "type", "objects")},
                   {"holders", of(holders_of(both), "holder", "references")},
                   {"leaks", of(leaks_of(both), "group", "times")}};
    to << all.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
}

}  // namespace poolheap
