// SPDX-License-Identifier: BSL-1.0
// A synthesizer whose audio callback may neither call malloc nor wait for the kernel. The callback creates and drops voices from
// a pool that was reserved before: reserve() takes the memory, touch_reserved makes its pages resident, so the first use of a
// voice causes no page fault. When all reserved voices play, try_make_unique returns an empty pointer and the note is skipped; the
// callback never waits.
//
//   audio_callback [--callbacks 2000] [--malloc]

#include <pooled/pooled.hpp>

#include "arguments.hpp"
#include "support/malloc_counter.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>

#include <sys/resource.h>

namespace {

constexpr std::size_t k_frames = 128;  // of a callback: 2.7 ms at 48 kHz
constexpr std::size_t k_voices = 64;

// A decaying string: Karplus and Strong's.
class voice {
public:
    explicit voice(std::size_t period) : m_period(period) {
        std::uint32_t noise = static_cast<std::uint32_t>(period) * 2654435761U;
        for (std::size_t i = 0; i < m_period; ++i) {
            noise = noise * 1664525U + 1013904223U;
            m_string[i] = static_cast<float>(static_cast<std::int32_t>(noise)) * 0x1p-31F;
        }
    }

    // Adds its sound; false when it is over. Not inline: GCC compiles the loop with and without a branch, as the code around it is.
    [[gnu::noinline]] bool add_to(std::array<float, k_frames>& out) noexcept {
        for (float& sample : out) {
            std::size_t const next = m_at + 1 == m_period ? 0 : m_at + 1;
            sample += m_string[m_at] * 0.1F;
            m_string[m_at] = (m_string[m_at] + m_string[next]) * 0.498F;
            m_at = next;
        }
        m_age += k_frames;
        return m_age < 6'000;
    }

private:
    std::array<float, 1024> m_string;  // as much of it as the period is written
    std::size_t m_period;
    std::size_t m_at = 0;
    std::size_t m_age = 0;
};

struct from_pool {
    using pointer = pooled::unique_ptr<voice>;

    // Before the callback starts; the bound makes memory for more voices impossible.
    from_pool() { m_voices.reserve<voice>(k_voices); }
    pointer make(std::size_t period) { return m_voices.try_make_unique<voice>(period); }
    // On the audio thread, once: its cache is set up by its first allocation.
    void prepare_thread() { (void)make(100); }

    pooled::pool m_voices{{.name = "voices", .max_bytes = 1U << 20, .touch_reserved = true}};
};
struct from_malloc {
    using pointer = std::unique_ptr<voice>;
    pointer make(std::size_t period) { return std::make_unique<voice>(period); }
    void prepare_thread() {}
};

template <class Memory>
class synthesizer {
public:
    void prepare_thread() { m_memory.prepare_thread(); }

    // Real time: no lock, no system call, no malloc.
    void callback(std::array<float, k_frames>& out, std::size_t note) {
        out.fill(0);
        for (auto& slot : m_playing)
            if (!slot) {
                slot = m_memory.make(60 + note * 37 % 900);
                break;
            }
        for (auto& slot : m_playing)
            if (slot && !slot->add_to(out)) slot.reset();
    }

private:
    Memory m_memory;
    std::array<typename Memory::pointer, k_voices> m_playing{};
};

struct result {
    std::size_t mallocs = 0;
    long page_faults = 0;
    double seconds = 0;
    double energy = 0;
};

template <class Memory>
result run(std::size_t callbacks) {
    synthesizer<Memory> synth;
    result r;
    std::thread audio([&] {
        std::array<float, k_frames> out{};
        synth.prepare_thread();
        rusage before{};
        rusage after{};
        getrusage(RUSAGE_THREAD, &before);
        std::size_t const mallocs = test::malloc_calls_so_far();
        auto const start = std::chrono::steady_clock::now();
        for (std::size_t i = 0; i < callbacks; ++i) {
            synth.callback(out, i);
            for (float const sample : out)
                r.energy += std::abs(static_cast<double>(sample));
        }
        r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        r.mallocs = test::malloc_calls_so_far() - mallocs;
        getrusage(RUSAGE_THREAD, &after);
        r.page_faults = after.ru_minflt - before.ru_minflt;
    });
    audio.join();
    return r;
}

}  // namespace

int main(int argc, char** argv) {
    example::arguments words(argc, argv, "audio_callback [--pool | --malloc] [--callbacks N]");
    bool const is_malloc = words.is_malloc();
    std::size_t const callbacks = words.number("--callbacks", 2'000);
    words.end();
    result const r = is_malloc ? run<from_malloc>(callbacks) : run<from_pool>(callbacks);
    std::printf("%zu callbacks: %zu calls to malloc and free, %ld page faults\n", callbacks, r.mallocs,
                r.page_faults);
    std::printf("%s: seconds %.4f\n", is_malloc ? "malloc" : "pool", r.seconds);
    // A page fault may also be caused by the stack or the kernel, so faults are reported, but not limited.
    return r.energy > 0 && (is_malloc || !test::k_counts_malloc || r.mallocs == 0) ? 0 : 1;
}
