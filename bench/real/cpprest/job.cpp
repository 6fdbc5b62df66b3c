// SPDX-License-Identifier: BSL-1.0
// Chains of continuations, 256 at once: each is made by this thread, and each of its steps runs on one of the two threads of the pool.
#include "job.hpp"

#include "pplx/pplxtasks.h"
#include "pplx/threadpool.h"

#include <memory>
#include <string>
#include <vector>

namespace {

pplx::task<std::uint64_t> chain(std::uint64_t start) {
    auto task = pplx::create_task([start] { return start; });
    for (int step = 0; step < 10; ++step)
        task =
            task.then([step](std::uint64_t value) { return value * 31 + static_cast<std::uint64_t>(step); });
    return task;
}

}  // namespace

void bench::job(digest& output, double scale) {
    static const bool once = [] { return crossplat::threadpool::initialize_with_threads(2), true; }();
    static_cast<void>(once);
    const std::size_t rounds = scaled(240, scale);
    for (std::size_t round = 0; round < rounds; ++round) {
        std::vector<pplx::task<std::uint64_t>> tasks;
        for (std::size_t i = 0; i < 256; ++i)
            tasks.push_back(chain(round * 256 + i));
        for (auto& each : tasks)
            output.add(each.get());
    }
}
