// SPDX-License-Identifier: BSL-1.0
// JSON documents whose trees live in a pool: nlohmann's basic_json takes an allocator, and one on the program's own pool serves
// its objects and arrays. The program reads a file of JSON lines into documents, queries them, and drops all of them in a
// reclaim_scope.
//
//   json_documents [--mib 1] [--small-pages] [--malloc]
//
// All documents are alive together, so each page is touched for the first time just once. The kernel's cost of new memory
// therefore counts: --small-pages shows what huge pages gain or cost.

#include <pooled/pooled.hpp>

#include "arguments.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace {

// Set once, before the first document; outlives them.
pooled::pool* g_documents = nullptr;

// basic_json constructs its allocators without arguments, so this one finds its pool by itself, and takes no space.
template <class T>
struct document_allocator {
    using value_type = T;

    document_allocator() noexcept = default;
    template <class U>
    document_allocator(document_allocator<U> const&) noexcept {}  // NOLINT: as allocators do

    [[nodiscard]] T* allocate(std::size_t n) { return pooled::pool_allocator<T>(*g_documents).allocate(n); }
    void deallocate(T* p, std::size_t n) noexcept {
        pooled::pool_allocator<T>(*g_documents).deallocate(p, n);
    }
    friend bool operator==(document_allocator const&, document_allocator const&) noexcept { return true; }
};

using pooled_json = nlohmann::basic_json<std::map, std::vector, std::string, bool, std::int64_t,
                                         std::uint64_t, double, document_allocator>;

// The size in bytes, and the sum of the prices, to check what was read.
std::uint64_t generate(std::string const& path, std::size_t mib) {
    std::ofstream file(path, std::ios::binary);
    std::mt19937 random(1);
    std::uint64_t sum = 0;
    std::size_t written = 0;
    for (std::size_t i = 0; written < mib << 20; ++i) {
        std::string line = R"({"id":)" + std::to_string(i) + R"(,"customer":{"name":"customer )" +
                           std::to_string(random() % 10'000) + R"(","vip":false},"items":[)";
        for (std::size_t items = 1 + random() % 8; items != 0; --items) {
            std::uint64_t const price = random() % 1'000;
            sum += price;
            line += R"({"sku":"A)" + std::to_string(random() % 1'000) + R"(","price":)" +
                    std::to_string(price) + R"(,"tags":["a","b"]})" + (items == 1 ? "" : ",");
        }
        line += "]}\n";
        file << line;
        written += line.size();
    }
    return sum;
}

// A document is owned by one pointer. A scope gathers drops of the library's own pointers.
struct from_pools {
    using json = pooled_json;
    using document = pooled::unique_ptr<json>;
    using scope = pooled::reclaim_scope;
    static document make(json&& value) { return g_documents->make_unique<json>(std::move(value)); }
};
struct from_malloc {
    using json = nlohmann::json;
    using document = std::unique_ptr<json>;
    struct scope {
        scope() {}   // NOLINT: as a reclaim_scope, it is used for its lifetime
        ~scope() {}  // NOLINT
    };
    static document make(json&& value) { return std::make_unique<json>(std::move(value)); }
};

template <class Memory>
int run(std::string const& path, std::uint64_t expected, char const* name) {
    using json = typename Memory::json;
    auto const start = std::chrono::steady_clock::now();
    std::vector<typename Memory::document> documents;
    std::ifstream file(path, std::ios::binary);
    for (std::string line; std::getline(file, line);)
        documents.push_back(Memory::make(json::parse(line)));

    std::uint64_t sum = 0;
    for (auto const& document : documents)
        for (auto const& item : (*document)["items"])
            sum += item["price"].template get<std::uint64_t>();

    std::size_t const count = documents.size();
    auto const drop = std::chrono::steady_clock::now();
    {
        typename Memory::scope const together;
        documents.clear();
    }
    auto const end = std::chrono::steady_clock::now();
    std::printf("%zu documents, dropped in %.4f s\n", count,
                std::chrono::duration<double>(end - drop).count());
    std::printf("%s: seconds %.4f\n", name, std::chrono::duration<double>(end - start).count());
    return sum == expected ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    example::arguments words(argc, argv, "json_documents [--pool | --malloc] [--small-pages] [--mib N]");
    bool const is_malloc = words.is_malloc();
    bool const has_small_pages = words.flag("--small-pages");
    std::size_t const mib = words.number("--mib", 1);
    words.end();
    std::string const path =
        std::filesystem::temp_directory_path() / ("json_documents-" + std::to_string(::getpid()) + ".jsonl");
    std::uint64_t const sum = generate(path, mib);
    pooled::pool documents{{.name = "documents", .huge_pages = !has_small_pages}};
    g_documents = &documents;
    int const status = is_malloc ? run<from_malloc>(path, sum, "malloc") : run<from_pools>(path, sum, "pool");
    std::filesystem::remove(path);
    return status;
}
