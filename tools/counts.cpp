// SPDX-License-Identifier: BSL-1.0
// What tools/measure_counts.py counts: the same work for any number of operations, so that the difference of two counts is
// that of the operations alone. usage: counts WORK OPERATIONS. `pools` and `threads` print resident bytes instead.
#include <pooled/pooled.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

// 48 bytes with a destructor, as the payload of the benchmarks.
struct object {
    std::array<std::uint64_t, 6> words{};
    ~object() { asm volatile("" ::: "memory"); }
};

template <class Make>
[[gnu::noinline]] void create_drop(std::uint64_t operations, Make make) {
    for (std::uint64_t i = 0; i < operations; ++i) {
        auto p = make();
        asm volatile("" ::"r"(p.get()) : "memory");
    }
}

// E7: random ones of 10,000 objects are replaced.
[[gnu::noinline]] void replace(std::uint64_t operations) {
    std::vector<std::shared_ptr<object>> live(10'000);
    for (auto& each : live)
        each = pooled::make_shared<object>();
    std::uint64_t state = 42;
    for (std::uint64_t i = 0; i < operations; ++i) {
        state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
        auto fresh = pooled::make_shared<object>();
        live[((state >> 32) * live.size()) >> 32] = std::move(fresh);
    }
}

// E2: all objects are created in new memory, then dropped.
[[gnu::noinline]] void burst(std::uint64_t operations) {
    std::vector<std::shared_ptr<object>> all;
    all.reserve(operations);
    for (std::uint64_t i = 0; i < operations; ++i)
        all.push_back(pooled::make_shared<object>());
    all.clear();
}

std::uint64_t resident_bytes() {
    unsigned long long pages = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%*u %llu", &pages) != 1) std::abort();
    std::fclose(file);
    return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Resident bytes of a pool that nobody has used.
std::uint64_t bytes_of_pool(std::uint64_t count) {
    std::deque<pooled::pool> pools(1);
    std::uint64_t const before = resident_bytes();
    for (std::uint64_t i = 0; i < count; ++i)
        pools.emplace_back();
    return (resident_bytes() - before) / count;
}

// Resident bytes of a thread's cache of a pool: a second thread uses each of the pools that the first one has used.
std::uint64_t bytes_of_thread(std::uint64_t count) {
    std::deque<pooled::pool> pools(count);
    for (auto& each : pools)
        (void)each.make_unique<object>();
    std::uint64_t bytes = 0;
    std::thread([&] {
        (void)pools.front().make_unique<object>();
        std::uint64_t const before = resident_bytes();
        for (std::uint64_t i = 1; i < count; ++i)
            (void)pools[i].make_unique<object>();
        bytes = (resident_bytes() - before) / (count - 1);
    }).join();
    return bytes;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    std::string_view const work = argv[1];
    std::uint64_t const n = std::strtoull(argv[2], nullptr, 10);
    pooled::pool pool;
    pooled::local_pool local;
    if (work == "make_shared")
        create_drop(n, [] { return pooled::make_shared<object>(); });
    else if (work == "instance")
        create_drop(n, [&] { return pool.make_shared<object>(); });
    else if (work == "make_unique")
        create_drop(n, [] { return pooled::make_unique<object>(); });
    else if (work == "make_rc")
        create_drop(n, [] { return pooled::make_rc<object>(); });
    else if (work == "local")
        create_drop(n, [&] { return local.make_shared<object>(); });
    else if (work == "replace")
        replace(n);
    else if (work == "burst")
        burst(n);
    else if (work == "pools")
        std::printf("%llu\n", static_cast<unsigned long long>(bytes_of_pool(n)));
    else if (work == "threads")
        std::printf("%llu\n", static_cast<unsigned long long>(bytes_of_thread(n)));
    else
        return 2;
}
