// SPDX-License-Identifier: BSL-1.0
// The JSON of a report; docs/heap.md describes it. Keys are only added, never changed, within a version.
#include "error.hpp"
#include "report.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <ostream>

namespace poolheap {

namespace {

using json = nlohmann::ordered_json;
constexpr int k_version = 1;

json of_holder(report::holder_row const& h) {
    return {{"of", h.of},     {"type", h.type}, {"offset", h.offset},         {"member", h.member},
            {"root", h.root}, {"via", h.via},   {"references", h.references}, {"bytes", h.bytes}};
}

void write(std::ostream& to, json const& what) {
    // Names come from foreign files: what is no UTF-8 is replaced.
    to << what.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
}

}  // namespace

void write_json(std::ostream& to, report const& r) {
    json types = json::array(), groups = json::array(), holders = json::array();
    for (report::type_row const& t : r.types) {
        json row{{"type", t.type},       {"kind", t.kind},   {"pool", t.pool},
                 {"objects", t.objects}, {"bytes", t.bytes}, {"weak_only", t.weak_only}};
        if (!r.retained.parts.empty()) row["retained"] = t.retained;
        types.push_back(std::move(row));
    }
    for (report::leak_row const& g : r.leaks) {
        json cycle = json::array();
        for (report::step const& s : g.cycle)
            cycle.push_back({{"type", s.type}, {"offset", s.offset}, {"member", s.member}});
        groups.push_back({{"times", g.times},
                          {"objects", g.objects},
                          {"bytes", g.bytes},
                          {"is_cycle", g.is_cycle},
                          {"length", g.length},
                          {"cycle", std::move(cycle)}});
    }
    for (report::holder_row const& h : r.holders)
        holders.push_back(of_holder(h));
    json all{{"poolheap", k_version},
             {"program", r.program},
             {"objects", r.objects},
             {"bytes", r.bytes},
             {"unnamed_bytes", r.unnamed_bytes},
             {"types", std::move(types)}};
    if (r.has_leaks)
        all["leaks"] = {
            {"objects", r.leaked_objects}, {"bytes", r.leaked_bytes}, {"groups", std::move(groups)}};
    all["holders"] = std::move(holders);
    all["notes"] = r.notes;
    write(to, all);
}

report read_json(std::string const& path) {
    std::ifstream from(path);
    if (!from) throw error("The report " + path + " cannot be opened.");
    report r;
    try {
        json const all = json::parse(from);
        if (!all.is_object() || !all.contains("poolheap"))
            throw error(path + " is not a report of poolheap; write one with --json --output FILE.");
        if (all.at("poolheap") != k_version)
            throw error("The report " + path + " has version " + all.at("poolheap").dump() +
                        "; this program knows version " + std::to_string(k_version) + ".");
        r.program = all.at("program");
        r.objects = all.at("objects");
        r.bytes = all.at("bytes");
        for (json const& t : all.at("types"))
            r.types.push_back({t.at("type"), t.at("kind"), t.at("pool"), t.at("objects"), t.at("bytes"),
                               t.at("weak_only")});
        if (all.contains("leaks")) {
            r.has_leaks = true;
            r.leaked_objects = all["leaks"].at("objects");
            r.leaked_bytes = all["leaks"].at("bytes");
            for (json const& g : all["leaks"].at("groups")) {
                report::leak_row row{g.at("times"),
                                     g.value("objects", std::size_t{0}),
                                     g.at("bytes"),
                                     g.value("is_cycle", true),
                                     g.value("length", g.at("cycle").size()),
                                     {}};
                for (json const& s : g.at("cycle"))
                    row.cycle.push_back({s.at("type"), s.at("offset"), s.at("member")});
                r.leaks.push_back(std::move(row));
            }
        }
        for (json const& h : all.at("holders"))
            r.holders.push_back({h.value("of", ""), h.at("type"), h.at("offset"), h.at("member"),
                                 h.at("root"), h.value("via", ""), h.at("references"),
                                 h.value("bytes", std::size_t{0})});
    } catch (json::exception const& e) {
        throw error("The report " + path + " cannot be read: " + e.what() + ".");
    }
    return r;
}

}  // namespace poolheap
