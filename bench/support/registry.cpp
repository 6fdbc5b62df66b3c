// SPDX-License-Identifier: BSL-1.0
// The table of workloads and contenders, filled before main by the registrations.
#include "support/registry.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

namespace bench {

registry& registry::instance() {
    static registry s_registry;
    return s_registry;
}

void registry::add(workload w) { m_workloads.push_back(std::move(w)); }

void registry::add(entry e) {
    if (!e.not_built.empty()) e.run = nullptr;
    m_entries.push_back(std::move(e));
}

const std::vector<workload>& registry::workloads() {
    // "e2" before "e10": by length of the part before the underscore, then by name.
    std::sort(m_workloads.begin(), m_workloads.end(), [](const workload& a, const workload& b) {
        const auto key = [](std::string_view n) { return std::make_tuple(n.find('_'), n); };
        return key(a.name) < key(b.name);
    });
    return m_workloads;
}

std::vector<entry> registry::entries_of(std::string_view workload_name) const {
    std::vector<entry> found;
    std::copy_if(m_entries.begin(), m_entries.end(), std::back_inserter(found),
                 [&](const entry& e) { return e.workload == workload_name; });
    std::sort(found.begin(), found.end(),
              [](const entry& a, const entry& b) { return a.contender < b.contender; });
    return found;
}

measurement only_listed(const parameters&) {
    throw std::runtime_error("this executable lists what can be measured, and measures nothing");
}

const workload* registry::find_workload(std::string_view name) {
    for (const workload& w : workloads()) {
        const bool numbered = w.name.size() > 1 && w.name[0] == 'e' && w.name[1] >= '0' && w.name[1] <= '9';
        if (w.name == name || (numbered && w.name.substr(0, w.name.find('_')) == name)) {
            return &w;
        }
    }
    return nullptr;
}

}  // namespace bench
