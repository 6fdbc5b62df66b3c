// SPDX-License-Identifier: BSL-1.0
// A server's request parsers, written for Steinwurf's recycle library. Only one include changes:
//
//   before   #include <recycle/shared_pool.hpp>
//   after    #include <pooled/compat/recycle.hpp>
//
// With pooled::object_pool instead, the parsers would lie in the pool's own memory; docs/migration.md shows that.
#include <pooled/compat/recycle.hpp>

#include <array>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

constexpr std::size_t k_buffer_bytes = 65'536;

// Expensive to build, so it is worth reusing.
class Parser : public std::enable_shared_from_this<Parser> {
public:
    Parser() { m_text.reserve(k_buffer_bytes); }

    void feed(std::string const& text) { m_text += text; }
    void reset() { m_text.clear(); }
    std::size_t length() const { return m_text.size(); }
    std::size_t capacity() const { return m_text.capacity(); }

    // A task that keeps its parser until it has run.
    auto task() {
        return [self = shared_from_this()] { return self->length(); };
    }

private:
    std::string m_text;
};

// The original needs this policy for threads; pooled's pools are thread-safe without it.
struct LockingPolicy {
    using mutex_type = std::mutex;
    using lock_type = std::lock_guard<std::mutex>;
};

int main() {
    recycle::shared_pool<Parser, LockingPolicy> parsers(
        [] { return std::make_shared<Parser>(); },
        [](std::shared_ptr<Parser> const& parser) { parser->reset(); });

    std::array<std::size_t, 2> parsed{};
    std::array<std::thread, 2> workers;
    for (std::size_t worker = 0; worker < workers.size(); ++worker)
        workers[worker] = std::thread([&, worker] {
            for (int request = 0; request < 1000; ++request) {
                std::shared_ptr<Parser> parser = parsers.allocate();
                parser->feed("GET /");
                auto const task = parser->task();
                parser.reset();  // not idle yet: the task has it
                parsed[worker] += task();
            }
        });
    for (std::thread& worker : workers)
        worker.join();

    // A unique_pool lends std::unique_ptr; release() takes an object out for good.
    recycle::unique_pool<std::string> names([] { return std::make_unique<std::string>(); },
                                            [](std::unique_ptr<std::string>& name) { name->clear(); });
    names.allocate()->assign("first");
    std::unique_ptr<std::string> const kept(names.allocate().release());

    std::printf("%zu and %zu bytes parsed by %zu parsers\n", parsed[0], parsed[1],
                parsers.unused_resources());
    bool const right = parsed[0] == 5000 && parsed[1] == 5000 && parsers.unused_resources() >= 1 &&
                       parsers.unused_resources() <= 2 && parsers.allocate()->capacity() >= k_buffer_bytes &&
                       kept->empty() && names.unused_resources() == 0;
    return right ? 0 : 1;
}
