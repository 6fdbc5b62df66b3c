// SPDX-License-Identifier: BSL-1.0
// One page, complete in itself: it works without a network and without scripts, in light and dark, from 400 pixels on. It looks like the
// report of the benchmark. And the collapsed stacks that speedscope and flame graphs read.
#include "report.hpp"
#include "text.hpp"
#include "treemap.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>

namespace poolheap {

namespace {

constexpr char k_style[] = R"(
:root { --text: #1f2328; --soft: #57606a; --back: #ffffff; --panel: #f6f8fa; --line: #d0d7de; --link: #0757b8;
  --accent: #b93e06; --good: #116329; --bad: #a40e26; --lightness: 86%; --strength: 55%; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --soft: #a0a9b3; --back: #0d1117; --panel: #161b22; --line: #30363d; --link: #6cb0ff;
    --accent: #ff8f52; --good: #56d364; --bad: #ff8078; --lightness: 24%; --strength: 40%; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--text); background: var(--back); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
header, main { max-width: 84rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: .75rem; border-bottom: 1px solid var(--line); }
.brand { font-weight: 700; margin: 0 0 .5rem; }
.brand span { font-weight: 400; color: var(--soft); }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 1.2rem 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2rem 0 .5rem; padding-top: .5rem; border-top: 1px solid var(--line); }
p, li { overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: .9rem; }
.answers { list-style: none; margin: 0; padding: 0; display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 14.5rem), 1fr)); }
.answers > li { background: var(--panel); border: 1px solid var(--line); border-top: 4px solid var(--soft); padding: .6rem .8rem; }
.answers > li.good { border-top-color: var(--good); }
.answers > li.bad { border-top-color: var(--bad); }
.answers h3 { font-size: .9rem; font-weight: 400; margin: 0; color: var(--soft); }
.answers p { margin: .25rem 0 0; font-size: .9rem; }
.answers .figure { font-size: 1.15rem; font-weight: 700; line-height: 1.25; }
.map { position: relative; height: max(24rem, 38vw); max-height: 44rem; background: var(--panel); border: 1px solid var(--line); }
.tile { position: absolute; overflow: hidden; border: 1px solid var(--back); container-type: size; font-size: .8rem; line-height: 1.2rem;
  background: hsl(var(--hue) var(--strength) var(--lightness)); }
.tile.root { background: var(--panel); border-color: var(--line); }
.tile > b { display: block; padding: 0 .25rem; font-weight: 500; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.tile.root > b { font-weight: 700; }
.tile > div { position: absolute; inset: 1.25rem 2px 2px; }
@container (max-width: 2.2rem) or (max-height: 1.1rem) { .tile > b, b.label { visibility: hidden; } }
.rings { list-style: none; margin: 0; padding: 0; display: grid; gap: .75rem; }
.rings > li { display: flex; gap: .9rem; align-items: center; background: var(--panel); border: 1px solid var(--line); padding: .6rem .8rem; }
.rings svg { flex: none; width: 4.5rem; height: 4.5rem; }
.rings svg circle.way { fill: none; stroke: var(--bad); stroke-width: 2; }
.rings svg circle.object { fill: var(--bad); stroke: var(--panel); stroke-width: 2; }
.rings svg text { fill: var(--text); font: 700 15px system-ui, sans-serif; text-anchor: middle; }
.ring { display: flex; flex-wrap: wrap; gap: .3rem; margin: .3rem 0 0; padding: 0; list-style: none; align-items: center; }
.ring b { background: var(--back); border: 1px solid var(--soft); border-radius: 1rem; padding: .05rem .6rem; font-weight: 500; overflow-wrap: anywhere; }
.ring i { color: var(--soft); font-style: normal; font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; margin: .5rem 0; width: 100%; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border-bottom-width: 2px; }
tbody th { font-weight: 500; overflow-wrap: anywhere; min-width: 9rem; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media (max-width: 40rem) { h1 { font-size: 1.3rem; } th, td { padding: .2rem .3rem; } .wide { display: none; } }
)";

std::string escaped(std::string_view text) {
    std::string out;
    for (char const c : text) {
        switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        default:
            out += c;
        }
    }
    return out;
}

std::string percent(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f%%", value);
    return text;
}

class map_writer {
public:
    map_writer(std::ostream& to, type_tree const& tree)
        : m_to(to), m_tree(tree), m_children(tree.parts.size()) {
        for (std::size_t i = 1; i < tree.parts.size(); ++i)
            m_children[tree.parts[i].parent].push_back(i);
        for (auto& each : m_children)
            std::sort(each.begin(), each.end(), [&](std::size_t a, std::size_t b) {
                return tree.parts[a].retained > tree.parts[b].retained;
            });
    }

    // `width` to `height` is the shape of the area, which is what squares depend on.
    void write(std::size_t part, double width, double height, int depth) {
        std::vector<std::size_t> shown;
        std::vector<double> sizes;
        std::size_t rest = m_tree.parts[part].retained;
        double const all = static_cast<double>(m_tree.parts[part].retained);
        for (std::size_t const child : m_children[part]) {
            double const share = static_cast<double>(m_tree.parts[child].retained) / all;
            if (share * width * height < k_smallest || shown.size() == k_most) break;
            shown.push_back(child);
            sizes.push_back(share);
            rest -= m_tree.parts[child].retained;
        }
        // What is the part's own, and parts too small to see.
        std::size_t const own = shown.size();
        double const share = static_cast<double>(rest) / all;
        if (share > 0.001)
            sizes.insert(std::upper_bound(sizes.begin(), sizes.end(), share, std::greater<>()), share);
        if (shown.empty()) return;
        std::vector<rectangle> const where = squarified(sizes, {0, 0, width, height});
        std::size_t next = 0;
        bool is_rest_done = sizes.size() == own;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            rectangle const& r = where[i];
            std::string const style =
                "left:" + percent(r.left / width * 100) + ";top:" + percent(r.top / height * 100) +
                ";width:" + percent(r.width / width * 100) + ";height:" + percent(r.height / height * 100);
            if (!is_rest_done && sizes[i] == share) {
                is_rest_done = true;
                continue;  // the background shows it
            }
            type_tree::part const& p = m_tree.parts[shown[next]];
            m_to << "<div class=\"tile" << (depth == 0 ? " root" : "") << "\" style=\"" << style
                 << ";--hue:" << hue(p.name) << "\" title=\"" << escaped(p.name) << ": "
                 << in_bytes(p.retained) << ", " << with_commas(p.objects) << " objects\"><b class=\"label\">"
                 << escaped(p.name) << " · " << in_bytes(p.retained) << "</b>";
            if (depth < k_depth && r.width > 60 && r.height > 60 && !m_children[shown[next]].empty()) {
                m_to << "<div>";
                write(shown[next], r.width - 4, r.height - 22, depth + 1);
                m_to << "</div>";
            }
            m_to << "</div>\n";
            ++next;
        }
    }

private:
    static constexpr double k_smallest = 60;  // square pixels, of the page at its full width
    static constexpr std::size_t k_most = 40;
    static constexpr int k_depth = 4;

    static unsigned hue(std::string const& name) {
        unsigned h = 17;
        for (char const c : name)
            h = h * 31 + static_cast<unsigned char>(c);
        return h % 24 * 15;
    }

    std::ostream& m_to;
    type_tree const& m_tree;
    std::vector<std::vector<std::size_t>> m_children;
};

void write_ring(std::ostream& to, report::leak_row const& g) {
    std::size_t const dots = std::min<std::size_t>(g.length, 16);
    to << "<li><svg viewBox=\"0 0 72 72\" role=\"img\" aria-label=\""
       << (g.is_cycle ? "a ring of " : "lost: ") << g.length << "\">";
    if (g.is_cycle) to << "<circle class=\"way\" cx=\"36\" cy=\"36\" r=\"28\"/>";
    for (std::size_t i = 0; i < dots; ++i) {
        double const angle = 2 * 3.14159265 * static_cast<double>(i) / static_cast<double>(dots) - 1.5708;
        double const radius = g.is_cycle ? 28 : 0;
        to << "<circle class=\"object\" cx=\"" << std::lround(36 + radius * std::cos(angle)) << "\" cy=\""
           << std::lround(36 + radius * std::sin(angle)) << "\" r=\"6\"/>";
    }
    if (g.is_cycle) to << "<text x=\"36\" y=\"41\">" << g.length << "</text>";
    to << "</svg><div><div><strong>" << with_commas(g.times) << (g.times == 1 ? " time" : " times")
       << "</strong>, " << with_commas(g.objects) << (g.objects == 1 ? " object, " : " objects, ")
       << in_bytes(g.bytes) << "</div><ol class=\"ring\">";
    bool const is_of_one = std::all_of(g.cycle.begin(), g.cycle.end(), [&](report::step const& s) {
        return s.type == g.cycle[0].type && s.offset == g.cycle[0].offset;
    });
    std::size_t const shown = is_of_one ? 1 : 12;
    for (std::size_t i = 0; i < g.cycle.size() && i < shown; ++i) {
        report::step const& s = g.cycle[i];
        to << "<li><b>" << escaped(s.type) << "</b></li>";
        std::string const member = s.member.empty() ? "+" + std::to_string(s.offset) : s.member;
        if (g.is_cycle) to << "<li><i>" << escaped(member) << " →</i></li>";
    }
    if (g.is_cycle && g.length > shown) to << "<li><i>… " << g.length - shown << " more →</i></li>";
    to << (g.is_cycle ? "<li><i>back to</i></li><li><b>" + escaped(g.cycle.front().type) + "</b></li>"
                      : "<li><i>nothing refers to it</i></li>")
       << "</ol></div></li>\n";
}

void write_card(std::ostream& to, char const* kind, char const* what, std::string const& figure,
                std::string const& said) {
    to << "<li class=\"" << kind << "\"><h3>" << what << "</h3><p class=\"figure\">" << escaped(figure)
       << "</p><p>" << escaped(said) << "</p></li>\n";
}

}  // namespace

void write_html(std::ostream& to, report const& r) {
    to << "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta "
          "name=\"color-scheme\" content=\"light dark\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; img-src data:\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n<title>poolheap: "
       << escaped(r.program) << "</title>\n<style>" << k_style
       << "</style>\n</head>\n<body>\n<header><p class=\"brand\">pooled <span>heap "
          "report</span></p></header>\n<main>\n<h1>What the heap of "
       << escaped(r.program) << " holds</h1>\n<ul class=\"answers\">\n";
    write_card(to, "", "The heap", in_bytes(r.bytes),
               with_commas(r.objects) + " objects of " + with_commas(r.types.size()) + " types");
    if (!r.types.empty())
        write_card(to, "", "Most bytes", r.types[0].type,
                   in_bytes(r.types[0].bytes) + " in " + with_commas(r.types[0].objects) + " objects");
    if (r.leaks->objects == 0)
        write_card(to, "good", "Lost", "Nothing", "Every object can be reached.");
    else
        write_card(to, "bad", "Lost", in_bytes(r.leaks->bytes),
                   with_commas(r.leaks->objects) + " objects that nothing reaches");
    write_card(to, "", "Named",
               std::to_string(r.bytes == 0 ? 100 : 100 - r.unnamed_bytes * 100 / r.bytes) + "%",
               "of the bytes have a type; of the rest, the holder is shown");
    to << "</ul>\n";
    if (!r.retained.parts.empty() && r.retained.parts[0].retained != 0) {
        to << "<h2>Who keeps it</h2>\n<p class=\"note\">Bytes that would be freed with each holder: from "
              "globals, threads and other roots "
              "inwards to types. An area is in proportion to its bytes; point at one for its "
              "figures.</p>\n<div class=\"map\">\n";
        map_writer(to, r.retained).write(0, 1300, 500, 0);
        to << "</div>\n";
    }
    if (auto const& groups = r.leaks->groups; !groups.empty()) {
        to << "<h2>What is lost</h2>\n<ul class=\"rings\">\n";
        for (std::size_t i = 0; i < groups.size() && i < 20; ++i)
            write_ring(to, groups[i]);
        to << "</ul>\n";
        if (groups.size() > 20)
            to << "<p class=\"note\">… and " << groups.size() - 20 << " groups more.</p>\n";
    }
    constexpr std::size_t k_rows = 50;
    to << "<h2>Types</h2>\n<div class=\"scroll\"><table><thead><tr><th>type</th><th "
          "class=\"wide\">kind</th><th class=\"wide\">pool</th>"
          "<th class=\"n\">objects</th><th class=\"n\">bytes</th><th "
          "class=\"n\">retained</th></tr></thead><tbody>\n";
    for (std::size_t i = 0; i < r.types.size() && i < k_rows; ++i) {
        report::type_row const& t = r.types[i];
        to << "<tr><th scope=\"row\">" << escaped(t.type) << "</th><td class=\"wide\">" << t.kind
           << "</td><td class=\"wide\">" << escaped(t.pool) << "</td><td class=\"n\">"
           << with_commas(t.objects) << "</td><td class=\"n\">" << in_bytes(t.bytes)
           << "</td><td class=\"n\">" << in_bytes(t.retained) << "</td></tr>\n";
    }
    to << "</tbody></table></div>\n";
    if (r.types.size() > k_rows)
        to << "<p class=\"note\">… and " << r.types.size() - k_rows << " types more.</p>\n";
    to << "<h2>Holders</h2>\n<div class=\"scroll\"><table><thead><tr><th>holder</th><th>holds</th><th "
          "class=\"n\">references</th>"
          "</tr></thead><tbody>\n";
    for (std::size_t i = 0; i < r.holders.size() && i < k_rows; ++i) {
        report::holder_row const& h = r.holders[i];
        to << "<tr><th scope=\"row\">"
           << escaped(h.type.empty() ? h.root + (h.member.empty() ? "" : "." + h.member)
                                     : place(h.type, h.offset, h.member))
           << "</th><th>" << escaped(h.of) << "</th><td class=\"n\">" << with_commas(h.references)
           << "</td></tr>\n";
    }
    to << "</tbody></table></div>\n";
    if (r.holders.size() > k_rows)
        to << "<p class=\"note\">… and " << r.holders.size() - k_rows << " holders more.</p>\n";
    for (std::string const& note : r.notes)
        to << "<p class=\"note\">" << escaped(note) << "</p>\n";
    to << "</main>\n</body>\n</html>\n";
}

void write_folded(std::ostream& to, report const& r) {
    std::vector<type_tree::part> const& parts = r.retained.parts;
    auto const frame = [](std::string name) {
        std::replace(name.begin(), name.end(), ';', ':');
        return name;
    };
    std::vector<std::string> stacks(parts.size());
    for (std::size_t i = 1; i < parts.size(); ++i) {
        std::size_t const parent = parts[i].parent;
        stacks[i] = (parent == 0 ? "" : stacks[parent] + ';') + frame(parts[i].name);
        if (parts[i].bytes != 0) to << stacks[i] << ' ' << parts[i].bytes << '\n';
    }
}

}  // namespace poolheap
