// SPDX-License-Identifier: BSL-1.0
// pooled-soak-forks: what the library does in a fork, in a process with many pools and threads, each of which has used all pools.
//
//   pooled-soak-forks [--pools 1000] [--threads 64] [--forks 200] [--busy 0]
//
// Handlers of a fork run before it in the reverse order of their registration, and after it in that order. So the program
// registers one set before the library does and one after it, and takes the time between them: what the library does, and
// nothing of what the kernel does. The child does the same and returns its time by a pipe. All but --busy threads sleep; of a busy
// one it has to wait until it has left its cache, which takes a time slice when the processor does something else.
//
// Result: one JSON object on standard output, times in milliseconds.

#include <pooled/pooled.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// When, and with how much of the thread's processor time.
struct moment {
    double wall = 0;
    double cpu = 0;

    [[nodiscard]] static double milliseconds(clockid_t clock) noexcept {
        timespec now{};
        ::clock_gettime(clock, &now);
        return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
    }
    [[nodiscard]] static moment now() noexcept {
        return {milliseconds(CLOCK_MONOTONIC), milliseconds(CLOCK_THREAD_CPUTIME_ID)};
    }
};
[[nodiscard]] moment operator-(moment a, moment b) noexcept { return {a.wall - b.wall, a.cpu - b.cpu}; }
[[nodiscard]] moment operator+(moment a, moment b) noexcept { return {a.wall + b.wall, a.cpu + b.cpu}; }

// Around the library's handlers, before and after the fork.
moment g_begin_before, g_end_before, g_begin_after, g_end_after;

void note_outside_before() noexcept { g_begin_before = moment::now(); }
void note_inside_before() noexcept { g_end_before = moment::now(); }
void note_inside_after() noexcept { g_begin_after = moment::now(); }
void note_outside_after() noexcept { g_end_after = moment::now(); }

struct series {
    std::vector<double> wall, cpu;

    void add(moment took) {
        wall.push_back(took.wall);
        cpu.push_back(took.cpu);
    }
    [[nodiscard]] static nlohmann::json of(std::vector<double> all) {
        std::sort(all.begin(), all.end());
        return {{"median", all[all.size() / 2]}, {"worst", all.back()}};
    }
    [[nodiscard]] nlohmann::json as_json() const { return {{"wall", of(wall)}, {"cpu", of(cpu)}}; }
};

struct process {
    std::vector<std::unique_ptr<pooled::pool>> pools;
    std::vector<std::thread> threads;
    std::atomic<bool> ends{false};

    void use_all() {
        for (auto const& one : pools)
            static_cast<void>(one->make_shared<std::array<std::byte, 48>>());
    }

    // Returns when each thread has used each pool.
    void start(std::size_t pool_count, std::size_t thread_count, std::size_t busy_count) {
        for (std::size_t i = 0; i < pool_count; ++i)
            pools.push_back(std::make_unique<pooled::pool>());
        std::latch used(static_cast<std::ptrdiff_t>(thread_count));
        for (std::size_t i = 0; i < thread_count; ++i)
            threads.emplace_back([this, &used, is_busy = i < busy_count] {
                use_all();
                used.count_down();
                while (is_busy && !ends)
                    use_all();
                ends.wait(false);
            });
        used.wait();
    }
    void end() {
        ends = true;
        ends.notify_all();
        for (std::thread& one : threads)
            one.join();
    }
};

// Returns whether the child did what it should.
[[nodiscard]] bool fork_once(process& all, series& parent, series& child) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return false;
    pid_t const pid = ::fork();
    if (pid == 0) {
        moment const took = g_end_after - g_begin_after;
        all.use_all();
        ::_exit(::write(ends[1], &took, sizeof took) == sizeof took ? 0 : 1);
    }
    parent.add((g_end_before - g_begin_before) + (g_end_after - g_begin_after));
    moment in_child;
    bool ok = pid > 0 && ::read(ends[0], &in_child, sizeof in_child) == sizeof in_child;
    child.add(in_child);
    int status = -1;
    ok = ok && ::waitpid(pid, &status, 0) == pid && status == 0;
    ::close(ends[0]);
    ::close(ends[1]);
    return ok;
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t pools = 1000;
    std::size_t threads = 64;
    std::size_t forks = 200;
    std::size_t busy = 0;
    CLI::App app("Forks of a process with many pools and threads");
    app.add_option("--pools", pools)->check(CLI::Range(1, 60'000));
    app.add_option("--threads", threads);
    app.add_option("--forks", forks)->check(CLI::Range(1, 1'000'000));
    app.add_option("--busy", busy, "Threads that use the pools meanwhile");
    CLI11_PARSE(app, argc, argv);

    bool ok = ::pthread_atfork(note_inside_before, note_inside_after, note_inside_after) == 0;
    process all;
    all.start(pools, threads, busy);
    ok = ok && ::pthread_atfork(note_outside_before, note_outside_after, note_outside_after) == 0;

    series parent;
    series child;
    std::size_t failed = 0;
    for (std::size_t i = 0; i < forks; ++i) {
        failed += fork_once(all, parent, child) ? 0 : 1;
        all.use_all();  // resumes the caches that the fork has stopped
    }
    all.end();
    nlohmann::json const record{{"program", "forks"},
                                {"pools", pools},
                                {"threads", threads},
                                {"busy", busy},
                                {"forks", forks},
                                {"failed_children", failed},
                                {"parent_ms", parent.as_json()},
                                {"child_ms", child.as_json()}};
    std::cout << record.dump() << '\n';
    return ok && failed == 0 ? 0 : 1;
}
