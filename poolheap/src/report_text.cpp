// SPDX-License-Identifier: BSL-1.0
// Reports for a terminal: 80 columns, largest first, twenty rows.
#include "report.hpp"
#include "text.hpp"

#include <algorithm>
#include <ostream>

namespace poolheap {

std::string with_commas(std::size_t n) {
    std::string digits = std::to_string(n);
    for (std::size_t at = digits.size(); at > 3; at -= 3)
        digits.insert(at - 3, 1, ',');
    return digits;
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

namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::size_t columns(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
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

std::string right(std::string_view text, std::size_t width) {
    std::size_t const mine = columns(text);
    return (mine < width ? std::string(width - mine, ' ') : std::string()) + std::string(text);
}

std::string change(std::size_t before, std::size_t after, std::string (*as)(std::size_t)) {
    return (after < before ? "-" : "+") + as(after < before ? before - after : after - before);
}

namespace {

constexpr std::size_t k_rows = 20;
constexpr std::size_t k_width = 80;

std::string plural(std::size_t n, std::string const& one) {
    return with_commas(n) + ' ' + one + (n == 1 ? "" : "s");
}

// What a table does not show.
void print_rest(std::ostream& to, std::size_t rows, std::string const& what) {
    if (rows > k_rows) to << "  … and " << plural(rows - k_rows, "row") << " more" << what << ".\n";
}

std::string step_name(report::step const& s, bool is_cycle) {
    if (!is_cycle) return s.type;
    return s.member.empty() ? s.type + '+' + std::to_string(s.offset) : place(s.type, s.offset, s.member);
}

// What repeats is shown once.
std::string cycle_text(report::leak_row const& g) {
    std::vector<std::string> names;
    for (report::step const& s : g.cycle)
        names.push_back(step_name(s, g.is_cycle));
    if (!g.is_cycle) return names.front();
    std::string const first = g.cycle.front().type;
    std::size_t period = 1;
    while (period < names.size() &&
           !std::equal(names.begin() + static_cast<std::ptrdiff_t>(period), names.end(), names.begin()))
        ++period;
    bool const is_shortened = names.size() > 2 * period || g.length > g.cycle.size();
    std::string text;
    for (std::size_t i = 0; i < (is_shortened ? period : names.size()); ++i)
        text += names[i] + " → ";
    if (is_shortened) text += "… (" + with_commas(g.length) + " in the ring) → ";
    return text + first;
}

// Breaks at blanks; later lines are indented.
void print_wrapped(std::ostream& to, std::string text, std::size_t indent) {
    std::size_t const width = k_width - indent;
    while (columns(text) > width) {
        std::size_t cut = 0, column = 0;
        for (std::size_t i = 0; i < text.size() && column <= width; ++i) {
            if (text[i] == ' ') cut = i;
            if (!continues(text[i])) ++column;
        }
        if (cut == 0) break;
        to << text.substr(0, cut) << '\n' << std::string(indent, ' ');
        text.erase(0, cut + 1);
    }
    to << fit(text, width) << '\n';
}

std::string holder_text(report::holder_row const& h) {
    std::string text = h.type.empty() ? h.root + (h.member.empty() ? "" : "." + h.member)
                                      : place(h.type, h.offset, h.member);
    if (!h.via.empty()) text += h.via.starts_with("buffer ") ? ", in a buffer" : ", in " + h.via;
    return text;
}

}  // namespace

void print_census(std::ostream& to, report const& r) {
    bool const weak =
        std::any_of(r.types.begin(), r.types.end(), [](auto const& t) { return t.weak_only != 0; });
    bool const retained = !r.retained.parts.empty();
    bool const pools = std::any_of(r.types.begin(), r.types.end(),
                                   [&](auto const& t) { return t.pool != r.types.front().pool; });
    to << plural(r.objects, "object") << ", " << in_bytes(r.bytes) << ", of "
       << plural(r.types.size(), "type");
    if (r.bytes != 0)
        to << "; " << 100 - (r.unnamed_bytes * 100 + r.bytes - 1) / r.bytes << "% of the bytes have a type";
    to << ".\n\n   objects      bytes  " << (retained ? "  retained  " : "") << (weak ? "weak only  " : "")
       << (pools ? "pool        " : "") << "type\n";
    for (std::size_t i = 0; i < r.types.size() && i < k_rows; ++i) {
        report::type_row const& t = r.types[i];
        std::string line = right(with_commas(t.objects), 10) + right(in_bytes(t.bytes), 11) + "  ";
        if (retained) line += right(in_bytes(t.retained), 10) + "  ";
        if (weak) line += right(t.weak_only == 0 ? "" : with_commas(t.weak_only), 9) + "  ";
        if (pools) {
            std::string const name = fit(t.pool, 10);
            line += name + std::string(12 - columns(name), ' ');
        }
        to << line << fit(t.type, k_width - columns(line)) << '\n';
    }
    std::size_t objects = 0, bytes = 0;
    for (std::size_t i = k_rows; i < r.types.size(); ++i)
        objects += r.types[i].objects, bytes += r.types[i].bytes;
    print_rest(to, r.types.size(), ", " + plural(objects, "object") + ", " + in_bytes(bytes));
}

void print_leaks(std::ostream& to, report::lost const& lost) {
    if (lost.objects == 0) {
        to << "Nothing is lost: every object can be reached.\n";
        return;
    }
    std::size_t times = 0;
    for (report::leak_row const& g : lost.groups)
        times += g.times;
    to << "Nothing reaches " << plural(lost.objects, "object") << ", " << in_bytes(lost.bytes) << ", in "
       << plural(times, "group") << ".\n\n     times      bytes  cycle, or what was lost\n";
    for (std::size_t i = 0; i < lost.groups.size() && i < k_rows; ++i) {
        report::leak_row const& g = lost.groups[i];
        to << right(with_commas(g.times), 10) << right(in_bytes(g.bytes), 11) << "  ";
        std::string text = cycle_text(g);
        std::size_t const more =
            g.objects / g.times - (g.is_cycle ? std::min(g.length, g.objects / g.times) : 1);
        if (more != 0) text += ", with " + plural(more, "object") + " that it keeps";
        print_wrapped(to, text, 23);
    }
    print_rest(to, lost.groups.size(), "");
}

void print_holders(std::ostream& to, std::vector<report::holder_row> const& rows) {
    to << "references  holder\n";
    for (std::size_t i = 0; i < rows.size() && i < k_rows; ++i) {
        to << right(with_commas(rows[i].references), 10) << "  ";
        print_wrapped(to, holder_text(rows[i]), 12);
    }
    if (rows.empty()) to << "      none\n";
    print_rest(to, rows.size(), "");
}

void print_notes(std::ostream& to, report const& r) {
    for (std::string const& note : r.notes)
        print_wrapped(to << "Note: ", note, 6);
}

void print_summary(std::ostream& to, report const& r) {
    to << "poolheap: " << fit(r.program, k_width - 10) << "\n\n";
    print_census(to, r);
    to << '\n';
    if (r.leaks) print_leaks(to, *r.leaks);
    if (!r.notes.empty()) print_notes(to << '\n', r);
}

}  // namespace poolheap
