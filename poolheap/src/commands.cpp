// SPDX-License-Identifier: BSL-1.0
#include "commands.hpp"

#include "error.hpp"
#include "report.hpp"
#include "session.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>

namespace poolheap {

namespace {

void close(std::ofstream& file, std::string const& path) {
    file.close();
    if (!file) throw error(path + " cannot be written: " + std::strerror(errno) + ".");
}

std::ofstream open(std::string const& path) {
    std::ofstream file(path);
    if (!file) throw error(path + " cannot be written: " + std::strerror(errno) + ".");
    return file;
}

// write(std::ostream&), to the file or to standard output.
void with_output(output_options const& out, auto&& write) {
    if (out.output.empty()) {
        write(std::cout);
        if (!std::cout.flush()) throw error("Standard output cannot be written.");
        return;
    }
    std::ofstream file = open(out.output);
    write(file);
    close(file, out.output);
}

report make(session& of, output_options const& out, report_options options) {
    options.retained |= !out.html.empty() || !out.folded.empty();
    if (!out.html.empty()) options.leaks = options.holders = true;
    report r = make_report(of.references, options);
    r.program = of.program;
    return r;
}

void write_pages(output_options const& out, report const& r) {
    if (!out.html.empty()) {
        std::ofstream page = open(out.html);
        write_html(page, r);
        close(page, out.html);
    }
    if (!out.folded.empty()) {
        std::ofstream stacks = open(out.folded);
        write_folded(stacks, r);
        close(stacks, out.folded);
    }
}

std::optional<address> parsed(std::string const& text) {
    if (!text.starts_with("0x") && !text.starts_with("0X")) return {};
    address value = 0;
    auto const [end, failed] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
    if (failed != std::errc() || end != text.data() + text.size())
        throw error('"' + text + "\" is no address; write it in hexadecimal, as in 0x7f1234567890.");
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
    if (parsed(of)) {
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
            if (attempt == 0 ? is_it : contains) wanted[id] = is_found = true;
        }
    for (block_index b = 0; b < g.size(); ++b)
        if (g.is_block(b) && wanted[g.type_id(b)]) mark(b);
    if (t.objects == 0)
        throw error("No object of a type named " + of + " is in use; census lists the types.");
    std::vector<bool> named(wanted.size(), false);
    std::size_t types = 0;
    for (block_index b = 0; b < g.size(); ++b) {
        if (!t.marked[b] || named[g.type_id(b)]) continue;
        named[g.type_id(b)] = true;
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
    reader.first_words(type_namer::k_words, [&](block_index b, std::span<std::uint64_t const> words) {
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
    std::string text = with_commas(owners) + (owners == 1 ? " owner" : " owners");
    if (weak != 0) text += " and " + with_commas(weak) + (weak == 1 ? " weak pointer" : " weak pointers");
    text += found >= owners + weak
                ? ", all found."
                : "; " + with_commas(owners + weak - found) + " of them not found: in registers, or packed.";
    return text;
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
    report const r = make(s, out, {out.json, out.json, false});
    with_output(out, [&](std::ostream& to) {
        if (out.json) return write_json(to, r);
        print_census(to, r);
        print_notes(to, r);
    });
    write_pages(out, r);
}

void write_summary(std::unique_ptr<image> of, std::string const& source, output_options const& out) {
    session s(std::move(of), source);
    s.program = source.substr(source.rfind('/') + 1);
    report const r = make(s, out, {true, out.json, false});
    auto const write = [&](std::ostream& to) { out.json ? write_json(to, r) : print_summary(to, r); };
    if (out.output.empty())
        write(std::cerr);  // standard output is the program's
    else
        with_output(out, write);
    write_pages(out, r);
}

void leaks_command(std::string const& source, output_options const& out) {
    session s(open_image(source), source);
    report const r = make(s, out, {true, out.json, false});
    with_output(out, [&](std::ostream& to) {
        if (out.json) return write_json(to, r);
        print_leaks(to, *r.leaks);
        print_notes(to, r);
    });
    write_pages(out, r);
}

void holders_command(std::string const& source, std::string const& of, output_options const& out) {
    session s(open_image(source), source);
    target const t = find_targets(s, of);
    report r = make(s, out, {false, false, false});
    r.holders = find_holders(s.references, t.marked);
    for (report::holder_row& row : r.holders)
        row.of = t.what;
    with_output(out, [&](std::ostream& to) {
        if (out.json) return write_json(to, r);
        to << fit(t.what, 80) << ": " << with_commas(t.objects)
           << (t.objects == 1 ? " object, " : " objects, ") << in_bytes(t.bytes) << ".\n";
        if (std::string const found = owners_found(s.references, t); !found.empty()) to << found << '\n';
        print_holders(to << '\n', r.holders);
        print_notes(to, r);
    });
}

void path_command(std::string const& source, std::string const& at, output_options const& out) {
    session s(open_image(source), source);
    graph const& g = s.references;
    block_index const b = block_at(s, at);
    auto const chain = g.path_to(b);
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    std::string text;
    if (!chain) {
        text = "Nothing reaches " + g.type_of(b).name + " at " + hexadecimal(g[b].begin) + ": it is lost.\n";
    } else {
        root const& from = g.roots()[chain->begin.from];
        std::string const member = g.member_name(chain->begin);
        text = fit(from.name + (member.empty() ? "" : "." + member), 80) + '\n';
        steps.push_back({{"root", from.name}, {"offset", chain->begin.offset}, {"member", member}});
        for (std::size_t i = 0; i < chain->blocks.size(); ++i) {
            block_index const step = chain->blocks[i];
            type const& t = g.type_of(step);
            nlohmann::ordered_json row{
                {"type", t.name}, {"address", g[step].begin}, {"bytes", g[step].bytes}};
            std::string line = t.name.empty() ? "buffer" : t.name;
            if (i + 1 < chain->blocks.size()) {
                std::uint64_t const offset =
                    g.member_offset(g.type_id(step), g.offset_of(step, chain->blocks[i + 1]));
                std::string const name = g.member_name(g.type_id(step), offset);
                std::uint64_t const shown = g.shown_offset(g.type_id(step), offset);
                row["offset"] = shown;
                row["member"] = name;
                line = place(line, shown, name);
            }
            text += "  → " + fit(line, 44) + std::string(46 - columns(fit(line, 44)), ' ') +
                    hexadecimal(g[step].begin) + ", " + in_bytes(g[step].bytes) + '\n';
            steps.push_back(std::move(row));
        }
    }
    with_output(out, [&](std::ostream& to) {
        if (out.json)
            to << nlohmann::ordered_json{{"poolheap", 1}, {"path", steps}}.dump(
                      1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
               << '\n';
        else
            to << text;
    });
}

void diff_command(std::string const& before, std::string const& after, output_options const& out) {
    report const first = load(before);
    report const second = load(after);
    with_output(out, [&](std::ostream& to) {
        if (out.json)
            write_diff_json(to, first, second);
        else
            print_diff(to, first, second);
    });
}

}  // namespace poolheap
