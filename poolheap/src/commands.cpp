// SPDX-License-Identifier: BSL-1.0
#include "commands.hpp"

#include "report.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>

namespace poolheap {

namespace {

// Calls write(std::ostream&) for a file that can be written to its end.
void write_file(std::string const& path, auto&& write) {
    std::ofstream file(path);
    if (file) write(file);
    file.close();
    if (!file) throw error(path + " cannot be written: " + std::strerror(errno) + ".");
}

// As JSON, or by print(std::ostream&): to the file or to standard output.
void answer(output_options const& out, json const& all, auto&& print, std::ostream& standard = std::cout) {
    auto const write = [&](std::ostream& to) {
        if (out.json)
            write_json(to, all);
        else
            print(to);
    };
    if (!out.output.empty()) return write_file(out.output, write);
    write(standard);
    if (!standard.flush()) throw error("Standard output cannot be written.");
}

// All that a command needs of one image.
struct session {
    session(std::unique_ptr<image> from, std::string const& source)
        : frozen(std::move(from)),
          blocks(read_heap(*frozen)),
          names(names_of(*frozen, blocks)),
          references(*frozen, blocks, *names),
          program(source) {
        // The first file that is mapped is the program.
        auto const file =
            std::ranges::find_if(frozen->mappings(), [](auto const& m) { return m.path.starts_with('/'); });
        if (file != frozen->mappings().end())
            program = file->path.substr(file->path.rfind('/') + 1) + " (" + source + ')';
    }

    std::unique_ptr<image> frozen;
    heap blocks;
    std::unique_ptr<naming> names;
    graph references;
    std::string program;
};

report make(session& of, output_options const& out, report_options options) {
    options.retained |= !out.html.empty() || !out.folded.empty();
    if (!out.html.empty() || out.json) options.leaks = options.holders = true;
    report r = make_report(of.references, options);
    r.all["program"] = of.program;
    return r;
}

void write_pages(output_options const& out, report const& r) {
    if (!out.html.empty()) write_file(out.html, [&](std::ostream& to) { write_html(to, r); });
    if (!out.folded.empty()) write_file(out.folded, [&](std::ostream& to) { write_folded(to, r); });
}

std::optional<address> parsed(std::string const& text) {
    if (!text.starts_with("0x") && !text.starts_with("0X")) return {};
    address value = 0;
    auto const [end, failed] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
    if (failed != std::errc() || end != text.data() + text.size()) return {};
    return value;
}

block_index block_at(session const& in, std::string const& text) {
    std::optional<address> const at = parsed(text);
    if (!at) throw error('"' + text + "\" is no address; write it in hexadecimal, as in 0x7f1234567890.");
    block_index const found = in.blocks.find(*at).index;
    if (found == k_no_block) throw error("No object in use contains the address " + text + ".");
    return found;
}

std::string hexadecimal(address a) {
    char text[20];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(a));
    return text;
}

struct target {
    std::vector<bool> marked;
    std::size_t objects = 0, bytes = 0;
    std::string what;
};

target find_targets(session const& in, std::string const& of) {
    graph const& g = in.references;
    target t;
    t.marked.assign(g.size(), false);
    auto const mark = [&](block_index b) {
        t.marked[b] = true;
        ++t.objects;
        t.bytes += g[b].bytes;
    };
    if (of.starts_with('0')) {
        block_index const b = block_at(in, of);
        mark(b);
        t.what = g.type_of(b).name + " at " + hexadecimal(g[b].begin);
        return t;
    }
    // The name with or without its namespaces, else each name that contains it: outside of template arguments, else anywhere.
    std::vector<bool> wanted(g.names().types(), false);
    bool is_found = false;
    for (int attempt = 0; attempt < 3 && !is_found; ++attempt)
        for (type_id_t id = 0; id < wanted.size(); ++id) {
            std::string const& name = g.names()[id].name;
            bool const contains =
                name.substr(0, attempt == 1 ? name.find('<') : name.size()).find(of) != std::string::npos &&
                !name.starts_with("buffer ");
            bool const is_it = name == of || name.ends_with("::" + of);
            if (g.names()[id].kind != kind::variable && (attempt == 0 ? is_it : contains))
                wanted[id] = is_found = true;
        }
    for (block_index b = 0; b < g.size(); ++b)
        if (g.is_block(b) && wanted[g.type_id(b)]) mark(b);
    if (t.objects == 0)
        throw error("No object of a type named " + of + " is in use; census lists the types.");
    std::size_t types = 0;
    for (block_index b = 0; b < g.size(); ++b) {
        if (!t.marked[b] || !wanted[g.type_id(b)]) continue;
        wanted[g.type_id(b)] = false;
        if (++types <= 3) t.what += (types == 1 ? "" : ", ") + g.type_of(b).name;
    }
    if (types > 3) t.what += " and " + std::to_string(types - 3) + " types more";
    return t;
}

// "1,998 of 2,048 owners found": the rest is in registers that were saved elsewhere, or packed.
std::string owners_found(graph const& g, target const& of) {
    std::size_t owners = 0, weak = 0, found = 0;
    reference_reader reader = g.reader();
    std::vector<bool> counted(of.marked.size(), false);
    reader.first_words(naming::k_words, [&](block_index b, std::span<std::uint64_t const> words) {
        if (!of.marked[b]) return;
        auto const known = g.names().counts_of(g.type_id(b), words);
        if (!known) return;
        counted[b] = true;
        owners += known->owners;
        weak += known->weak;
    });
    if (owners + weak == 0) return {};
    reader.in_blocks([&](block_index, std::uint64_t, block_index target, address word) {
        if (counted[target] && word == g[target].begin) ++found;
    });
    for (root_reference const& r : g.root_references())
        if (counted[r.target]) ++found;
    std::string const text =
        plural(owners, "owner") + (weak != 0 ? " and " + plural(weak, "weak pointer") : "");
    if (found >= owners + weak) return text + ", all found.\n";
    return text + "; " + with_commas(owners + weak - found) +
           " of them not found: in registers, or packed.\n";
}

report load(std::string const& report_or_image) {
    // A core file begins with ELF's magic, a report with a brace.
    std::ifstream file(report_or_image);
    bool const is_number = report_or_image.find_first_not_of("0123456789") == std::string::npos;
    if (file && !is_number && (file >> std::ws).peek() == '{') return read_json(report_or_image);
    session s(open_image(report_or_image), report_or_image);
    return make(s, {}, {});
}

}  // namespace

void census(std::string const& source, output_options const& out) {
    session s(open_image(source), source);
    report const r = make(s, out, {.leaks = false, .holders = false});
    answer(out, r.all, [&](std::ostream& to) { print_census(to, r), print_notes(to, r); });
    write_pages(out, r);
}

void leaks_command(std::string const& source, output_options const& out) {
    session s(open_image(source), source);
    report const r = make(s, out, {.holders = false});
    answer(out, r.all, [&](std::ostream& to) { print_leaks(to, r), print_notes(to, r); });
    write_pages(out, r);
}

void write_summary(std::unique_ptr<image> of, std::string const& source, output_options const& out) {
    session s(std::move(of), source);
    s.program = source.substr(source.rfind('/') + 1);
    report const r = make(s, out, {.holders = false});
    // Standard output is the program's.
    answer(out, r.all, [&](std::ostream& to) { print_summary(to, r); }, std::cerr);
    write_pages(out, r);
}

void holders_command(std::string const& source, std::string const& of, output_options const& out) {
    session s(open_image(source), source);
    target const t = find_targets(s, of);
    report r = make(s, {}, {.leaks = false, .holders = false});
    r.all["holders"] = find_holders(s.references, t.marked);
    for (json& row : r.all["holders"])
        row["of"] = t.what;
    answer(out, r.all, [&](std::ostream& to) {
        to << fit(t.what, 80) << ": " << plural(t.objects, "object") << ", " << in_bytes(t.bytes) << ".\n"
           << owners_found(s.references, t) << '\n';
        print_holders(to, r);
        print_notes(to, r);
    });
}

void path_command(std::string const& source, std::string const& at, output_options const& out) {
    session s(open_image(source), source);
    graph& g = s.references;
    block_index const b = block_at(s, at);
    auto const chain = g.path_to(b);
    json steps = json::array();
    if (chain)
        steps.push_back({{"root", g.roots()[chain->begin.from].name},
                         {"offset", chain->begin.offset},
                         {"member", g(g.holder_of(chain->begin)).member}});
    for (std::size_t i = 0; chain && i < chain->blocks.size(); ++i) {
        block_index const step = chain->blocks[i];
        type_id_t const id = g.type_id(step);
        json& row = steps.emplace_back(
            json{{"type", g.names()[id].name}, {"address", g[step].begin}, {"bytes", g[step].bytes}});
        if (i + 1 == chain->blocks.size()) break;
        type const& t = g.names()[id];
        std::uint64_t const offset = t.member_offset(g.offset_of(step, chain->blocks[i + 1]));
        row["offset"] = t.shown_offset(offset);
        row["member"] = t.is_nameless() ? "" : g.names().at(id, offset).name;
    }
    answer(out, {{"poolheap", 1}, {"path", steps}}, [&](std::ostream& to) {
        if (!chain)
            to << "Nothing reaches " << g.type_of(b).name << " at " << hexadecimal(g[b].begin)
               << ": it is lost.\n";
        for (json const& step : steps) {
            std::string const member = step.value("member", "");
            if (step.contains("root")) {
                std::string const root = step["root"];
                to << fit(root + (member.empty() ? "" : "." + member), 80) << '\n';
                continue;
            }
            std::string const type = step["type"];
            std::string const line =
                fit(place(type.empty() ? "buffer" : type, step.value("offset", 0), member), 44);
            to << "  → " << line << std::string(46 - columns(line), ' ') << hexadecimal(step["address"])
               << ", " << in_bytes(step["bytes"]) << '\n';
        }
    });
}

void diff_command(std::string const& before, std::string const& after, output_options const& out) {
    report const first = load(before), second = load(after);
    answer(out, find_growth(first, second), [&](std::ostream& to) { print_diff(to, first, second); });
}

}  // namespace poolheap
