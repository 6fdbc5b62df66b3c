// SPDX-License-Identifier: BSL-1.0
// Four threads with names, each with an address in a register and one on its stack; a global, and sparse memory.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int g_number = 4711;
char const g_text[] = "a constant in the file";
std::atomic<int> g_started{0};

namespace server {
struct worker {
    static void run(int i) {
        char name[16];
        std::snprintf(name, sizeof(name), "worker-%d", i);
        pthread_setname_np(pthread_self(), name);
        long volatile on_stack = 0x5AFE0000 + i;
        ++g_started;
        for (;;) {
            if (i == 1)
                on_stack = on_stack + 0;  // this one runs, others sleep
            else
                ::sleep(100);
        }
    }
};
}  // namespace server

int main() {
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
        all.emplace_back(server::worker::run, i);
    while (g_started < 4)
        ::usleep(100);
    // 256 MiB of which two pages are used
    auto* const sparse = static_cast<char*>(::mmap(nullptr, 256u << 20, PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    std::strcpy(sparse + (128u << 20), "in the middle");
    std::strcpy(sparse + (256u << 20) - 4096, "at the end");
    std::printf("g_number %p\ng_text %p\nrun %p\nsparse %p\n", static_cast<void*>(&g_number),
                static_cast<void const*>(g_text), reinterpret_cast<void*>(&server::worker::run),
                static_cast<void*>(sparse));
    std::printf("ready\n");
    std::fflush(stdout);
    if (std::getenv("MAIN_ENDS") != nullptr) ::syscall(SYS_exit, 0);  // this thread alone
    for (;;)
        ::pause();
}
