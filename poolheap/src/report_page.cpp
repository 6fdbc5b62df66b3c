// SPDX-License-Identifier: BSL-1.0
// A report as one page, complete in itself: it works without a network and without scripts, in light and dark, from 400 pixels on, and looks
// like the report of the benchmark. And as collapsed stacks.
#include "report.hpp"

#include <algorithm>
#include <ostream>
#include <sstream>

namespace poolheap {

namespace {

constexpr char k_style[] = R"(
:root { --text: #1f2328; --soft: #57606a; --back: #ffffff; --panel: #f6f8fa; --line: #d0d7de;
  --good: #116329; --bad: #a40e26; --lightness: 86%; --strength: 55%; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --soft: #a0a9b3; --back: #0d1117; --panel: #161b22; --line: #30363d;
    --good: #56d364; --bad: #ff8078; --lightness: 24%; --strength: 40%; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--text); background: var(--back); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
header, main { max-width: 84rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: .75rem; border-bottom: 1px solid var(--line); }
.brand { font-weight: 700; margin: 0 0 .5rem; }
.brand span { font-weight: 400; color: var(--soft); }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 1.2rem 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2rem 0 .5rem; padding-top: .5rem; border-top: 1px solid var(--line); }
h3 { font-size: .9rem; font-weight: 400; margin: 0; color: var(--soft); }
p, li { overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: .9rem; }
ul { list-style: none; margin: 0; padding: 0; display: grid; gap: .75rem; }
li { background: var(--panel); border: 1px solid var(--line); padding: .6rem .8rem; }
.answers { grid-template-columns: repeat(auto-fit, minmax(min(100%, 14.5rem), 1fr)); }
.answers li { border-top: 4px solid var(--soft); }
.answers .good { border-top-color: var(--good); }
.answers .bad { border-top-color: var(--bad); }
.answers p { margin: .25rem 0 0; font-size: .9rem; }
.answers .figure { font-size: 1.15rem; font-weight: 700; line-height: 1.25; }
.map { height: max(24rem, 38vw); max-height: 44rem; background: var(--panel); border: 1px solid var(--line); }
.map, .half, .tile { display: flex; flex-direction: column; min-width: 0; min-height: 0; }
.beside { flex-direction: row; }
.tile { overflow: hidden; border: 1px solid var(--back); container-type: size; font-size: .8rem; line-height: 1.2rem;
  background: hsl(var(--hue) var(--strength) var(--lightness)); }
.tile.root { background: var(--panel); border-color: var(--line); }
.tile > b { display: block; padding: 0 .25rem; font-weight: 500; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.tile.root > b { font-weight: 700; }
.tile > .half, .tile > .tile { margin: 0 2px 2px; }
@container (max-width: 2.2rem) or (max-height: 1.1rem) { .tile > b { visibility: hidden; } }
.rings li { display: flex; gap: .9rem; align-items: center; }
svg { flex: none; width: 4.5rem; height: 4.5rem; }
circle { fill: none; stroke: var(--bad); stroke-width: 2; }
circle.objects { stroke-width: 12; stroke-linecap: round; }
svg text { fill: var(--text); font: 700 15px system-ui, sans-serif; text-anchor: middle; }
pre { overflow-x: auto; font-size: .88rem; }
@media (max-width: 40rem) { h1 { font-size: 1.3rem; } }
)";

std::string escaped(std::string_view text) {
    std::string out;
    for (char const c : text)
        out += c == '&'   ? "&amp;"
               : c == '<' ? "&lt;"
               : c == '>' ? "&gt;"
               : c == '"' ? "&quot;"
                          : std::string(1, c);
    return out;
}

// Areas in proportion to bytes: each list of parts is halved until one is left, beside and below each other in turn.
class map_writer {
public:
    map_writer(std::ostream& to, type_tree const& tree)
        : m_to(to), m_tree(tree), m_children(tree.parts.size()) {
        for (std::uint32_t i = 1; i < tree.parts.size(); ++i)
            m_children[tree.parts[i].parent].push_back(i);
        for (auto& each : m_children)
            std::ranges::sort(each, std::greater(), [&](std::uint32_t i) { return tree.parts[i].retained; });
    }

    void write_inside(std::uint32_t part, bool is_beside, int depth) {
        std::vector<std::uint32_t> shown = m_children[part];
        double rest = bytes(part);
        std::erase_if(shown, [&](std::uint32_t i) { return bytes(i) < bytes(0) * k_smallest; });
        if (shown.size() > k_most) shown.resize(k_most);
        // What is the part's own, and parts too small to see: the background shows it.
        for (std::uint32_t const i : shown)
            rest -= bytes(i);
        if (!shown.empty()) write_row(shown, rest, is_beside, depth);
    }

private:
    static constexpr double k_smallest = 1e-4, k_divided = 5e-3;  // of all
    static constexpr std::size_t k_most = 40;
    static constexpr int k_depth = 4;

    double bytes(std::uint32_t part) const { return static_cast<double>(m_tree.parts[part].retained); }

    void write_row(std::span<std::uint32_t const> parts, double rest, bool is_beside, int depth) {
        if (parts.size() == 1 && rest <= 0) return write_tile(parts[0], is_beside, depth);
        double sum = rest, first = 0;
        for (std::uint32_t const i : parts)
            sum += bytes(i);
        std::size_t count = 0;
        while (count == 0 || (count + 1 < parts.size() && first + bytes(parts[count]) <= sum / 2))
            first += bytes(parts[count++]);
        m_to << "<div class=\"half" << (is_beside ? " beside" : "") << "\" style=\"flex:" << sum << "\">";
        write_row(parts.first(count), 0, !is_beside, depth);
        if (count < parts.size())
            write_row(parts.subspan(count), rest, !is_beside, depth);
        else
            m_to << "<div style=\"flex:" << rest << "\"></div>";
        m_to << "</div>\n";
    }

    void write_tile(std::uint32_t part, bool is_beside, int depth) {
        type_tree::part const& p = m_tree.parts[part];
        std::string const title = escaped(p.name) + " · " + in_bytes(p.retained);
        m_to << "<div class=\"tile" << (depth == 0 ? " root" : "") << "\" style=\"flex:" << bytes(part)
             << ";--hue:" << std::hash<std::string>()(p.name) % 24 * 15 << "\" title=\"" << title << ", "
             << plural(p.objects, "object") << "\"><b>" << title << "</b>";
        if (depth < k_depth && bytes(part) > bytes(0) * k_divided) write_inside(part, is_beside, depth + 1);
        m_to << "</div>";
    }

    std::ostream& m_to;
    type_tree const& m_tree;
    std::vector<std::vector<std::uint32_t>> m_children;
};

void write_group(std::ostream& to, json const& g) {
    std::size_t const length = g["length"], times = g["times"];
    bool const is_cycle = g["is_cycle"];
    to << R"(<li><svg viewBox="0 0 72 72" role="img" aria-label=")" << (is_cycle ? "a ring of " : "lost: ")
       << length << "\">";
    if (is_cycle) to << R"(<circle cx="36" cy="36" r="28"/><text x="36" y="41">)" << length << "</text>";
    // A dot for each object, at most sixteen.
    to << R"(<circle class="objects" cx="36" cy="36" stroke-dasharray="0 1" r=")" << (is_cycle ? "28" : "0.1")
       << "\" pathLength=\"" << std::min<std::size_t>(length, 16) << "\"/></svg><p><strong>"
       << plural(times, "time") << "</strong>, " << plural(g["objects"], "object") << ", "
       << in_bytes(g["bytes"]) << "<br>" << escaped(group_text(g))
       << (is_cycle ? "" : ": nothing refers to it") << "</p></li>\n";
}

}  // namespace

void write_html(std::ostream& to, report const& r) {
    json const &all = r.all, &types = all["types"], &lost = all["leaks"];
    std::string const program = escaped(all["program"].get<std::string>());
    to << R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>poolheap: )"
       << program << "</title>\n<style>" << k_style << R"(</style>
</head>
<body>
<header><p class="brand">pooled <span>heap report</span></p></header>
<main>
<h1>What the heap of )"
       << program << " holds</h1>\n<ul class=\"answers\">\n";
    auto const card = [&](char const* kind, char const* what, std::string const& figure,
                          std::string const& said) {
        to << "<li class=\"" << kind << "\"><h3>" << what << "</h3><p class=\"figure\">" << escaped(figure)
           << "</p><p>" << escaped(said) << "</p></li>\n";
    };
    card("", "The heap", in_bytes(all["bytes"]),
         plural(all["objects"], "object") + " of " + plural(types.size(), "type"));
    if (!types.empty())
        card("", "Most bytes", types[0]["type"],
             in_bytes(types[0]["bytes"]) + " in " + plural(types[0]["objects"], "object"));
    if (lost["objects"] == 0)
        card("good", "Lost", "Nothing", "Every object can be reached.");
    else
        card("bad", "Lost", in_bytes(lost["bytes"]),
             plural(lost["objects"], "object") + " that nothing reaches");
    card("", "Named", std::to_string(typed_percent(all)) + "%",
         "of the bytes have a type; of the rest, the holder is shown");
    to << "</ul>\n";
    if (!r.retained.parts.empty() && r.retained.parts[0].retained != 0) {
        to << "<h2>Who keeps it</h2>\n<p class=\"note\">Bytes that would be freed with each holder: from "
              "globals, threads and other "
              "roots inwards to types. An area is in proportion to its bytes; point at one for its "
              "figures.</p>\n<div class=\"map\">\n";
        map_writer(to, r.retained).write_inside(0, true, 0);
        to << "</div>\n";
    }
    json const& groups = lost["groups"];
    if (!groups.empty()) to << "<h2>What is lost</h2>\n<ul class=\"rings\">\n";
    for (std::size_t i = 0; i < groups.size() && i < k_rows; ++i)
        write_group(to, groups[i]);
    if (!groups.empty()) to << "</ul>\n";
    if (groups.size() > k_rows)
        to << "<p class=\"note\">… and " << plural(groups.size() - k_rows, "group") << " more.</p>\n";
    std::ostringstream census;
    print_census(census, r);
    to << "<h2>Types</h2>\n<pre>" << escaped(census.str()) << "</pre>\n";
    for (json const& note : all["notes"])
        to << "<p class=\"note\">" << escaped(note.get<std::string>()) << "</p>\n";
    to << "</main>\n</body>\n</html>\n";
}

void write_folded(std::ostream& to, report const& r) {
    std::vector<type_tree::part> const& parts = r.retained.parts;
    std::vector<std::uint32_t> stack;  // the innermost frame first
    for (std::uint32_t i = 1; i < parts.size(); ++i) {
        if (parts[i].bytes == 0) continue;
        stack.clear();
        for (std::uint32_t frame = i; frame != 0; frame = parts[frame].parent)
            stack.push_back(frame);
        while (!stack.empty()) {
            std::string frame = parts[stack.back()].name;
            std::ranges::replace(frame, ';', ':');
            stack.pop_back();
            to << frame << (stack.empty() ? ' ' : ';');
        }
        to << parts[i].bytes << '\n';
    }
}

}  // namespace poolheap
