// SPDX-License-Identifier: BSL-1.0
// The JSON of a report; docs/heap.md describes it. Keys are only added, never changed, within a version.
#include "error.hpp"
#include "report.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <ostream>

namespace poolheap {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(report::step, type, offset, member)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(report::type_row, type, kind, pool, objects, bytes, weak_only,
                                                retained)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(report::leak_row, times, objects, bytes, is_cycle, length,
                                                cycle)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(report::holder_row, of, type, offset, member, root, via,
                                                references, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(report::lost, objects, bytes, groups)

namespace {

constexpr int k_version = 1;

}  // namespace

void write_json(std::ostream& to, report const& r) {
    nlohmann::json all{{"poolheap", k_version}, {"program", r.program}, {"objects", r.objects},
                       {"bytes", r.bytes},      {"types", r.types},     {"unnamed_bytes", r.unnamed_bytes},
                       {"holders", r.holders},  {"notes", r.notes}};
    if (r.leaks) all["leaks"] = *r.leaks;
    // Names come from foreign files: what is no UTF-8 is replaced.
    to << all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

report read_json(std::string const& path) {
    std::ifstream from(path);
    if (!from) throw error("The report " + path + " cannot be opened.");
    report r;
    try {
        auto const all = nlohmann::json::parse(from);
        if (!all.is_object() || !all.contains("poolheap"))
            throw error(path + " is not a report of poolheap; write one with --json --output FILE.");
        if (all.at("poolheap") != k_version)
            throw error("The report " + path + " has version " + all.at("poolheap").dump() +
                        "; this program knows version " + std::to_string(k_version) + ".");
        all.at("program").get_to(r.program);
        all.at("objects").get_to(r.objects);
        all.at("bytes").get_to(r.bytes);
        all.at("types").get_to(r.types);
        all.at("holders").get_to(r.holders);
        if (all.contains("leaks")) r.leaks = all["leaks"].get<report::lost>();
    } catch (nlohmann::json::exception const& e) {
        throw error("The report " + path + " cannot be read: " + e.what() + ".");
    }
    return r;
}

}  // namespace poolheap
