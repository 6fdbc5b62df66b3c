// SPDX-License-Identifier: BSL-1.0
// The cost of the counted pointers, for the table in docs/counted-pointers.md, which tools/measure_examples.py writes: a trivially
// destructible object of 48 bytes, in a process that has threads. Each process measures a loop with one handle and one operation.
//
//   handle_costs [--handle std::shared_ptr | rc_ptr | local_rc_ptr] [--work create | create_in_pool | copy | lock] [--calls N]

#include <pooled/pooled.hpp>

#include "arguments.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace {

struct payload {
    std::array<long, 6> words;
};

struct standard {
    template <class T>
    using weak = std::weak_ptr<T>;
    static auto make() { return pooled::make_shared<payload>(); }
    static auto make(pooled::pool& pool) { return pool.make_shared<payload>(); }
};
struct counted {
    template <class T>
    using weak = pooled::weak_rc_ptr<T>;
    static auto make() { return pooled::make_rc<payload>(); }
    static auto make(pooled::pool& pool) { return pool.make_rc<payload>(); }
};
struct counted_locally {
    template <class T>
    using weak = pooled::weak_local_rc_ptr<T>;
    static auto make() { return pooled::make_local_rc<payload>(); }
    static auto make(pooled::pool& pool) { return pool.make_local_rc<payload>(); }
};

// For the compiler, the object is used here.
template <class T>
void use(T const& p) {
    asm volatile("" : : "r"(p.get()) : "memory");
}

template <class Work>
double seconds(std::size_t calls, Work work) {
    auto const start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i != calls; ++i)
        work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Handle>
double measure(std::string const& work, std::size_t calls) {
    using pointer = decltype(Handle::make());
    pooled::pool pool;
    pointer const one = Handle::make();
    typename Handle::template weak<payload> const observer = one;
    if (work == "create") return seconds(calls, [] { use(Handle::make()); });
    if (work == "create_in_pool") return seconds(calls, [&] { use(Handle::make(pool)); });
    if (work == "copy") return seconds(calls, [&] { use(pointer(one)); });
    if (work == "lock") return seconds(calls, [&] { use(observer.lock()); });
    return -1;
}

}  // namespace

int main(int argc, char** argv) {
    example::arguments words(argc, argv, "handle_costs [--handle H] [--work W] [--calls N]");
    std::string const handle = words.text("--handle", "rc_ptr");
    std::string const work = words.text("--work", "create");
    std::size_t const calls = words.number("--calls", 100'000);
    words.end();
    std::thread([] {}).join();  // from here on libstdc++ counts with atomics, as in any program with threads
    double const taken = handle == "std::shared_ptr" ? measure<standard>(work, calls)
                         : handle == "rc_ptr"        ? measure<counted>(work, calls)
                         : handle == "local_rc_ptr"  ? measure<counted_locally>(work, calls)
                                                     : -1;
    if (taken < 0) return 2;
    std::printf("%s: seconds %.6f\n", handle.c_str(), taken);
    return 0;
}
