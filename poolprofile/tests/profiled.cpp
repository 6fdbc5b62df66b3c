// SPDX-License-Identifier: BSL-1.0
// What the tests of `poolbench profile` record; its argument says how it ends, or what it does instead of the usual work.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace my {
struct Packet {
    explicit Packet(unsigned char first) { m_data[0] = first; }
    unsigned char m_data[200];
};
struct Kept {
    double m_data[40] = {};
};
struct Plain {
    double m_values[15] = {};
};
struct Shape {
    virtual ~Shape() = default;
    double m_area[6] = {};
};
}  // namespace my

namespace {

template <class T>
void see(const T* p) {
    asm volatile("" : : "r"(p) : "memory");
}

// Half of the packets are freed by another thread; what is kept outlives a window.
void work(int rounds) {
    std::vector<std::unique_ptr<my::Kept>> kept(2000);
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < 100; ++i)
            kept[static_cast<std::size_t>(100 * round + i) % kept.size()] = std::make_unique<my::Kept>();
        std::vector<std::shared_ptr<my::Packet>> handed;
        for (int i = 0; i < 2000; ++i) {
            handed.push_back(std::make_shared<my::Packet>(static_cast<unsigned char>(i)));
            const std::unique_ptr<my::Shape> shape = std::make_unique<my::Shape>();
            see(shape.get());
        }
        if (round % 2 == 0)
            handed.clear();
        else
            std::thread([&] { handed.clear(); }).join();
        usleep(500);  // however quick the machine, a run of 300 rounds spans several windows
    }
}

// Each page is new.
void grow() {
    for (int i = 0; i < 4'000'000; ++i)
        see(std::memset(std::malloc(100), 1, 100));
}

// The first malloc after the pause merges all that was freed. Five times: on a busy machine, a window may be open after a pause.
void merge() {
    std::vector<void*> kept(400'000);
    for (int round = 0; round < 5; ++round) {
        for (void*& each : kept)
            each = std::malloc(48);
        for (void* each : kept)
            std::free(each);
        usleep(20'000);
        void* large[] = {std::malloc(4096), std::malloc(200 << 20)};
        see(large);
        std::free(large[1]);
        std::free(large[0]);
    }
}

void call(std::size_t size) {
    for (int i = 0; i < 1000; ++i) {
        void* block = std::malloc(size);
        see(block);
        std::free(block);
    }
}

}  // namespace

int main(int count, char** arguments) {
    const char* how = count > 1 ? arguments[1] : "exit";
    if (std::strcmp(how, "grow") == 0) return grow(), 0;
    if (std::strcmp(how, "merge") == 0) return merge(), 0;
    if (std::strcmp(how, "call") == 0) return call(4242), 0;
    if (std::strcmp(how, "fork") == 0) {
        work(50);
        if (fork() == 0) {
            work(300);
            _exit(0);
        }
        int status = 0;
        wait(&status);
        return status;
    }
    for (int i = 0; std::strcmp(how, "plain") == 0 && i < 300'000; ++i)
        see(std::shared_ptr<my::Plain>(new my::Plain).get());
    do
        work(300);
    while (std::strcmp(how, "forever") == 0);
    void* aligned = nullptr;
    if (posix_memalign(&aligned, 256, 1000) != 0 || reinterpret_cast<unsigned long>(aligned) % 256 != 0)
        return 1;
    aligned = std::realloc(aligned, 5000);
    std::free(aligned);
    std::free(std::aligned_alloc(64, 640));
    std::free(std::calloc(10, 10));
    if (std::strcmp(how, "kill") == 0) raise(SIGKILL);
    return 0;
}
