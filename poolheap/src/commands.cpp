// SPDX-License-Identifier: BSL-1.0
#include "commands.hpp"

#include "naming.hpp"
#include "report.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>

#include <sys/stat.h>
#include <unistd.h>

namespace poolheap {

namespace {

[[noreturn]] void fail_write(std::string const& path, int reason) {
    throw error(path + " cannot be written: " + std::strerror(reason) + ".");
}

// Calls write(std::ostream&) for a file that can be written to its end. An old one is replaced by a whole one.
void write_file(std::string const& path, auto&& write) {
    namespace fs = std::filesystem;
    fs::path to = fs::absolute(path);
    // What a link of /proc leads to, as /dev/stdout does, somebody has open.
    while (fs::is_symlink(to) && !fs::canonical(to.parent_path()).string().starts_with("/proc/"))
        to = to.parent_path() / fs::read_symlink(to);
    fs::path partial = to.parent_path() / ('.' + to.filename().string() + '.' + std::to_string(::getpid()));
    struct stat old;
    bool const is_old = ::lstat(to.c_str(), &old) == 0;
    std::ofstream file;
    if (!is_old || S_ISREG(old.st_mode)) file.open(partial);
    // In place: a pipe, a device, a file of somebody else or in a folder of theirs.
    if (!file.is_open() || (is_old && (::chown(partial.c_str(), old.st_uid, old.st_gid) != 0 ||
                                       ::chmod(partial.c_str(), old.st_mode & 07777) != 0))) {
        file.close();
        std::remove(partial.c_str());
        file.open(partial = to);
    }
    if (file) write(file);
    file.close();
    if (file && (partial == to || std::rename(partial.c_str(), to.c_str()) == 0)) return;
    int const reason = errno;
    if (partial != to) fs::remove(partial);
    fail_write(path, reason);
}

// As JSON, or by print(std::ostream&): to the file or to standard output.
void answer(output_options const& out, json const& all, auto&& print, std::ostream& standard = std::cout) {
    auto const write = [&](std::ostream& to) { out.json ? write_json(to, all) : print(to); };
    if (!out.output.empty()) return write_file(out.output, write);
    write(standard);
    if (!standard.flush()) throw error("Standard output cannot be written.");
}

// All that a command needs of one image.
struct session {
    explicit session(std::unique_ptr<image> from)
        : frozen(std::move(from)),
          blocks(read_heap(*frozen)),
          names(names_of(*frozen, blocks)),
          references(*frozen, blocks, *names) {}
    explicit session(std::string const& source) : session(open_image(source)) {}

    std::unique_ptr<image> frozen;
    heap blocks;
    std::unique_ptr<naming> names;
    graph references;
};

block_index block_at(graph const& g, std::string const& text) {
    address at = 0;
    std::string const digits = text.starts_with("0x") || text.starts_with("0X") ? text.substr(2) : "";
    auto const [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), at, 16);
    if (failed != std::errc() || *end != '\0')
        throw error('"' + text + "\" is no address; write it in hexadecimal, as in 0x7f1234567890.");
    block_index const found = g.blocks().find(at).index;
    if (found == k_no_block) throw error("No object in use contains the address " + text + ".");
    return found;
}

// Types by their name, with or without its namespaces, else each whose name contains it.
std::vector<bool> types_named(naming const& names, std::string const& of) {
    std::vector<bool> wanted(names.types(), false);
    bool is_found = false;
    for (int attempt = 0; attempt < 2 && !is_found; ++attempt)
        for (type_id_t id = 0; id < wanted.size(); ++id) {
            std::string const& name = names[id].name;
            bool const is_it = attempt == 0 ? name == of || name.ends_with("::" + of)
                                            : !name.starts_with("buffer ") && name.find(of) != name.npos;
            if (is_it && names[id].kind != kind::variable) wanted[id] = is_found = true;
        }
    return wanted;
}

struct target {
    std::vector<bool> marked;
    std::size_t objects = 0, bytes = 0, retained = 0, lost = 0;
    std::string what;
};

target find_targets(graph const& g, std::string const& of) {
    bool const is_address = of.starts_with('0');
    block_index const only = is_address ? block_at(g, of) : k_no_block;
    std::vector<bool> const wanted = types_named(g.names(), of);
    target t;
    t.marked.assign(g.size(), false);
    std::vector<std::string> names;
    g.blocks().for_each_block([&](block_index b, block const& own) {
        if (is_address ? b != only : !wanted[g.type_id(b)]) return;
        t.marked[b] = true;
        ++t.objects;
        t.bytes += own.bytes;
        t.lost += g.is_reachable(b) ? 0 : 1;
        if (std::string const& name = g.type_of(b).name; std::ranges::find(names, name) == names.end())
            names.push_back(name);
    });
    if (names.empty()) throw error("No object of a type named " + of + " is in use; census lists the types.");
    for (std::size_t i = 0; i < names.size() && i < 3; ++i)
        t.what += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > 3) t.what += " and " + std::to_string(names.size() - 3) + " types more";
    if (is_address) t.what += " at " + hexadecimal(g[only].begin);
    std::vector<bool> const others = g.reached(t.marked);
    g.blocks().for_each_block([&](block_index b, block const& own) {
        if (t.marked[b] || (g.is_reachable(b) && !others[b])) t.retained += own.bytes;
    });
    return t;
}

// "1,998 of 2,048 owners found": the rest is in registers that were saved elsewhere, or packed.
std::string owners_found(graph const& g, target const& of) {
    std::size_t owners = 0, weak = 0, found = 0;
    reference_reader reader = g.reader();
    std::vector<bool> counted(of.marked.size(), false);
    reader.first_words(
        naming::k_words, [&](block_index b) { return of.marked[b] && g.type_of(b).may_be_counted(); },
        [&](block_index b, std::span<std::uint64_t const> words) {
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
    found += static_cast<std::size_t>(
        std::ranges::count_if(g.root_references(), [&](auto const& r) { return counted[r.target]; }));
    std::string const text =
        plural(owners, "owner") + (weak != 0 ? " and " + plural(weak, "weak pointer") : "");
    if (found >= owners + weak) return text + ", all found.\n";
    return text + "; " + with_commas(owners + weak - found) +
           " of them not found: in registers, or packed.\n";
}

json load(std::string const& report_or_image) {
    // A core file begins with ELF's magic, a report with a brace.
    std::ifstream file(report_or_image);
    if (!process_number(report_or_image) && file && (file >> std::ws).peek() == '{')
        return read_json(file, report_or_image);  // a pipe is read once
    session s(report_or_image);
    return make_report(s.references, {.leaks = false}).all;
}

}  // namespace

bool attempt(std::function<void()> const& command) {
    try {
        command();
        return true;
    } catch (std::bad_alloc const&) {
        std::fputs("poolheap: There is not enough memory for the analysis; it takes a quarter of the size of "
                   "the heap.\n",
                   stderr);
    } catch (std::exception const& e) {
        std::fprintf(stderr, "poolheap: %s\n", e.what());
    }
    return false;
}

void expect_writable(output_options const& out) {
    namespace fs = std::filesystem;
    for (std::string const& path : {out.output, out.html, out.folded}) {
        if (path.empty()) continue;
        std::error_code e;
        if (fs::is_directory(path, e)) fail_write(path, EISDIR);
        if (e && e != std::errc::no_such_file_or_directory) fail_write(path, e.value());
        fs::path const parent = fs::absolute(path).parent_path();
        if (::access((fs::exists(path) ? fs::path(path) : parent).c_str(), W_OK) != 0)
            fail_write(path, errno);
    }
}

void report_command(std::unique_ptr<image> of, std::string const& source, parts which,
                    output_options const& out) {
    session s(std::move(of));
    bool const is_page = !out.html.empty(), is_run = which == parts::both;
    report r = make_report(s.references, {.leaks = is_page || out.json || which != parts::census,
                                          .holders = out.json,
                                          .retained = is_page || !out.folded.empty()});
    // The first file that is mapped is the program.
    auto const file =
        std::ranges::find_if(s.frozen->mappings(), [](auto const& m) { return m.path.starts_with('/'); });
    std::string const path = is_run || file == s.frozen->mappings().end() ? source : file->path;
    std::string const program = path.substr(path.rfind('/') + 1) + (is_run ? "" : " (" + source + ')');
    r.all["program"] = program;
    auto const print = [&](std::ostream& to) {
        if (is_run) to << "poolheap: " << fit(program, k_width - 10) << "\n\n";
        if (which != parts::leaks) print_census(to, r);
        if (is_run) to << '\n';
        if (which != parts::census) print_leaks(to, r);
        if (is_run && !r.all["notes"].empty()) to << '\n';
        print_notes(to, r);
    };
    answer(out, r.all, print,
           is_run ? std::cerr : std::cout);  // under `run`, standard output is the program's
    if (is_page) write_file(out.html, [&](std::ostream& to) { write_html(to, r); });
    if (!out.folded.empty()) write_file(out.folded, [&](std::ostream& to) { write_folded(to, r); });
}

void holders_command(std::string const& source, std::string const& of, output_options const& out) {
    session s(source);
    target const t = find_targets(s.references, of);
    report r = make_report(s.references, {.leaks = false, .holders = false});
    r.all["retained"] = t.retained;
    r.all["holders"] = find_holders(s.references, t.marked, t.what);
    answer(out, r.all, [&](std::ostream& to) {
        std::string const sums = ": " + plural(t.objects, "object") + ", " + in_bytes(t.bytes) +
                                 (t.retained != t.bytes ? "; retained " + in_bytes(t.retained) : "") + ".\n";
        to << fit(t.what, k_width + 1 - sums.size()) << sums << owners_found(s.references, t);
        if (t.lost != 0)  // then the holders are lost with it, perhaps in a cycle with it
            to << "Nothing reaches " << (t.lost == t.objects ? "" : with_commas(t.lost) + " of ")
               << (t.objects == 1 ? "it" : "them") << "; leaks lists cycles.\n";
        to << '\n';
        print_holders(to, r);
        print_notes(to, r);
    });
}

void path_command(std::string const& source, std::string const& at, output_options const& out) {
    session s(source);
    graph& g = s.references;
    block_index const b = block_at(g, at);
    auto const [begin, blocks] = g.path_to(b);
    json steps = json::array();
    if (!blocks.empty())
        steps.push_back({{"root", g.roots()[begin.from].name},
                         {"offset", begin.offset},
                         {"member", g(g.holder_of(begin)).member}});
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        type const& t = g.type_of(blocks[i]);
        json& row = steps.emplace_back(
            json{{"type", t.name}, {"address", g[blocks[i]].begin}, {"bytes", g[blocks[i]].bytes}});
        if (i + 1 == blocks.size()) break;
        std::uint64_t first = ~std::uint64_t{0};
        g.reader().in_block(blocks[i], [&](std::uint64_t at, block_index to, address) {
            if (to == blocks[i + 1]) first = std::min(first, at);
        });
        std::uint64_t const offset = t.member_offset(first);
        row["offset"] = t.shown_offset(offset);
        row["member"] = g.names().at(g.type_id(blocks[i]), offset).name;
    }
    answer(out, {{"poolheap", 1}, {"path", steps}}, [&](std::ostream& to) {
        if (blocks.empty())
            to << "Nothing reaches " << g.type_of(b).name << " at " << hexadecimal(g[b].begin)
               << ": it is lost.\n";
        for (std::size_t i = 0; i < steps.size(); ++i) {
            if (steps.size() > k_rows && i == k_rows / 2) {
                to << "  … and " << plural(steps.size() - k_rows, "object") << " more\n";
                i = steps.size() - k_rows / 2;
            }
            json const& step = steps[i];
            bool const is_root = step.contains("root");
            std::string const line = fit(holder_place(step), is_root ? k_width : 44);
            to << (is_root ? "" : "  → ") << line;
            if (!is_root)
                to << std::string(46 - columns(line), ' ') << hexadecimal(step["address"]) << ", "
                   << in_bytes(step["bytes"]);
            to << '\n';
        }
    });
}

void diff_command(std::string const& before, std::string const& after, output_options const& out) {
    json const old = load(before), grown = find_growth(old, load(after));
    answer(out, grown, [&](std::ostream& to) { print_growth(to, grown); });
}

}  // namespace poolheap
