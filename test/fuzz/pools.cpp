// SPDX-License-Identifier: BSL-1.0
// The differential fuzzer of one thread: world.hpp says what an input means. A libFuzzer target, and with POOLED_FUZZ_MAIN a
// program of its own:
//
//   fuzz-pools <file or folder>...                 runs each of these inputs
//   fuzz-pools --seconds <n> [--seed <s>] ...      and then random ones, for n seconds of processor time
//
// A broken promise ends it with a message; the input is then in crash-<seed>.

#include "fuzz/world.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t size) {
    fuzz::world({bytes, size}).run();
    return 0;
}

#if POOLED_FUZZ_MAIN

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<std::uint8_t> g_input;
std::string g_name;

// Called when a check or a sanitizer ends the process.
void save_input() {
    std::string const file = "crash-" + g_name;
    if (std::FILE* const out = std::fopen(file.c_str(), "wb")) {
        std::fwrite(g_input.data(), 1, g_input.size(), out);
        std::fclose(out);
    }
    std::fprintf(stderr, "fuzz: the input is in %s\n", file.c_str());
}

void run(std::string name, std::vector<std::uint8_t> bytes) {
    g_name = std::move(name);
    g_input = std::move(bytes);
    LLVMFuzzerTestOneInput(g_input.data(), g_input.size());
}

void run_file(std::filesystem::path const& file) {
    std::ifstream in(file, std::ios::binary);
    run(file.filename().string(), {std::istreambuf_iterator<char>(in), {}});
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGABRT, [](int) { save_input(); });
    double seconds = 0;
    std::uint64_t seed = 1;
    std::size_t files = 0;
    for (int i = 1; i < argc; ++i) {
        std::string_view const argument = argv[i];
        if (argument == "--seconds" && i + 1 < argc) {
            seconds = std::atof(argv[++i]);
        } else if (argument == "--seed" && i + 1 < argc) {
            seed = std::strtoull(argv[++i], nullptr, 10);
        } else if (std::filesystem::is_directory(argument)) {
            for (auto const& entry : std::filesystem::directory_iterator(argument)) {
                run_file(entry.path());
                ++files;
            }
        } else {
            run_file(argument);
            ++files;
        }
    }
    std::size_t inputs = 0;
    for (; static_cast<double>(std::clock()) / CLOCKS_PER_SEC < seconds; ++inputs, ++seed) {
        fuzz::generator random(seed);
        std::vector<std::uint8_t> bytes(16 + random.below(3000));
        std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(random.next()); });
        run(std::to_string(seed), std::move(bytes));
    }
    std::printf("fuzz-pools: %zu files, %zu random inputs; every promise held\n", files, inputs);
    return 0;
}

#endif
