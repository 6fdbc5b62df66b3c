// SPDX-License-Identifier: BSL-1.0
// Linux answers to the questions in environment.hpp.
#include "support/environment.hpp"

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <version>

#include <unistd.h>

namespace bench {

std::string compiler_name() {
#if defined(__clang__)
    return "clang " + std::to_string(__clang_major__) + '.' + std::to_string(__clang_minor__) + '.' +
           std::to_string(__clang_patchlevel__);
#elif defined(__GNUC__)
    return "gcc " + std::to_string(__GNUC__) + '.' + std::to_string(__GNUC_MINOR__) + '.' +
           std::to_string(__GNUC_PATCHLEVEL__);
#else
    return "unknown compiler";
#endif
}

std::string standard_library() {
#if defined(_LIBCPP_VERSION)
    return "libc++ " + std::to_string(_LIBCPP_VERSION);
#elif defined(__GLIBCXX__)
    return "libstdc++ " + std::to_string(__GLIBCXX__);
#else
    return "unknown standard library";
#endif
}

std::string optimisation() { return POOLED_BENCH_OPTIMISATION; }

std::string compiler_flags() { return POOLED_BENCH_FLAGS; }

malloc_in_use mapped_malloc() {
    // Only the proxy of TBB replaces malloc; libtbbmalloc itself is merely linked for its contender.
    constexpr std::array<std::string_view, 4> k_known = {"tcmalloc", "jemalloc", "mimalloc",
                                                         "tbbmalloc_proxy"};
    const char* const preloaded = std::getenv("LD_PRELOAD");
    const std::string wanted =
        preloaded == nullptr ? "" : std::filesystem::weakly_canonical(preloaded).string();
    std::ifstream maps("/proc/self/maps");
    malloc_in_use found{"unknown", ""};
    std::string line;
    while (std::getline(maps, line)) {
        const std::size_t slash = line.find('/');
        if (slash == std::string::npos) {
            continue;
        }
        const std::string path = line.substr(slash);
        const std::string_view file = std::string_view(path).substr(path.rfind('/') + 1);
        for (const std::string_view name : k_known) {
            if (file.find(name) != std::string_view::npos) {
                return {std::string(name), path};
            }
        }
        if (path == wanted) return {std::string(file), path};
        if (file.starts_with("libc.so") || file.starts_with("libc-2")) {
            found = {"glibc", path};
        }
    }
    return found;
}

double process_cpu_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::size_t resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    std::size_t total_pages = 0;
    std::size_t resident_pages = 0;
    statm >> total_pages >> resident_pages;
    return resident_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t peak_resident_bytes() {
    // Not getrusage's: that begins at what the process had in use that started this one.
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
        if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) * 1024;  // Linux counts KiB
    }
    return 0;
}

}  // namespace bench
