// SPDX-License-Identifier: BSL-1.0
// What the process really runs with: compiler, standard library, optimisation, the malloc mapped, memory and processor time in use.
#pragma once

#include <cstddef>
#include <string>

namespace bench {

std::string compiler_name();     // "gcc 12.2.0"
std::string standard_library();  // "libstdc++ 20220819"
std::string optimisation();      // "-O3", as the build system set it
std::string compiler_flags();    // all of them that change the code, likewise

struct malloc_in_use {
    std::string
        name;  // "glibc", "tcmalloc", "jemalloc", "mimalloc", "tbbmalloc_proxy"; else the file preloaded
    std::string path;  // the mapped file
};

// Reads /proc/self/maps: an LD_PRELOAD path that does not exist is ignored by the loader with exit
// status 0, so only the mapped files show which malloc was measured.
malloc_in_use mapped_malloc();

double process_cpu_seconds();  // user and system time of all threads so far

std::size_t resident_bytes();       // now, from /proc/self/statm
std::size_t peak_resident_bytes();  // so far, from /proc/self/status

}  // namespace bench
