// SPDX-License-Identifier: BSL-1.0
// A server whose numbers come from its environment: SESSIONS that were served, of which one in a thousand is lost in a cycle, CONNECTED
// that are held by a table, PACKETS in a queue whose consumer is stuck, JOBS of which each holds the
// next one, and pairs of SHELVES that hold each other.
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <unistd.h>

namespace app {

struct session {
    std::array<char, 200> buffer{};
    std::function<void()> on_timer;
};
struct packet {
    std::array<unsigned char, 1500> bytes{};
};
struct packet_queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<packet>> waiting;
};

struct job {
    std::unique_ptr<job> next;
    std::array<char, 100> text{};
};

struct shelf {
    long number = 0;
    std::shared_ptr<shelf[]> next;
};

std::map<int, std::shared_ptr<session>> g_connected;
std::unique_ptr<job> g_jobs;

int number(char const* variable) {
    char const* const text = std::getenv(variable);
    return text != nullptr ? std::atoi(text) : 0;
}

void serve(int id) {
    auto const one = std::make_shared<session>();
    one->buffer[0] = static_cast<char>(id);
    if (id % 1000 == 0)
        one->on_timer = [one, id] { std::printf("%d of %p\n", id, static_cast<void*>(one.get())); };
    else
        one->on_timer = [weak = std::weak_ptr(one), id] { std::printf("%d %ld\n", id, weak.use_count()); };
}

void lose_shelves() {
    auto const one = std::make_shared<shelf[]>(3), other = std::make_shared<shelf[]>(5);
    one[1].next = other;
    other[1].next = one;
}

}  // namespace app

int main() {
    using namespace app;
    for (int i = 0; i < number("SHELVES"); ++i)
        lose_shelves();
    for (int i = 1; i <= number("SESSIONS"); ++i)
        serve(i);
    for (int i = 0; i < number("CONNECTED"); ++i)
        g_connected[i] = std::make_shared<session>();
    auto const queue = std::make_shared<packet_queue>();
    std::thread consumer([&] {  // waits for a message that nobody sends
        std::unique_lock lock(queue->mutex);
        queue->changed.wait(lock, [] { return false; });
    });
    for (int i = 0; i < number("PACKETS"); ++i) {
        std::scoped_lock const lock(queue->mutex);
        queue->waiting.push_back(std::make_shared<packet>());
    }
    for (int i = 0; i < number("JOBS"); ++i) {
        auto one = std::make_unique<job>();
        std::printf("job%d %p\n", i, static_cast<void*>(one.get()));
        one->next = std::move(g_jobs);
        g_jobs = std::move(one);
    }
    if (!g_connected.empty())
        std::printf("session %p\n", static_cast<void*>(g_connected.begin()->second.get()));
    std::printf("ready\n");
    std::fflush(stdout);
    for (;;)
        ::pause();
}
