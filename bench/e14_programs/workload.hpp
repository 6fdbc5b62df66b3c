// SPDX-License-Identifier: BSL-1.0
// E14: programs of examples/, each a process of its own that times its measured part. `make_shared` is the program on the
// malloc of the process, `pooled` the same with the pool, by the smallest change to its source.
//
//   capture   packets of a capture file through three threads
//   echo      an Asio echo server under load, on loopback; server and clients on one processor
//   chat      the same server, each message sent to every client
//   json      documents parsed into trees, and dropped
//
// The programs lie beside this executable. They inherit its environment, and with it the preloaded malloc.
#pragma once

#include "contender/make_shared.hpp"
#include "contender/pooled.hpp"
#include "support/measure.hpp"
#include "support/registry.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <sched.h>

namespace bench::e14_programs {

struct program {
    std::string_view variant;
    std::string_view name;       // of its source
    std::string_view arguments;  // the count goes last
    std::uint64_t full;          // at scale 1
    std::uint64_t operations;    // of each that is counted
    // On two processors a message is a wake-up of the other one, which takes a virtual machine 5 or 20 µs, as chance has it; on one the
    // runs differ by 3 % (Intel Xeon).
    bool is_on_one_processor = false;
};

inline constexpr program k_programs[] = {
    {"capture", "capture_pipeline", "--packets", 300'000, 1},
    {"echo", "asio_server", "--clients 4 --messages", 10'000, 4, true},
    {"chat", "asio_server", "--chat --clients 4 --messages", 5'000, 4, true},
    {"json", "json_documents", "--mib", 50, 1},
};

inline std::string path_of(const program& which) {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() /
            ("pooled-bench-e14-" + std::string(which.name)))
        .string();
}

// Those whose libraries were found.
template <class>
std::vector<std::string_view> variants() {
    std::vector<std::string_view> found;
    for (const program& each : k_programs) {
        if (std::filesystem::exists(path_of(each))) found.push_back(each.variant);
    }
    return found;
}

template <class>
std::string_view why_not() {
    return variants<void>().empty() ? "none of the programs' libraries was found" : "";
}

// The last line that says how long the measured part took.
inline double seconds_said(const std::string& command) {
    std::FILE* out = ::popen(command.c_str(), "r");
    if (out == nullptr) throw std::runtime_error("no process can be started");
    double seconds = 0;
    char line[512];
    while (std::fgets(line, sizeof line, out) != nullptr) {
        constexpr std::string_view k_mark = ": seconds ";
        const std::string_view text(line);
        if (const auto at = text.find(k_mark); at != text.npos)
            seconds = std::strtod(line + at + k_mark.size(), nullptr);
    }
    if (const int status = ::pclose(out); status != 0)
        throw std::runtime_error(command + ": ended with status " + std::to_string(status));
    return seconds;
}

template <class C>
measurement run(const parameters& p) {
    for (const program& each : k_programs) {
        if (each.variant != p.variant) continue;
        const std::uint64_t count = scaled(each.full, p.scale, 3);
        const char* kind = std::is_same_v<C, pooled_contender> ? " --pool " : " --malloc ";
        std::string command;  // appended to: GCC 12 warns at -O3 of a string inserted in front
        if (each.is_on_one_processor)
            command.append("taskset --cpu-list ").append(std::to_string(::sched_getcpu())).append(" ");
        command.append("'");
        command.append(path_of(each)).append("'").append(kind).append(each.arguments);
        command.append(" ").append(std::to_string(count));
        // The program prints tenths of a millisecond: less is indistinguishable from zero.
        return {std::max(seconds_said(command), 1e-4), count * each.operations, {}};
    }
    throw std::invalid_argument("no program of this name");
}

}  // namespace bench::e14_programs
