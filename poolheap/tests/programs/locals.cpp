// SPDX-License-Identifier: BSL-1.0
// Packets that only local variables hold, in main's thread and in another one.
#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include <unistd.h>

namespace app {

struct packet {
    std::array<unsigned char, 100> bytes{};
};
struct packet_queue {
    std::size_t limit = 1000;
    std::vector<std::shared_ptr<packet>> waiting;
};

std::atomic<int> g_waiting{0};

void wait_for(packet_queue& queue) {
    ++g_waiting;
    for (;;) {
        ::pause();
        queue.limit = 0;
    }
}

void run_pipeline(int packets) {
    packet_queue parsed;
    std::map<int, std::shared_ptr<packet>> by_number;
    for (int i = 0; i < packets; ++i)
        by_number[i] = parsed.waiting.emplace_back(std::make_shared<packet>());
    wait_for(parsed);
}

}  // namespace app

int main() {
    std::thread(app::run_pipeline, 300).detach();
    std::thread([] {
        while (app::g_waiting != 2)
            std::this_thread::yield();
        ::usleep(10'000);  // until they pause
        std::puts("ready");
        std::fflush(stdout);
    }).detach();
    app::run_pipeline(1000);
}
