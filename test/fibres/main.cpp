// SPDX-License-Identifier: BSL-1.0

// A fibre (stackful coroutine) that continues on another thread at each switch, as with the schedulers of fibre libraries. Its function, in
// side.cpp, is compiled with optimization, for an executable and for a shared library: compilers may keep the address of a thread-local
// variable across the switch.

#include "fibres/side.hpp"

#include <ucontext.h>

#include <cstddef>
#include <cstdio>
#include <semaphore>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t k_rounds = 200;

ucontext_t g_thread, g_fibre;
std::size_t g_lost = 0;
bool g_is_done = false;

void switch_thread() { ::swapcontext(&g_fibre, &g_thread); }

void run_fibre() {
    g_lost = fibres::count_lost_blocks(switch_thread, k_rounds);
    g_is_done = true;
    switch_thread();
}

}  // namespace

int main() {
    std::vector<std::byte> stack(256 << 10);
    ::getcontext(&g_fibre);
    g_fibre.uc_stack.ss_sp = stack.data();
    g_fibre.uc_stack.ss_size = stack.size();
    ::makecontext(&g_fibre, run_fibre, 0);

    // The two threads run the fibre in turn, until it is done.
    std::binary_semaphore turn_of_main(1);
    std::binary_semaphore turn_of_other(0);
    auto const run = [](std::binary_semaphore& own, std::binary_semaphore& next) {
        for (bool is_last = false; !is_last;) {
            own.acquire();
            is_last = g_is_done;
            if (!is_last) ::swapcontext(&g_thread, &g_fibre);
            next.release();
        }
    };
    std::thread other([&] { run(turn_of_other, turn_of_main); });
    run(turn_of_main, turn_of_other);
    other.join();
    if (g_lost == 0) return 0;
    std::printf("%zu of %zu blocks went to the cache of a thread that did not free them\n", g_lost,
                5 * k_rounds);
    return 1;
}
