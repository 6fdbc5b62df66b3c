// SPDX-License-Identifier: BSL-1.0
// Runs a job once, and prints what poolbench reads: processor time and peak memory of the process, the malloc that was mapped, and the
// digest of the output. The arguments are those of pooled-bench; POOLED_REAL_PROGRAM and _VARIANT say which program this is.
#include "job.hpp"
#include "support/environment.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace {

void list() {
    std::printf(
        R"({"optimisation": "%s", "compiler": "%s", "stdlib": "%s", "flags": "%s", "workloads": [{"name": "%s", "variants": ["job"], )"
        R"("payloads": [], "contenders": [{"name": "%s", "variants": ["job"]}]}]})"
        "\n",
        bench::optimisation().c_str(), bench::compiler_name().c_str(), bench::standard_library().c_str(),
        bench::compiler_flags().c_str(), POOLED_REAL_PROGRAM, POOLED_REAL_VARIANT);
}

}  // namespace

int main(int count, char** words) {
    double scale = 1;
    for (int i = 1; i < count; ++i) {
        const std::string_view word = words[i];
        if (word == "--list") return list(), 0;
        if (word == "--scale" && i + 1 < count) scale = std::strtod(words[i + 1], nullptr);
    }
    std::thread([] {}).join();  // from here on libstdc++ counts atomically, as in a program with threads
    bench::digest output;
    bench::job(output, scale);
    const double seconds = bench::process_cpu_seconds();
    const bench::malloc_in_use found = bench::mapped_malloc();
    std::printf(
        R"({"ns_per_op": %.0f, "ops": 1, "operation": "one run, processor time", "workload": "%s", "variant": "job", "contender": "%s", )"
        R"("scale": %.17g, "malloc": "%s", "malloc_path": "%s", "peak_rss_bytes": %zu, "peak_mib": %.2f, "output": %llu})"
        "\n",
        seconds * 1e9, POOLED_REAL_PROGRAM, POOLED_REAL_VARIANT, scale, found.name.c_str(),
        found.path.c_str(), bench::peak_resident_bytes(),
        static_cast<double>(bench::peak_resident_bytes()) / (1 << 20),
        static_cast<unsigned long long>(output.value()));
    return 0;
}
