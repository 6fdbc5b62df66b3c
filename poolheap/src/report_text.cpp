// SPDX-License-Identifier: BSL-1.0
// A report as text for a terminal: 80 columns, largest first, twenty rows. And what grew from one report to another.
#include "columns.hpp"

#include <algorithm>
#include <map>
#include <ostream>

namespace poolheap {

namespace {

constexpr std::size_t k_width = 80;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

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
    while (value >= 1023.5 && unit + 1 < std::size(units))
        value /= 1024, ++unit;
    char text[32];
    std::snprintf(text, sizeof text, value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

std::size_t columns(std::string_view text) {
    return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues));
}

std::string fit(std::string_view text, std::size_t width) {
    if (columns(text) <= width) return std::string(text);
    auto const at = [&](std::size_t column) {  // the byte where it begins
        std::size_t i = 0;
        for (; i < text.size(); ++i)
            if (!continues(text[i]) && column-- == 0) break;
        return i;
    };
    std::size_t const left = width / 2, last = width - left - 1;
    return std::string(text.substr(0, at(left))) + "…" + std::string(text.substr(at(columns(text) - last)));
}

namespace {

// Breaks at blanks; later lines are indented.
std::string wrapped(std::string text, std::size_t indent) {
    std::size_t const width = k_width - indent;
    std::string lines;
    while (columns(text) > width) {
        std::size_t cut = 0, column = 0;
        for (std::size_t i = 0; i < text.size() && column <= width; ++i) {
            if (text[i] == ' ') cut = i;
            if (!continues(text[i])) ++column;
        }
        if (cut == 0) break;
        lines += text.substr(0, cut) + '\n' + std::string(indent, ' ');
        text.erase(0, cut + 1);
    }
    return lines + fit(text, width);
}

column number(std::string title, std::size_t width, char const* key) {
    return {std::move(title), width, [key](json const& row) { return with_commas(row[key]); }};
}
column bytes(std::string title, std::size_t width, char const* key) {
    return {std::move(title), width, [key](json const& row) { return in_bytes(row[key]); }};
}
column name(std::string title, std::string (*of)(json const&)) {
    return {std::move(title), 0, of, column::rest};
}

void print_table(std::ostream& to, std::vector<column> const& all, json const& rows, bool wraps,
                 char const* nothing = "") {
    auto const print_line = [&](auto&& cell) {
        std::string line;
        for (column const& c : all) {
            std::string const text = cell(c);
            if (!line.empty()) line += "  ";
            if (c.align == column::rest) {
                line += wraps ? wrapped(text, columns(line)) : fit(text, k_width - columns(line));
                continue;
            }
            std::string const shown = fit(text, c.width), gap(c.width - columns(shown), ' ');
            line += c.align == column::right ? gap + shown : shown + gap;
        }
        to << line << '\n';
    };
    print_line([](column const& c) { return c.title; });
    for (std::size_t i = 0; i < rows.size() && i < k_rows; ++i)
        print_line([&](column const& c) { return c.of(rows[i]); });
    if (rows.empty()) to << std::string(all[0].width - columns(nothing), ' ') << nothing << '\n';
    if (rows.size() <= k_rows) return;
    to << "  … and " << plural(rows.size() - k_rows, "row") << " more";
    std::size_t objects = 0, bytes = 0;
    for (std::size_t i = k_rows; i < rows.size() && rows[i].contains("weak_only"); ++i)
        objects += rows[i]["objects"].get<std::size_t>(), bytes += rows[i]["bytes"].get<std::size_t>();
    to << (objects != 0 ? ", " + plural(objects, "object") + ", " + in_bytes(bytes) : "") << ".\n";
}

std::string step_text(json const& s) {
    std::string const member = s["member"];
    return member.empty() ? s["type"].get<std::string>() + '+' + s["offset"].dump()
                          : place(s["type"], s["offset"], member);
}

// What repeats is shown once.
std::string cycle_text(json const& group) {
    json const& cycle = group["cycle"];
    if (cycle.empty()) return {};
    std::string const first = cycle[0]["type"];
    if (!group["is_cycle"]) return first;
    std::vector<std::string> names;
    std::transform(cycle.begin(), cycle.end(), std::back_inserter(names), step_text);
    std::size_t period = 1;
    while (period < names.size() &&
           !std::equal(names.begin() + static_cast<std::ptrdiff_t>(period), names.end(), names.begin()))
        ++period;
    std::size_t const length = group["length"];
    bool const is_shortened = names.size() > 2 * period || length > names.size();
    std::string text;
    for (std::size_t i = 0; i < (is_shortened ? period : names.size()); ++i)
        text += names[i] + " → ";
    if (is_shortened) text += "… (" + with_commas(length) + " in the ring) → ";
    return text + first;
}

}  // namespace

std::string group_text(json const& group) {
    std::size_t const times = group["times"], each = group["objects"].get<std::size_t>() / times;
    std::size_t const more =
        each - (group["is_cycle"] ? std::min(group["length"].get<std::size_t>(), each) : 1);
    return cycle_text(group) + (more != 0 ? ", with " + plural(more, "object") + " that it keeps" : "");
}

namespace {

std::string holder_place(json const& h) {
    std::string const member = h["member"];
    if (h["type"] != "") return place(h["type"], h["offset"], member);
    return h["root"].get<std::string>() + (member.empty() ? "" : "." + member);
}

std::string holder_text(json const& h) {
    std::string const via = h["via"];
    return holder_place(h) + (via.empty()                  ? ""
                              : via.starts_with("buffer ") ? ", in a buffer"
                                                           : ", in " + via);
}

std::string type_text(json const& t) { return t["type"]; }

}  // namespace

std::vector<column> census_columns(report const& r) {
    json const& types = r.all["types"];
    std::vector<column> all{number("objects", 10, "objects"), bytes("bytes", 9, "bytes")};
    if (!r.retained.parts.empty()) all.push_back(bytes("retained", 10, "retained"));
    if (std::any_of(types.begin(), types.end(), [](json const& t) { return t["weak_only"] != 0; }))
        all.push_back({"weak only", 9,
                       [](json const& t) { return t["weak_only"] == 0 ? "" : with_commas(t["weak_only"]); }});
    if (std::any_of(types.begin(), types.end(), [&](json const& t) { return t["pool"] != types[0]["pool"]; }))
        all.push_back({"pool", 10, [](json const& t) { return t["pool"].get<std::string>(); }, column::left});
    all.push_back(name("type", type_text));
    return all;
}

std::vector<column> holder_columns() {
    return {number("references", 10, "references"), name("holder", holder_text)};
}

void print_census(std::ostream& to, report const& r) {
    std::size_t const bytes = r.all["bytes"], unnamed = r.all["unnamed_bytes"];
    to << plural(r.all["objects"], "object") << ", " << in_bytes(bytes) << ", of "
       << plural(r.all["types"].size(), "type");
    if (bytes != 0) to << "; " << 100 - (unnamed * 100 + bytes - 1) / bytes << "% of the bytes have a type";
    print_table(to << ".\n\n", census_columns(r), r.all["types"], false);
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
                {number("times", 10, "times"), bytes("bytes", 9, "bytes"),
                 name("cycle, or what was lost", group_text)},
                lost["groups"], true);
}

void print_holders(std::ostream& to, report const& r) {
    print_table(to, holder_columns(), r.all["holders"], true, "none");
}

void print_notes(std::ostream& to, report const& r) {
    for (json const& note : r.all["notes"])
        to << "Note: " << wrapped(note, 6) << '\n';
}

void print_summary(std::ostream& to, report const& r) {
    to << "poolheap: " << fit(r.all["program"].get<std::string>(), k_width - 10) << "\n\n";
    print_census(to, r);
    to << '\n';
    if (r.all.contains("leaks")) print_leaks(to, r);
    if (!r.all["notes"].empty()) print_notes(to << '\n', r);
}

// ---- what grew

json find_growth(report const& before, report const& after) {
    // Objects of the program's own types come before buffers, since a buffer grows because of who holds it.
    auto const growth = [&](json const& old, json const& now, char const* what, char const* counted,
                            auto&& name_of, auto&& is_buffer, auto&& more_of_key) {
        struct row {
            std::string name;
            bool is_buffer;
            std::int64_t count = 0, bytes = 0;
        };
        std::map<std::string, row> all;  // by what makes a row the same in both
        for (json const* const rows : {&old, &now})
            for (json const& r : *rows) {
                std::string const name = name_of(r);
                row& sum = all.try_emplace(name + more_of_key(r), row{name, is_buffer(r)}).first->second;
                std::int64_t const sign = rows == &now ? 1 : -1;
                sum.count += sign * r[counted].get<std::int64_t>(),
                    sum.bytes += sign * r["bytes"].get<std::int64_t>();
            }
        std::vector<row> changed;
        for (auto const& [key, r] : all)
            if (r.bytes != 0 || r.count != 0) changed.push_back(r);
        std::ranges::stable_sort(changed, {}, [](row const& r) {
            return std::tuple(r.bytes <= 0, r.is_buffer, -r.bytes, -r.count);
        });
        json found = json::array();
        for (row const& r : changed)
            found.push_back({{what, r.name}, {counted, r.count}, {"bytes", r.bytes}});
        return found;
    };
    auto const is_named_buffer = [](std::string const& text) {
        return text.empty() || text.starts_with("buffer ");
    };
    auto const no = [](json const&) { return false; };
    auto const nothing = [](json const&) { return std::string(); };
    json all{{"poolheap_diff", 1}};
    all["types"] = growth(
        before.all["types"], after.all["types"], "type", "objects", type_text,
        [](json const& t) { return t["kind"] == "buffer"; },
        [](json const& t) {
            return '\n' + t["kind"].get<std::string>() + '\n' + t["pool"].get<std::string>();
        });
    all["holders"] = growth(
        before.all["holders"], after.all["holders"], "holder", "references",
        [](json const& h) { return holder_place(h) + " → " + h["of"].get<std::string>(); },
        [&](json const& h) { return is_named_buffer(h["of"]) || holder_place(h).starts_with("buffer "); },
        nothing);
    auto const groups = [](report const& r) {
        return r.all.contains("leaks") ? r.all["leaks"]["groups"] : json::array();
    };
    all["leaks"] = growth(groups(before), groups(after), "group", "times", cycle_text, no,
                          [](json const& g) { return g["length"].dump(); });
    return all;
}

void print_diff(std::ostream& to, report const& before, report const& after) {
    auto const sum = [](report const& r) {
        return in_bytes(r.all["bytes"]) + " in " + plural(r.all["objects"], "object");
    };
    to << "From " << sum(before) << " to " << sum(after) << ".\n";
    json const grown = find_growth(before, after);
    auto const table = [&](char const* part, std::string const& counted, char const* what,
                           std::string const& title) {
        auto const change = [](std::string key, std::string (*as)(std::size_t)) {
            return [key, as](json const& row) {
                std::int64_t const n = row[key];
                return (n < 0 ? "-" : "+") + as(static_cast<std::size_t>(std::abs(n)));
            };
        };
        print_table(
            to << '\n',
            {{counted, 12, change(counted, with_commas)},
             {"bytes", 11, change("bytes", in_bytes)},
             {title, 0, [what](json const& row) { return row[what].get<std::string>(); }, column::rest}},
            grown[part], false, "no change");
    };
    table("types", "objects", "type", "type");
    table("holders", "references", "holder", "holder → type");
    if (before.all.contains("leaks") && after.all.contains("leaks")) table("leaks", "times", "group", "lost");
}

}  // namespace poolheap
