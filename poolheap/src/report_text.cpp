// SPDX-License-Identifier: BSL-1.0
// A report as text for a terminal: 80 columns, largest first, twenty rows. And what grew from one report to another.
#include "report.hpp"

#include <algorithm>
#include <map>
#include <ostream>

namespace poolheap {

namespace {

// Where its characters begin.
std::vector<std::size_t> starts(std::string_view text) {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < text.size(); ++i)
        if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) all.push_back(i);
    return all;
}

// Breaks at blanks; later lines are indented.
std::string wrapped(std::string text, std::size_t indent) {
    std::string lines;
    while (columns(text) > k_width - indent) {
        std::size_t const cut = text.rfind(' ', starts(text)[k_width - indent]);
        if (cut == std::string::npos || cut == 0) break;
        lines += text.substr(0, cut) + '\n' + std::string(indent, ' ');
        text.erase(0, cut + 1);
    }
    return lines + fit(text, k_width - indent);
}

// A cell by its value in the row; by the row itself if there is no key.
struct column {
    char const* title;
    std::size_t width;  // 0: the rest of the line, shortened or wrapped
    char const* key;
    std::string (*text)(json const& value);
};

std::string number(json const& n) { return with_commas(n); }
std::string size(json const& n) { return in_bytes(n); }
std::string words(json const& text) { return text; }

void print_table(std::ostream& to, std::vector<column> const& all, json const& rows, bool wraps,
                 char const* nothing = "") {
    auto const print_line = [&](auto&& cell) {
        std::string line;
        for (column const& c : all) {
            if (!line.empty()) line += "  ";
            std::size_t const used = columns(line), width = c.width != 0 ? c.width : k_width - used;
            std::string const shown = c.width == 0 && wraps ? wrapped(cell(c), used) : fit(cell(c), width);
            std::string const gap(c.width != 0 ? width - columns(shown) : 0, ' ');
            line += c.text == words ? shown + gap : gap + shown;
        }
        to << line << '\n';
    };
    print_line([](column const& c) { return c.title; });
    for (std::size_t i = 0; i < rows.size() && i < k_rows; ++i)
        print_line([&](column const& c) { return c.text(*c.key == '\0' ? rows[i] : rows[i][c.key]); });
    if (rows.empty()) to << std::string(all[0].width - columns(nothing), ' ') << nothing << '\n';
    if (rows.size() <= k_rows) return;
    to << "  … and " << plural(rows.size() - k_rows, "row") << " more";
    std::size_t objects = 0, bytes = 0;
    for (std::size_t i = k_rows; i < rows.size(); ++i)
        objects += rows[i].value("objects", 0UL), bytes += rows[i].value("bytes", 0UL);
    to << (rows[0].contains("kind") ? ", " + plural(objects, "object") + ", " + in_bytes(bytes) : "")
       << ".\n";
}

// Names of some templates have 100,000 characters; JSON has all of them.
constexpr std::size_t k_name = 3 * k_width, k_whole = ~std::size_t{0};

std::string step_text(json const& s, std::size_t most) {
    std::string const type = fit(s.at("type").get<std::string>(), most), member = s.at("member");
    return member.empty() ? type + '+' + s.at("offset").dump() : place(type, s.at("offset"), member);
}

// What repeats is shown once.
std::string cycle_text(json const& group) {
    json const& cycle = group.at("cycle");
    if (cycle.empty()) return {};
    std::string const first = fit(cycle.at(0).at("type").get<std::string>(), k_name);
    if (!group.at("is_cycle")) return first;
    std::vector<std::string> names;
    std::ranges::transform(cycle, std::back_inserter(names),
                           [](json const& s) { return step_text(s, k_whole); });
    std::ptrdiff_t period = 1;
    while (!std::equal(names.begin() + period, names.end(), names.begin()))
        ++period;
    auto const shown = static_cast<std::size_t>(period), length = group.at("length").get<std::size_t>();
    bool const is_shortened = names.size() > 2 * shown || length > names.size();
    std::string text;
    for (std::size_t i = 0; i < (is_shortened ? shown : names.size()); ++i)
        text += step_text(cycle[i], k_name) + " → ";
    if (is_shortened) text += "… (" + with_commas(length) + " in the ring) → ";
    return text + first;
}

std::string holder_text(json const& h) {
    std::string const via = fit(h["via"].get<std::string>(), k_name);
    return holder_place(h, k_name) + (via.empty()                  ? ""
                                      : via.starts_with("buffer ") ? ", in a buffer"
                                                                   : ", in " + via);
}

}  // namespace

std::string with_commas(std::size_t n) {
    std::string digits = std::to_string(n);
    for (std::size_t at = digits.size(); at > 3; at -= 3)
        digits.insert(at - 3, 1, ',');
    return digits;
}

std::string plural(std::size_t n, std::string const& one) {
    return with_commas(n) + ' ' + one + (n == 1 ? "" : "s");
}

std::string in_bytes(std::size_t n) {
    if (n < 1024) return std::to_string(n) + " B";
    constexpr char const* units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(n) / 1024;
    std::size_t unit = 0;
    for (; value >= 1023.5 && unit + 1 < std::size(units); ++unit)
        value /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

std::size_t columns(std::string_view text) { return starts(text).size(); }

std::string fit(std::string_view text, std::size_t width) {
    auto const at = starts(text);
    if (at.size() <= width) return std::string(text);
    std::size_t const left = width / 2, last = width - left - 1;
    return std::string(text.substr(0, at[left])) + "…" +
           std::string(last == 0 ? "" : text.substr(at[at.size() - last]));
}

std::string group_text(json const& group) {
    std::size_t const times = group["times"], each = group["objects"].get<std::size_t>() / times;
    std::size_t const more =
        each - (group["is_cycle"] ? std::min(group["length"].get<std::size_t>(), each) : 1);
    return cycle_text(group) + (more != 0 ? ", with " + plural(more, "object") + " that it keeps" : "");
}

std::string holder_place(json const& row, std::size_t most) {
    std::string const type = fit(row.value("type", ""), most), root = row.value("root", ""),
                      member = row.value("member", "");
    if (!root.empty()) return root + (member.empty() ? "" : "." + member);
    return place(type.empty() ? "buffer" : type, row.value("offset", 0UL), member);
}

void print_census(std::ostream& to, report const& r) {
    to << plural(r.all["objects"], "object") << ", " << in_bytes(r.all["bytes"]) << ", of "
       << plural(r.all["types"].size(), "type");
    if (r.all["bytes"] != 0) to << "; " << typed_percent(r.all) << "% of the bytes have a type";
    // Columns that would be the same in all rows are left out.
    json const& types = r.all["types"];
    std::vector<column> all{{"objects", 10, "objects", number}, {"bytes", 9, "bytes", size}};
    if (!r.retained.parts.empty()) all.push_back({"retained", 10, "retained", size});
    if (std::ranges::any_of(types, [](json const& t) { return t["weak_only"] != 0; }))
        all.push_back(
            {"weak only", 9, "weak_only", [](json const& n) { return n == 0 ? "" : with_commas(n); }});
    if (std::ranges::any_of(types, [&](json const& t) { return t["pool"] != types[0]["pool"]; }))
        all.push_back({"pool", 10, "pool", words});
    all.push_back({"type", 0, "type", words});
    print_table(to << ".\n\n", all, types, false);
}

void print_leaks(std::ostream& to, report const& r) {
    json const& lost = r.all["leaks"];
    if (lost["objects"] == 0) {
        to << "Nothing is lost: every object can be reached.\n";
        return;
    }
    std::size_t times = 0;
    for (json const& g : lost["groups"])
        times += g["times"].get<std::size_t>();
    to << "Nothing reaches " << plural(lost["objects"], "object") << ", " << in_bytes(lost["bytes"])
       << ", in " << plural(times, "group") << ".\n\n";
    print_table(to,
                {{"times", 10, "times", number},
                 {"bytes", 9, "bytes", size},
                 {"cycle, or what was lost", 0, "", group_text}},
                lost["groups"], true);
}

void print_holders(std::ostream& to, report const& r) {
    print_table(to, {{"references", 10, "references", number}, {"holder", 0, "", holder_text}},
                r.all["holders"], true, "none");
}

void print_notes(std::ostream& to, report const& r) {
    for (json const& note : r.all["notes"])
        to << "Note: " << wrapped(note, 6) << '\n';
}

// ---- what grew

namespace {

struct growth {
    char const *part, *counted, *what, *title;
    std::string (*name)(json const& row);
};
constexpr growth k_growths[]{
    {"types", "objects", "type", "type", [](json const& t) { return t.at("type").get<std::string>(); }},
    {"holders", "references", "holder", "holder → type",
     [](json const& h) { return holder_place(h) + " → " + h.at("of").get<std::string>(); }}};

template <std::string (*Text)(std::size_t)>
std::string change(json const& by) {
    std::int64_t const n = by;
    return (n < 0 ? "-" : "+") + Text(static_cast<std::size_t>(std::abs(n)));
}

}  // namespace

json find_growth(json const& before, json const& after) {
    json all{{"poolheap_diff", 1}};
    for (growth const& g : k_growths) {
        struct sum {
            std::int64_t count = 0, bytes = 0;
            bool is_buffer = false;
        };
        std::map<std::string, sum> sums;
        for (int const sign : {-1, 1})
            for (json const& row : (sign < 0 ? before : after).at(g.part)) {
                std::string const name = g.name(row);
                sum& s = sums[name];
                s.count += sign * row.at(g.counted).get<std::int64_t>();
                s.bytes += sign * row.at("bytes").get<std::int64_t>();
                s.is_buffer = name.starts_with("buffer ") || name.ends_with("→ ") ||
                              name.find("→ buffer ") != std::string::npos ||
                              row.value("kind", "") == "buffer";
            }
        std::erase_if(sums, [](auto const& s) { return s.second.bytes == 0 && s.second.count == 0; });
        std::vector<std::pair<std::string, sum>> changed(sums.begin(), sums.end());
        // Objects of the program's own types come before buffers, since a buffer grows because of who holds it.
        std::ranges::stable_sort(changed, {}, [](auto const& each) {
            sum const& s = each.second;
            return std::tuple(s.bytes <= 0, s.is_buffer, -s.bytes, -s.count);
        });
        all[g.part] = json::array();
        for (auto const& [name, s] : changed)
            all[g.part].push_back({{g.what, name}, {g.counted, s.count}, {"bytes", s.bytes}});
    }
    return all;
}

void print_growth(std::ostream& to, json const& grown) {
    for (growth const& g : k_growths)
        print_table(to << (&g == k_growths ? "" : "\n"),
                    {{g.counted, 12, g.counted, change<with_commas>},
                     {"bytes", 11, "bytes", change<in_bytes>},
                     {g.title, 0, g.what, words}},
                    grown[g.part], false, "no change");
}

}  // namespace poolheap
