// SPDX-License-Identifier: BSL-1.0
// The smallest user: the umbrella header, one shared object, one thread (so that Threads must be linked).
#include <pooled/pooled.hpp>

#include <memory>
#include <thread>

int main() {
    std::shared_ptr<int> answer = pooled::make_shared<int>(42);
    int seen = 0;
    std::thread([&seen, answer] { seen = *answer; }).join();
    return seen == 42 ? 0 : 1;
}
