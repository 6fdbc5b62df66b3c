// SPDX-License-Identifier: BSL-1.0
// Output of results and of the list of what can be measured. Standard output only; no colours, no escapes.
#include "support/report.hpp"

#include "support/environment.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace bench {

double ns_per_op(const measurement& m) {
    return m.ops == 0 ? 0.0 : m.seconds * 1e9 / static_cast<double>(m.ops);
}

void print_json_line(const result& r) {
    static const malloc_in_use s_malloc = mapped_malloc();
    nlohmann::ordered_json line;
    line["workload"] = r.what->name;
    line["variant"] = r.asked.variant;
    line["contender"] = r.contender;
    line["scale"] = r.asked.scale;
    // Parameters appear only where the workload has them: a payload of 0 would read as a measurement.
    if (!r.what->payloads.empty()) line["payload"] = r.asked.payload;
    if (r.what->default_threads != 0) line["threads"] = r.asked.threads;
    if (!r.what->default_live.empty()) line["live"] = r.asked.live;
    if (r.asked.step != 0) line["step"] = r.asked.step;
    line["repeat"] = r.repeat;
    line["operation"] = r.what->operation;
    line["ops"] = r.found.ops;
    line["seconds"] = r.found.seconds;
    line["ns_per_op"] = ns_per_op(r.found);
    for (const auto& [name, value] : r.found.extra)
        line[name] = value;
    line["compiler"] = compiler_name();
    line["stdlib"] = standard_library();
    line["optimisation"] = optimisation();
    line["flags"] = compiler_flags();
    line["malloc"] = s_malloc.name;
    line["malloc_path"] = s_malloc.path;
    line["peak_rss_bytes"] = r.peak_rss_bytes;
    if (r.core_shared) line["core_shared"] = *r.core_shared;
    std::cout << line.dump() << '\n' << std::flush;  // a runner reads lines as they come
}

void print_table(const std::vector<result>& results) {
    if (results.empty()) return;
    const result& any = results.front();
    const malloc_in_use heap = mapped_malloc();
    std::printf("%s: %s\n", std::string(any.what->name).c_str(), std::string(any.what->purpose).c_str());
    std::printf("%s, %s, %s, malloc: %s\n", compiler_name().c_str(), standard_library().c_str(),
                optimisation().c_str(), heap.name.c_str());
    std::printf("variant %s, scale %g", any.asked.variant.c_str(), any.asked.scale);
    if (!any.what->payloads.empty()) std::printf(", payload %zu bytes", any.asked.payload);
    if (any.what->default_threads != 0) std::printf(", %u thread(s)", any.asked.threads);
    if (!any.what->default_live.empty()) std::printf(", %zu live", any.asked.live);
    if (any.asked.step != 0) std::printf(", step %zu", any.asked.step);
    std::printf("; one op: %s\n\n", std::string(any.what->operation).c_str());

    std::size_t width = 9;
    for (const result& r : results)
        width = std::max(width, r.contender.size());
    std::printf("%-*s  %6s  %12s  %10s  %12s\n", static_cast<int>(width), "contender", "repeat", "ns/op",
                "seconds", "ops");
    for (const result& r : results) {
        std::printf("%-*s  %6u  %12.2f  %10.4f  %12llu", static_cast<int>(width), r.contender.c_str(),
                    r.repeat, ns_per_op(r.found), r.found.seconds,
                    static_cast<unsigned long long>(r.found.ops));
        for (const auto& [name, value] : r.found.extra)
            std::printf("  %s=%.10g", name.c_str(), value);
        std::printf("\n");
    }
}

void print_list_as_json() {
    nlohmann::ordered_json list;
    list["compiler"] = compiler_name();
    list["stdlib"] = standard_library();
    list["optimisation"] = optimisation();
    list["flags"] = compiler_flags();
    list["workloads"] = nlohmann::ordered_json::array();
    for (const workload& w : registry::instance().workloads()) {
        nlohmann::ordered_json one{{"name", w.name},         {"purpose", w.purpose},
                                   {"variants", w.variants}, {"operation", w.operation},
                                   {"payloads", w.payloads}, {"default_threads", w.default_threads},
                                   {"live", w.default_live}, {"steps", w.steps}};
        one["contenders"] = nlohmann::ordered_json::array();
        for (const entry& e : registry::instance().entries_of(w.name)) {
            nlohmann::ordered_json contender{{"name", e.contender}};
            if (e.run == nullptr) {
                contender["not_built"] = e.not_built;
            } else {
                contender["variants"] = e.variants.empty() ? w.variants : e.variants;
            }
            one["contenders"].push_back(std::move(contender));
        }
        list["workloads"].push_back(std::move(one));
    }
    std::cout << list.dump() << '\n';
}

void print_list(const std::vector<std::string_view>& only_workloads) {
    const auto joined = [](const auto& items) {
        std::string text;
        for (const auto& item : items) {
            if (!text.empty()) text += ", ";
            if constexpr (requires { std::string(item); }) {
                text += std::string(item);
            } else {
                text += std::to_string(item);
            }
        }
        return text;
    };
    for (const workload& w : registry::instance().workloads()) {
        if (!only_workloads.empty() &&
            std::find(only_workloads.begin(), only_workloads.end(), w.name) == only_workloads.end()) {
            continue;
        }
        std::printf("%s: %s\n", std::string(w.name).c_str(), std::string(w.purpose).c_str());
        std::printf("  variants: %s\n", joined(w.variants).c_str());
        if (!w.payloads.empty()) std::printf("  payloads: %s bytes\n", joined(w.payloads).c_str());
        if (w.default_threads != 0) std::printf("  threads: %u by default\n", w.default_threads);
        if (!w.default_live.empty()) {
            std::printf("  live objects: %s by default\n", joined(w.default_live).c_str());
        }
        for (std::size_t v = 0; v < w.steps.size(); ++v) {
            if (w.steps[v].empty()) continue;
            std::printf("  steps of %s: %s\n", std::string(w.variants[v]).c_str(),
                        joined(w.steps[v]).c_str());
        }
        std::printf("  contenders:\n");
        for (const entry& e : registry::instance().entries_of(w.name)) {
            std::printf("    %s", std::string(e.contender).c_str());
            if (e.run == nullptr) std::printf("  (not built: %s)", std::string(e.not_built).c_str());
            if (!e.variants.empty()) std::printf("  (variants: %s)", joined(e.variants).c_str());
            std::printf("\n");
        }
    }
}

}  // namespace bench
