// SPDX-License-Identifier: BSL-1.0
// pooled-soak: how much memory a pool holds for what is alive, over minutes of mixed use.
//
// Eight threads replace random blocks of 1 B to --largest (logarithmically uniform), all of which are written. How much
// each keeps alive changes every second or so; one block in eight is handed to another thread, which frees it; a thread
// ends after a few seconds, and another one takes over what it had. Ten times a second the resident memory, less that of
// the empty process, is divided by the live bytes. A block whose first or last byte was overwritten is counted as lost.
//
//   pooled-soak --seconds 600 [--largest 40960] [--contender pooled|malloc|new]
//
// With malloc and new, LD_PRELOAD says which.
//
// Result: one JSON object on standard output. Progress on standard error.

#include <pooled/pooled.hpp>

#include "support/environment.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t k_threads = 8;
constexpr std::size_t k_most_live = std::size_t{24} << 20;  // of a thread

struct block {
    void* at = nullptr;
    std::size_t bytes = 0;
};

struct memory_source {
    std::string contender;
    double largest;
    std::atomic<std::int64_t> live{0};
    std::atomic<std::uint64_t> lost{0};

    block allocate(std::size_t bytes) {
        void* const p = is("pooled") ? pooled::default_pool().allocate(bytes)
                        : is("new")  ? ::operator new(bytes)
                                     : std::malloc(bytes);
        if (p == nullptr) throw std::bad_alloc();
        std::memset(p, tag({p, bytes}), bytes);
        live.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
        return {p, bytes};
    }
    void deallocate(block b) {
        auto const* const bytes = static_cast<unsigned char const*>(b.at);
        if (bytes[0] != tag(b) || bytes[b.bytes - 1] != tag(b)) ++lost;
        live.fetch_sub(static_cast<std::int64_t>(b.bytes), std::memory_order_relaxed);
        if (is("pooled"))
            pooled::default_pool().deallocate(b.at, b.bytes);
        else if (is("new"))
            ::operator delete(b.at, b.bytes);
        else
            std::free(b.at);
    }

private:
    bool is(char const* name) const { return contender == name; }
    static unsigned char tag(block b) {
        return static_cast<unsigned char>(b.bytes ^ reinterpret_cast<std::uintptr_t>(b.at) >> 3);
    }
};

struct mailbox {
    std::mutex lock;
    std::vector<block> blocks;

    void put(block b) {
        std::scoped_lock const guard(lock);
        blocks.push_back(b);
    }
    std::vector<block> take() {
        std::scoped_lock const guard(lock);
        return std::exchange(blocks, {});
    }
};

struct soak {
    memory_source from;
    std::array<mailbox, k_threads> mail;
    std::array<std::vector<block>, k_threads> held;  // what a thread has; the next one takes over
    std::atomic<bool> stop{false};

    // Until its time is over.
    void work(std::size_t self, std::uint64_t seed) {
        using clock = std::chrono::steady_clock;
        std::mt19937_64 random(seed);
        std::uniform_real_distribution<double> part(0, 1);
        std::vector<block>& mine = held[self];
        std::size_t bytes = 0;
        for (block const b : mine)
            bytes += b.bytes;
        auto const end = clock::now() + std::chrono::milliseconds(1000 + random() % 4000);
        auto next_phase = clock::now();
        std::size_t wanted = 0;
        for (std::uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
            if (i % 256 == 0) {
                auto const now = clock::now();
                if (now > end) return;
                if (now > next_phase) {
                    wanted = k_most_live / 8 + random() % (k_most_live * 7 / 8);
                    next_phase = now + std::chrono::milliseconds(300 + random() % 1500);
                }
                for (block const b : mail[self].take())
                    from.deallocate(b);
            }
            while (!mine.empty() && bytes > wanted) {
                std::size_t const which = random() % mine.size();
                std::swap(mine[which], mine.back());
                bytes -= mine.back().bytes;
                if (random() % 8 == 0)
                    mail[random() % k_threads].put(mine.back());
                else
                    from.deallocate(mine.back());
                mine.pop_back();
            }
            auto const size = static_cast<std::size_t>(std::exp(part(random) * std::log(from.largest)));
            mine.push_back(from.allocate(std::max<std::size_t>(size, 1)));
            bytes += mine.back().bytes;
        }
    }

    void run_one_after_the_other(std::size_t self) {
        for (std::uint64_t n = 0; !stop.load(std::memory_order_relaxed); ++n)
            std::thread([&] { work(self, self * 1000 + n); }).join();
    }
};

nlohmann::json measure(soak& s, double seconds) {
    using clock = std::chrono::steady_clock;
    std::size_t const base = bench::resident_bytes();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < k_threads; ++i)
        threads.emplace_back([&s, i] { s.run_one_after_the_other(i); });

    auto const begin = clock::now();
    auto const elapsed = [&] { return std::chrono::duration<double>(clock::now() - begin).count(); };
    double sum = 0;
    double worst = 0;
    std::uint64_t count = 0;
    for (double shown = 0; elapsed() < seconds;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (elapsed() < std::min(5.0, seconds / 4)) continue;  // it fills
        auto const live = static_cast<double>(s.from.live.load(std::memory_order_relaxed));
        double const ratio = static_cast<double>(bench::resident_bytes() - base) / live;
        sum += ratio;
        worst = std::max(worst, ratio);
        ++count;
        if (elapsed() - shown > 10) {
            shown = elapsed();
            std::fprintf(
                stderr,
                "%.0f of %.0f s: %.0f MiB live, resident / live %.2f now, %.2f on average, %.2f at worst\n",
                shown, seconds, live / (1 << 20), ratio, sum / static_cast<double>(count), worst);
        }
    }
    s.stop = true;
    for (std::thread& one : threads)
        one.join();
    for (std::size_t i = 0; i < k_threads; ++i) {
        for (block const b : s.mail[i].take())
            s.from.deallocate(b);
        for (block const b : s.held[i])
            s.from.deallocate(b);
    }
    return {{"seconds", seconds},
            {"lost", s.from.lost.load()},
            {"live_at_end", s.from.live.load()},
            {"samples", count},
            {"average", sum / static_cast<double>(count)},
            {"worst", worst}};
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Resident memory for what is alive, over minutes of mixed use");
    double seconds = 600;
    double largest = 40 << 10;
    std::string contender = "pooled";
    app.add_option("--seconds", seconds, "how long")->check(CLI::Range(1.0, 1e6));
    app.add_option("--largest", largest, "bytes of the largest block")->check(CLI::Range(1.0, 1e7));
    app.add_option("--contender", contender, "whose memory")
        ->check(CLI::IsMember({"pooled", "malloc", "new"}));
    CLI11_PARSE(app, argc, argv);

    auto const s = std::make_unique<soak>();
    s->from.contender = contender;
    s->from.largest = largest;
    nlohmann::json result = measure(*s, seconds);
    result["contender"] = contender;
    result["largest"] = largest;
    char const* const preloaded = std::getenv("LD_PRELOAD");
    result["preload"] = preloaded != nullptr ? preloaded : "";
    std::cout << result.dump() << '\n';
}
