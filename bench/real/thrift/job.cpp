// SPDX-License-Identifier: BSL-1.0
// A server of threads from a pool: a thread accepts connections and makes what the library has for each, another reads two requests of it,
// answers them and drops it all. A connection is memory, at most 256 at once.
#include "job.hpp"

#include "Store.h"

#include <handles.hpp>
#include <thrift/concurrency/ThreadFactory.h>
#include <thrift/concurrency/ThreadManager.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TThreadPoolServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerTransport.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace protocol = apache::thrift::protocol;
namespace transport = apache::thrift::transport;

constexpr std::size_t k_at_once = 256;

// Written by the thread that answers.
struct alignas(128) answers {
    std::uint64_t sum = 0;
    std::atomic<std::size_t> closed = 0;
};

class connection final : public transport::TVirtualTransport<connection> {
    std::string_view m_requests;
    answers& m_answers;
    bench::digest m_digest;
    bool m_open = true;

public:
    connection(std::string_view requests, answers& into) : m_requests(requests), m_answers(into) {}

    bool isOpen() const override { return m_open; }
    bool peek() override { return !m_requests.empty(); }

    std::uint32_t read(std::uint8_t* to, std::uint32_t length) {
        const std::size_t found = std::min<std::size_t>(length, m_requests.size());
        std::memcpy(to, m_requests.data(), found);
        m_requests.remove_prefix(found);
        return static_cast<std::uint32_t>(found);
    }

    void write(const std::uint8_t* from, std::uint32_t length) {
        m_digest.add({reinterpret_cast<const char*>(from), length});
    }

    void close() override {
        if (!std::exchange(m_open, false)) return;
        m_answers.sum += m_digest.value();
        m_answers.closed.store(m_answers.closed.load(std::memory_order_relaxed) + 1,
                               std::memory_order_release);
    }
};

class listener final : public transport::TServerTransport {
    const std::vector<std::string>& m_requests;
    answers& m_answers;
    std::size_t m_left;
    std::size_t m_accepted = 0;
    std::size_t m_closed = 0;  // at least

public:
    listener(const std::vector<std::string>& requests, answers& into, std::size_t connections)
        : m_requests(requests), m_answers(into), m_left(connections) {}

    void close() override {}

protected:
    bench::shared_ptr<transport::TTransport> acceptImpl() override {
        if (m_left-- == 0) throw transport::TTransportException(transport::TTransportException::INTERRUPTED);
        if (m_accepted - m_closed == k_at_once)
            while ((m_closed = m_answers.closed.load(std::memory_order_acquire)) + k_at_once / 2 < m_accepted)
                std::this_thread::sleep_for(std::chrono::microseconds(50));
        return bench::make_shared<connection>(m_requests[m_accepted++ % m_requests.size()], m_answers);
    }
};

class store_handler final : public store::StoreIf {
public:
    void restock(store::Item& changed, const store::Item& item, const std::int32_t by) override {
        changed = item;
        changed.tags.push_back("restocked");
        for (auto& [place, pieces] : changed.stock)
            pieces += by;
    }

    std::int32_t count(const std::string& name) override { return static_cast<std::int32_t>(name.size()); }
};

// Ends a connection after its last request, where the library's own end is an exception.
class processor final : public store::StoreProcessor {
    using pointer = bench::passed<protocol::TProtocol>;

public:
    using StoreProcessor::StoreProcessor;

    bool process(pointer in, pointer out, void* context) override {
        return StoreProcessor::process(in, out, context) && in->getTransport()->peek();
    }
};

std::string requests_of(std::int32_t number) {
    store::Item item;
    item.id = number;
    item.name = "an item of the store, number " + std::to_string(number);
    for (std::int32_t i = 0; i < 2 + number % 3; ++i) {
        item.tags.push_back("tag " + std::to_string(number * 7 + i));
        item.stock["place " + std::to_string(i)] = number * 31 + i;
    }
    const auto memory = bench::make_shared<transport::TMemoryBuffer>();
    store::StoreClient client(protocol::TBinaryProtocolFactory().getProtocol(memory));
    client.send_restock(item, number);
    client.send_count(item.name);
    return memory->getBufferAsString();
}

}  // namespace

void bench::job(digest& output, double scale) {
    std::vector<std::string> requests;
    for (std::int32_t number = 0; number < 64; ++number)
        requests.push_back(requests_of(number));
    const auto threads = apache::thrift::concurrency::ThreadManager::newSimpleThreadManager(1);
    threads->threadFactory(std::make_shared<apache::thrift::concurrency::ThreadFactory>(false));
    threads->start();
    answers found;
    apache::thrift::server::TThreadPoolServer server(
        std::make_shared<processor>(std::make_shared<store_handler>()),
        std::make_shared<listener>(requests, found, scaled(250'000, scale)),
        std::make_shared<transport::TBufferedTransportFactory>(),
        std::make_shared<protocol::TBinaryProtocolFactory>(), threads);
    server.serve();  // until all are accepted; it ends when all are answered
    output.add(found.sum);
}
