// SPDX-License-Identifier: BSL-1.0
// Compresses a file, as the program's own main() does; its exit status and what it wrote are the output.
#include "job.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

int lzip_main(int count, const char* const words[]);

namespace {

std::string text(std::size_t bytes) {
    std::string made;
    for (std::uint64_t seed = 1; made.size() < bytes;) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        made += "GET /item/" + std::to_string((seed >> 40) % 5000) + " 200 " +
                std::to_string((seed >> 33) % 65536) + " ms\n";
    }
    return made;
}

}  // namespace

void bench::job(digest& output, double scale) {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("pooled-real-" + std::to_string(::getpid()))).string();
    std::ofstream(path, std::ios::binary) << text(scaled(1 << 20, scale));
    const char* const words[] = {"lzip", "-6", path.c_str()};
    output.add(static_cast<std::uint64_t>(lzip_main(3, words)));
    std::ifstream written(path + ".lz", std::ios::binary);
    output.add(std::string(std::istreambuf_iterator<char>(written), {}));
    std::filesystem::remove(path + ".lz");
}
