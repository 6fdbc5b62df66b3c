// SPDX-License-Identifier: BSL-1.0
// Repeats what a program allocated, by malloc or with some of its objects in the pool: the child of `poolbench replay`.
//
// usage: replay PLAN malloc|new|none[,GROUP...] ROUNDS
//
// The driver makes the plan of a trace: for each window the objects that were alive at its begin, and the operations of
// each thread with their place in the common order. GROUPs name the objects that come from the pool; all others come
// from malloc, or from operator new, in either case, so that the difference is those groups' alone. With `none` nothing
// is allocated: that time is the replay's own.
//
// Threads keep the recorded order: none gets further ahead of another than k_ahead operations, and nothing is freed
// before it exists. What a thread waits for that is taken off its time, which is processor time. An object's first words
// are written at its begin and read at its end, as those of a control block are. The first of several rounds warms up.
#include <pooled/pooled.hpp>

#include "support/environment.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr char k_magic[] = "poolplan1";
constexpr std::uint32_t k_ahead = 256;
constexpr std::ptrdiff_t k_scratch = 256;  // cache lines that stand for all objects when nothing is allocated
constexpr std::uint32_t k_tell = 32;       // operations between two words on how far a thread is

struct object {
    std::uint32_t size;
    std::uint16_t group;
    std::uint8_t align;  // log2; 0: malloc's own
    std::uint8_t
        before;  // 1 + the thread that creates it before the window's begin; 0: it is created in the window
};
static_assert(sizeof(object) == 8);

struct operation {
    std::uint32_t place;  // in the common order
    std::uint32_t what;   // object << 1 | is its end
};

struct window {
    std::vector<object> objects;
    std::vector<std::vector<operation>> of_thread;
};

class reader {
public:
    explicit reader(const char* path) : m_file(std::fopen(path, "rb")) {
        if (!m_file) throw std::runtime_error(std::string("cannot open ") + path);
    }
    reader(const reader&) = delete;
    reader& operator=(const reader&) = delete;
    ~reader() { std::fclose(m_file); }

    void read(void* to, std::size_t bytes) {
        if (bytes != 0 && std::fread(to, 1, bytes, m_file) != bytes)
            throw std::runtime_error("the plan ends too early");
    }
    std::uint32_t number() {
        std::uint32_t found;
        read(&found, sizeof found);
        return found;
    }

private:
    std::FILE* m_file;
};

std::vector<window> read_plan(const char* path, std::uint32_t& threads) {
    reader from(path);
    char magic[sizeof k_magic] = {};
    from.read(magic, sizeof k_magic - 1);
    if (std::strcmp(magic, k_magic) != 0) throw std::runtime_error("this is no plan of poolbench");
    threads = from.number();
    std::vector<window> windows(from.number());
    for (window& each : windows) {
        each.objects.resize(from.number());
        from.read(each.objects.data(), each.objects.size() * sizeof(object));
        each.of_thread.resize(threads);
        for (auto& operations : each.of_thread) {
            operations.resize(from.number());
            from.read(operations.data(), operations.size() * sizeof(operation));
        }
    }
    return windows;
}

double processor_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct chooser {
    bool nothing = false;
    bool by_new = false;       // what is not in the pool comes from operator new
    std::vector<bool> groups;  // those in the pool; never 0
    bool operator()(const object& each) const { return each.group < groups.size() && groups[each.group]; }
};

chooser chosen(const std::string& words) {
    chooser found;
    std::istringstream from(words);
    for (std::string word; std::getline(from, word, ',');) {
        found.nothing = found.nothing || word == "none";
        found.by_new = found.by_new || word == "new";
        const auto group = static_cast<std::uint16_t>(std::atoi(word.c_str()));
        if (group == 0) continue;
        if (found.groups.size() <= group) found.groups.resize(std::size_t{group} + 1);
        found.groups[group] = true;
    }
    return found;
}

class replayer {
public:
    replayer(std::vector<window>& windows, std::uint32_t threads, chooser pooled)
        : m_windows(windows),
          m_threads(threads),
          m_pooled(pooled),
          m_progress(threads),
          m_barrier(static_cast<std::ptrdiff_t>(threads)) {}

    // Replays every window once.
    void round(bool counts) {
        m_seconds.assign(m_windows.size(), std::vector<double>(m_threads));
        std::vector<std::thread> others;
        for (std::uint32_t t = 1; t < m_threads; ++t)
            others.emplace_back([this, t] { work(t); });
        work(0);
        for (std::thread& each : others)
            each.join();
        m_taken.resize(m_windows.size());
        for (std::size_t w = 0; counts && w < m_windows.size(); ++w)
            m_taken[w].push_back(std::accumulate(m_seconds[w].begin(), m_seconds[w].end(), 0.0));
    }

    // Of all threads together, of all windows. A window takes a few milliseconds: of one thread its least time is one
    // that nothing disturbed. Of several the least is one in which they did not meet: there the middle counts.
    double seconds() {
        double sum = 0;
        for (std::vector<double>& taken : m_taken) {
            std::sort(taken.begin(), taken.end());
            sum += taken[m_threads == 1 ? 0 : taken.size() / 2];
        }
        return sum;
    }

private:
    struct alignas(128) progress {
        std::atomic<std::uint32_t> place{0};
    };

    void work(std::uint32_t t) {
        for (std::size_t w = 0; w < m_windows.size(); ++w) {
            window& each = m_windows[w];
            if (t == 0) {
                if (m_slots.size() < each.objects.size())
                    m_slots = std::vector<std::atomic<void*>>(each.objects.size());
                for (progress& p : m_progress)
                    p.place.store(0, std::memory_order_relaxed);
            }
            m_barrier.arrive_and_wait();
            for (std::size_t i = 0; i < each.objects.size(); ++i)
                if (each.objects[i].before == t + 1) begin(each.objects[i], m_slots[i]);
            m_barrier.arrive_and_wait();
            const double began = processor_seconds();
            const double waited = operations_of(each, t);
            m_seconds[w][t] = processor_seconds() - began - waited;
            m_progress[t].place.store(~std::uint32_t{0}, std::memory_order_release);
            m_barrier.arrive_and_wait();
            if (t == 0) {
                for (std::size_t i = 0; i < each.objects.size(); ++i)
                    if (m_slots[i].load(std::memory_order_relaxed)) end(each.objects[i], m_slots[i]);
            }
        }
    }

    // Returns the time that it waited, in seconds.
    double operations_of(const window& in, std::uint32_t t) {
        double waited = 0;
        std::uint32_t until_told = 0;
        for (const operation& each : in.of_thread[t]) {
            if (m_threads > 1 && until_told-- == 0) {
                until_told = k_tell - 1;
                m_progress[t].place.store(each.place,
                                          std::memory_order_release);  // pairs with the load in too_far
                if (too_far(each.place)) waited += wait([&] { return too_far(each.place); });
            }
            const std::uint32_t index = each.what >> 1;
            std::atomic<void*>& slot = m_slots[index];
            if ((each.what & 1) == 0) {
                begin(in.objects[index], slot);
                continue;
            }
            if (!slot.load(std::memory_order_acquire)) {  // pairs with the store in begin
                // Others may wait for this thread in turn: publish its progress.
                m_progress[t].place.store(each.place, std::memory_order_release);
                waited += wait([&] { return !slot.load(std::memory_order_acquire); });
            }
            end(in.objects[index], slot);
        }
        return waited;
    }

    bool too_far(std::uint32_t place) const {
        for (const progress& other : m_progress)
            if (other.place.load(std::memory_order_acquire) + std::uint64_t{k_ahead} < place) return true;
        return false;
    }

    template <class Condition>
    static double wait(Condition still) {
        const double began = processor_seconds();
        for (int spins = 0; still(); ++spins)
            if (spins > 100) std::this_thread::yield();
        return processor_seconds() - began;
    }

    void begin(const object& what, std::atomic<void*>& slot) {
        void* p;
        if (m_pooled.nothing)
            p = m_scratch.data() + (&slot - m_slots.data()) % k_scratch * sizeof(std::uint64_t) * 8;
        else if (m_pooled(what))
            p = pooled::default_pool().allocate(what.size, align_of(what));
        else if (m_pooled.by_new)
            p = what.align == 0 ? ::operator new(what.size)
                                : ::operator new(what.size, std::align_val_t{align_of(what)});
        else
            p = what.align == 0 ? std::malloc(what.size) : std::aligned_alloc(align_of(what), rounded(what));
        if (!p) throw std::bad_alloc();
        if (what.size >= 2 * sizeof(std::uint64_t)) {
            const std::uint64_t words[2] = {1, 1};
            std::memcpy(p, words, sizeof words);
        }
        slot.store(p, std::memory_order_release);  // pairs with the load in operations_of
    }

    void end(const object& what, std::atomic<void*>& slot) {
        void* const p = slot.load(std::memory_order_relaxed);
        slot.store(nullptr, std::memory_order_relaxed);
        if (what.size >= 2 * sizeof(std::uint64_t)) {
            std::uint64_t counts;
            std::memcpy(&counts, static_cast<char*>(p) + sizeof counts, sizeof counts);
            asm volatile("" : : "r"(counts));
        }
        if (m_pooled.nothing) return;
        if (m_pooled(what))
            pooled::default_pool().deallocate(p, what.size, align_of(what));
        else if (m_pooled.by_new && what.align == 0)
            ::operator delete(p, what.size);
        else if (m_pooled.by_new)
            ::operator delete(p, what.size, std::align_val_t{align_of(what)});
        else
            std::free(p);
    }

    static std::size_t align_of(const object& what) {
        return what.align == 0 ? alignof(std::max_align_t) : std::size_t{1} << what.align;
    }
    static std::size_t rounded(const object& what) {
        return (what.size + align_of(what) - 1) & ~(align_of(what) - 1);
    }

    std::vector<window>& m_windows;
    std::uint32_t m_threads;
    chooser m_pooled;
    std::vector<progress> m_progress;
    std::barrier<> m_barrier;
    std::vector<std::atomic<void*>> m_slots;
    std::vector<std::byte> m_scratch = std::vector<std::byte>(k_scratch * 64);
    std::vector<std::vector<double>> m_seconds;  // of a window and a thread, in this round
    std::vector<std::vector<double>> m_taken;    // of a window, in each round that counts
};

int replay(char** arguments) {
    std::uint32_t threads = 0;
    std::vector<window> windows = read_plan(arguments[1], threads);
    const int rounds = std::max(1, std::atoi(arguments[3]));
    std::thread([] {}).join();  // as in a program with threads
    replayer each(windows, std::max(threads, std::uint32_t{1}), chosen(arguments[2]));
    for (int round = 0; round < rounds; ++round)
        each.round(round > 0 || rounds == 1);
    std::size_t operations = 0;
    for (const window& w : windows)
        for (const auto& of : w.of_thread)
            operations += of.size();
    const bench::malloc_in_use mapped = bench::mapped_malloc();
    std::printf("{\"seconds\": %.9f, \"operations\": %zu, \"malloc\": \"%s\", \"malloc_path\": \"%s\"}\n",
                each.seconds(), operations, mapped.name.c_str(), mapped.path.c_str());
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 4) {
        std::fprintf(stderr, "usage: %s PLAN malloc|new|none[,GROUP...] ROUNDS\n", arguments[0]);
        return 2;
    }
    try {
        return replay(arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "replay: %s\n", error.what());
        return 1;
    }
}
