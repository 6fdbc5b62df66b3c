// SPDX-License-Identifier: BSL-1.0
// The table of what this executable can measure: workloads, and the contenders built for each of them.
//
// A workload describes itself once (`register_workload` in its description.cpp); each pair of a workload and
// a contender is a translation unit of its own that adds one `entry`. Separate units keep a contender's
// code from changing what the compiler inlines in another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

// The parameters of one measurement. Fields that a workload does not use keep their defaults.
struct parameters {
    std::string variant;
    double scale = 1.0;       // scales the count of timed operations
    std::size_t payload = 0;  // bytes
    unsigned threads = 1;
    std::size_t live = 0;          // live objects
    std::size_t step = 0;          // what the workload's `steps` mean; 0: it has none
    bool last_in_process = false;  // nothing runs after it: teardown that is not timed may be left out
};

// What one measurement found. `seconds` covers exactly `ops` operations.
struct measurement {
    double seconds = 0;
    std::uint64_t ops = 0;
    std::vector<std::pair<std::string, double>> extra;  // further figures, named with their unit
};

struct workload {
    std::string_view name;
    std::string_view purpose;
    std::string_view operation;                  // what "one op" is
    std::vector<std::string_view> variants;      // the first is the default
    std::vector<std::size_t> payloads = {};      // the first is the default; empty: not selectable
    unsigned default_threads = 0;                // 0: not selectable
    std::vector<std::size_t> default_live = {};  // one a variant; empty: not selectable
    // One list a variant, e.g. the enlarge steps of a pool; the first of a list is the default. Empty: not selectable.
    std::vector<std::vector<std::size_t>> steps = {};
};

using run_function = measurement (*)(const parameters&);

struct entry {
    std::string_view workload;
    std::string_view contender;
    run_function run = nullptr;                   // null: not built
    std::vector<std::string_view> variants = {};  // empty: every variant of the workload
    std::string_view not_built = {};              // why, when `run` is null
};

class registry {
public:
    static registry& instance();

    void add(workload w);
    void add(entry e);

    // Sorted by name, whatever order the linker chose for the registrations.
    const std::vector<workload>& workloads();
    std::vector<entry> entries_of(std::string_view workload_name) const;

    // Accepts the full name and its experiment number alone ("e1" for "e1_list_churn"); null when unknown.
    const workload* find_workload(std::string_view name);

private:
    std::vector<workload> m_workloads;
    std::vector<entry> m_entries;
};

struct register_workload {
    explicit register_workload(workload w) { registry::instance().add(std::move(w)); }
};

struct register_entry {
    explicit register_entry(entry e) { registry::instance().add(std::move(e)); }
};

// The variants a contender takes part in: all of them, unless the workload's own namespace says otherwise.
template <class Contender>
std::vector<std::string_view> variants() {
    return {};
}

// Why a contender cannot take part, though it compiles; empty when it can.
template <class Contender>
std::string_view why_not() {
    return "";
}

// Stands for every pair where POOLED_BENCH_LIST_ONLY leaves out what measures. Throws.
measurement only_listed(const parameters&);

// Fills the gaps: entries for the contenders that configuring left out, with the reason.
void register_not_built();

}  // namespace bench
