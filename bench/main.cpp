// SPDX-License-Identifier: BSL-1.0
// The command line: which workload, which contenders, and how much; an unknown word is an error that lists the known ones.
//
// Exit status: 0 done, 1 a measurement failed, 2 the command line was wrong.
#include "support/core_share.hpp"
#include "support/environment.hpp"
#include "support/registry.hpp"
#include "support/report.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace bench;

struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class Items>
std::string joined(const Items& items) {
    std::string text;
    for (const auto& item : items)
        text += (text.empty() ? "" : ", ") + std::string(item);
    return text;
}

// Strict on purpose: strtoull would take " -1" and give 2^64-1.
std::uint64_t parse_count(const std::string& text, const std::string& option, std::uint64_t most) {
    std::uint64_t value = 0;
    bool good = !text.empty();
    for (const char c : text) {
        good = good && c >= '0' && c <= '9' && value <= (most - static_cast<std::uint64_t>(c - '0')) / 10;
        if (!good) break;
        value = value * 10 + static_cast<std::uint64_t>(c - '0');
    }
    if (!good || value == 0) {
        throw usage_error(option + " must be a whole number from 1 to " + std::to_string(most) + ", not '" +
                          text + "'");
    }
    return value;
}

double parse_scale(const std::string& text) {
    constexpr double k_most = 10;  // E1 prepares 500 MB of choices at scale 1
    char* end = nullptr;
    const bool plain = !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '.');
    const double value = plain ? std::strtod(text.c_str(), &end) : 0.0;
    if (!plain || *end != '\0' || !std::isfinite(value) || value <= 0 || value > k_most) {
        throw usage_error("--scale must be a number above 0 and at most 10, not '" + text + "'");
    }
    return value;
}

struct command_line {
    std::string workload;
    std::vector<std::string> contenders;
    bool list = false;
    bool json = false;
    std::string scale = "1";
    std::string variant;
    std::string repeat = "1";
    std::string payload;
    std::string threads;
    std::string live;
    std::string step;
};

const workload& chosen_workload(const command_line& line) {
    if (const workload* w = registry::instance().find_workload(line.workload)) return *w;
    std::vector<std::string_view> names;
    for (const workload& w : registry::instance().workloads())
        names.push_back(w.name);
    const std::string problem =
        line.workload.empty() ? "no workload given" : "no workload '" + line.workload + "'";
    throw usage_error(problem + "; there are: " + joined(names));
}

// The value asked for, which must be among `values`; the first of them when none was; 0 when there are none.
std::size_t one_of(const std::vector<std::size_t>& values, const std::string& asked, const std::string& where,
                   const std::string& option) {
    if (asked.empty()) return values.empty() ? 0 : values.front();
    const std::size_t value = parse_count(asked, option, 1u << 30);
    if (std::find(values.begin(), values.end(), value) != values.end()) return value;
    std::string known;
    for (const std::size_t v : values)
        known += (known.empty() ? "" : ", ") + std::to_string(v);
    throw usage_error(where + " has no " + option + " " + asked +
                      "; there are: " + (known.empty() ? "none" : known));
}

parameters chosen_parameters(const command_line& line, const workload& w) {
    const std::string name(w.name);
    const auto refuse = [&](bool selectable, const std::string& value, const char* option) {
        if (!selectable && !value.empty()) throw usage_error(name + " has no " + option);
    };
    refuse(!w.payloads.empty(), line.payload, "--payload");
    refuse(w.default_threads != 0, line.threads, "--threads");
    refuse(!w.default_live.empty(), line.live, "--live");
    refuse(!w.steps.empty(), line.step, "--step");

    parameters p;
    p.scale = parse_scale(line.scale);
    p.variant = line.variant.empty() ? std::string(w.variants.front()) : line.variant;
    const auto variant = std::find(w.variants.begin(), w.variants.end(), p.variant);
    if (variant == w.variants.end()) {
        throw usage_error(name + " has no variant '" + p.variant + "'; there are: " + joined(w.variants));
    }
    p.payload = one_of(w.payloads, line.payload, name, "--payload");
    p.threads = line.threads.empty() ? w.default_threads
                                     : static_cast<unsigned>(parse_count(line.threads, "--threads", 1024));
    if (!line.live.empty()) {
        p.live = parse_count(line.live, "--live", 1'000'000'000);
    } else if (!w.default_live.empty()) {
        p.live = w.default_live.at(static_cast<std::size_t>(variant - w.variants.begin()));
    }
    if (!w.steps.empty()) {
        const auto& steps = w.steps.at(static_cast<std::size_t>(variant - w.variants.begin()));
        p.step = one_of(steps, line.step, name + " (variant " + p.variant + ")", "--step");
    }
    return p;
}

std::vector<entry> chosen_contenders(const command_line& line, const workload& w,
                                     const std::string& variant) {
    std::vector<entry> runnable;
    std::vector<std::string_view> names;
    const std::vector<entry> known = registry::instance().entries_of(w.name);
    for (const entry& e : known) {
        const bool fits = e.variants.empty() ||
                          std::find(e.variants.begin(), e.variants.end(), variant) != e.variants.end();
        if (e.run != nullptr && fits) {
            runnable.push_back(e);
            names.push_back(e.contender);
        }
    }
    const std::string where = std::string(w.name) + " (variant " + variant + ")";
    if (runnable.empty()) throw usage_error(where + " has no contender built");
    if (line.contenders.empty()) return runnable;

    std::vector<entry> chosen;
    for (const std::string& wanted : line.contenders) {
        const auto is_it = [&](const entry& e) { return e.contender == wanted; };
        const auto found = std::find_if(runnable.begin(), runnable.end(), is_it);
        if (found != runnable.end()) {
            chosen.push_back(*found);
            continue;
        }
        const auto unbuilt = std::find_if(known.begin(), known.end(), is_it);
        std::string problem = where;
        if (unbuilt != known.end() && unbuilt->run == nullptr) {
            problem.append(" was built without '")
                .append(wanted)
                .append("' (")
                .append(unbuilt->not_built)
                .append(")");
        } else {
            problem.append(" has no contender '").append(wanted).append("'");
        }
        throw usage_error(problem.append("; there are: ").append(joined(names)));
    }
    return chosen;
}

bool has_figure(const measurement& found, std::string_view name) {
    return std::any_of(found.extra.begin(), found.extra.end(),
                       [name](const auto& figure) { return figure.first == name; });
}

void run(const command_line& line) {
    if (line.list) {
        std::vector<std::string_view> only;
        if (!line.workload.empty()) only.push_back(chosen_workload(line).name);
        if (line.json) {
            print_list_as_json();
        } else {
            print_list(only);
        }
        return;
    }
    const workload& w = chosen_workload(line);
    const parameters asked = chosen_parameters(line, w);
    const std::vector<entry> contenders = chosen_contenders(line, w, asked.variant);
    const auto repeats = static_cast<unsigned>(parse_count(line.repeat, "--repeat", 1'000'000));

    std::vector<result> results;
    for (unsigned repeat = 0; repeat < repeats; ++repeat) {
        for (std::size_t i = 0; i < contenders.size(); ++i) {
            parameters p = asked;
            p.last_in_process = repeat + 1 == repeats && i + 1 == contenders.size();
            const auto before = shared_with_others();
            result r{&w, std::string(contenders[i].contender), p, repeat, contenders[i].run(p), before};
            r.peak_rss_bytes = peak_resident_bytes();  // before that thread
            const bool is_parallel = p.threads > 1 || has_figure(r.found, "hand_over_ns");
            r.core_shared =
                std::max(before, is_parallel ? either_shared_with_others() : shared_with_others());
            if (line.json) print_json_line(r);
            results.push_back(std::move(r));
        }
    }
    if (!line.json) print_table(results);
}

}  // namespace

int main(int argc, char** argv) {
    command_line line;
    CLI::App app{"Measures one workload of the pooled benchmark", "pooled-bench"};
    app.add_option("workload", line.workload, "the workload; --list names them");
    app.add_option("--contender", line.contenders, "measure this one only (may be given several times)")
        ->allow_extra_args(false);
    app.add_flag("--list", line.list, "list workloads, their variants and contenders");
    app.add_option("--scale", line.scale, "scales the count of operations; 1 is the published experiment");
    app.add_option("--variant", line.variant, "which form of the workload");
    app.add_option("--repeat", line.repeat, "measure everything so many times");
    app.add_option("--payload", line.payload, "bytes of the object created");
    app.add_option("--threads", line.threads, "threads that work at once");
    app.add_option("--live", line.live, "objects alive at once");
    app.add_option("--step", line.step, "one of the workload's steps, e.g. by how many blocks a pool grows");
    app.add_flag("--json", line.json, "one JSON object per line instead of a table");
    try {
        register_not_built();
        app.parse(argc, argv);
        run(line);
        std::cout.flush();
        std::fflush(stdout);
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        std::cerr << "pooled-bench: " << error.what() << "; see --help\n";
        return 2;
    } catch (const usage_error& error) {
        std::cerr << "pooled-bench: " << error.what() << '\n';
        return 2;
    } catch (const std::exception& error) {
        std::cerr << "pooled-bench: the measurement failed: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
