// SPDX-License-Identifier: BSL-1.0
// pool_stats as metrics in Prometheus' text format, version 0.0.4: what a program's /metrics page would return. Taking the
// statistics costs the threads that use the pools nothing.

#include <pooled/pooled.hpp>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

// A label's value: backslash, quote and line feed are escaped.
std::string escaped(std::string_view text) {
    std::string out;
    for (char const c : text) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '\\' || c == '"') out += '\\';
        out += c;
    }
    return out;
}

class metrics {
public:
    explicit metrics(std::vector<pooled::pool_stats> pools) : m_pools(std::move(pools)) {}

    [[nodiscard]] std::string text() const {
        std::string out;
        add(out, "pooled_blocks_in_use", "gauge", "Blocks held by the program.", &pooled::pool_stats::in_use);
        add(out, "pooled_blocks_cached", "gauge", "Free blocks in caches of threads.",
            &pooled::pool_stats::cached);
        add(out, "pooled_bytes_in_use", "gauge", "Bytes of the blocks in use.",
            &pooled::pool_stats::bytes_in_use);
        add(out, "pooled_upstream_bytes", "gauge", "Bytes taken from upstream.",
            &pooled::pool_stats::upstream_bytes);
        add(out, "pooled_max_bytes", "gauge", "Bound on upstream bytes; 0: none.",
            &pooled::pool_stats::max_bytes);
        add(out, "pooled_threads", "gauge", "Threads that have a cache.", &pooled::pool_stats::threads);
        add(out, "pooled_upstream_calls_total", "counter", "Allocations asked of upstream.",
            &pooled::pool_stats::upstream_calls);
        add(out, "pooled_refills_total", "counter", "Refills of caches of threads.",
            &pooled::pool_stats::refills);
        add(out, "pooled_flushes_total", "counter", "Flushes of caches of threads.",
            &pooled::pool_stats::flushes);
        add_classes(out);
        return out;
    }

private:
    static void begin(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
        out.append("# HELP ").append(name).append(" ").append(help).append("\n");
        out.append("# TYPE ").append(name).append(" ").append(type).append("\n");
    }

    void add(std::string& out, std::string_view name, std::string_view type, std::string_view help,
             std::uint64_t pooled::pool_stats::* field) const {
        begin(out, name, type, help);
        for (pooled::pool_stats const& each : m_pools)
            out.append(name)
                .append("{pool=\"")
                .append(escaped(each.name))
                .append("\"} ")
                .append(std::to_string(each.*field)) += '\n';
    }

    // Only the size classes that were ever used: a pool has 69.
    void add_classes(std::string& out) const {
        constexpr std::string_view k_name = "pooled_class_blocks_in_use";
        begin(out, k_name, "gauge", "Blocks in use of a size class.");
        for (pooled::pool_stats const& pool : m_pools)
            for (pooled::size_class_stats const& each : pool.classes)
                if (each.high_water != 0)
                    out.append(k_name)
                        .append("{pool=\"")
                        .append(escaped(pool.name))
                        .append("\",block_bytes=\"")
                        .append(std::to_string(each.block_bytes))
                        .append("\"} ")
                        .append(std::to_string(each.in_use)) += '\n';
    }

    std::vector<pooled::pool_stats> m_pools;
};

}  // namespace

int main() {
    pooled::pool orders{{.name = "orders \"EU\"", .max_bytes = 1U << 26}};
    pooled::pool messages{{.name = "messages"}};
    std::vector<std::shared_ptr<int>> held;
    held.reserve(1'000);
    for (int i = 0; i < 1'000; ++i)
        held.push_back(orders.make_shared<int>(i));
    auto const message = messages.make_unique<std::string>("hello");

    std::string const text =
        metrics({orders.stats(), messages.stats(), pooled::default_pool().stats()}).text();
    std::fputs(text.c_str(), stdout);
    auto const has = [&](std::string_view line) { return text.find(line) != std::string::npos; };
    return has("pooled_blocks_in_use{pool=\"orders \\\"EU\\\"\"} 1000\n") &&
                   has("pooled_blocks_in_use{pool=\"messages\"} 1\n") &&
                   has("# TYPE pooled_refills_total counter\n")
               ? 0
               : 1;
}
