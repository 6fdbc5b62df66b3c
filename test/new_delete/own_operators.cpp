// SPDX-License-Identifier: BSL-1.0
// A program that replaces the two operators that the standard's others call. Preloaded ones must call these.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>

namespace {
std::atomic<int> g_made{0};
std::atomic<int> g_dropped{0};
}  // namespace

void* operator new(std::size_t bytes) {
    ++g_made;
    if (void* const p = std::malloc(bytes + 1)) return p;
    throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
    if (p == nullptr) return;
    ++g_dropped;
    std::free(p);
}

int main() {
    auto const work = [] {
        for (std::size_t bytes : {1U, 50U, 3'000U, 100'000U}) {
            ::operator delete(::operator new(bytes), bytes);
            ::operator delete[](::operator new[](bytes));
            ::operator delete[](::operator new[](bytes, std::nothrow), bytes);
            ::operator delete(::operator new(bytes, std::nothrow), std::nothrow);
        }
    };
    int const made = g_made;
    int const dropped = g_dropped;
    work();
    if (g_made - made != 16 || g_dropped - dropped != 16) return 1;
    std::thread(work).join();
    std::string(1'000, 'x').append("y");  // libstdc++'s own code
    return 0;
}
