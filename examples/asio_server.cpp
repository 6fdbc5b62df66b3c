// SPDX-License-Identifier: BSL-1.0
// An echo and chat server on loopback with Boost.Asio, and a client that loads it. In steady state a message costs no malloc:
//
//   handlers      asio::bind_allocator(pooled::allocator<>): Asio takes the memory of an operation from its handler
//   connections   an object_pool: a session keeps its queue and buffers between clients
//   messages      rc_ptr from an object_pool: 8 bytes, shared by all receivers of a chat message
//
//   asio_server [--chat] [--clients 4] [--messages 2000] [--malloc]
//
// The client sends the next message when its own returns. The program counts the calls to malloc of both sides between the
// first third of the messages and the last one.

#include <pooled/pooled.hpp>

#include "arguments.hpp"
#include "support/malloc_counter.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

namespace {

// A length, then as many bytes.
struct message {
    static constexpr std::size_t k_header = 2;
    static constexpr std::size_t k_capacity = 512;

    std::array<std::uint8_t, k_header + k_capacity> bytes;

    [[nodiscard]] std::size_t body_size() const noexcept { return (std::size_t{bytes[0]} << 8) | bytes[1]; }
    void set_body_size(std::size_t size) noexcept {
        bytes[0] = static_cast<std::uint8_t>(size >> 8);
        bytes[1] = static_cast<std::uint8_t>(size);
    }
    [[nodiscard]] auto header() noexcept { return asio::buffer(bytes.data(), k_header); }
    [[nodiscard]] auto body() noexcept { return asio::buffer(bytes.data() + k_header, body_size()); }
    [[nodiscard]] auto all() const noexcept { return asio::buffer(bytes.data(), k_header + body_size()); }
};

// Where memory comes from: two policies with the same members.
struct from_pools {
    template <class T>
    using allocator = pooled::allocator<T>;
    using message_ptr = pooled::rc_ptr<message>;

    template <class T>
    class objects {
    public:
        std::shared_ptr<T> acquire() { return m_pool.acquire(); }

    private:
        pooled::object_pool<T, pooled::reset_on_release> m_pool;
    };

    message_ptr make_message() { return pooled::make_rc_for_overwrite<message>(); }

    template <class Handler>
    static auto bind(Handler handler) {
        return asio::bind_allocator(allocator<std::byte>(), std::move(handler));
    }
};

struct from_malloc {
    template <class T>
    using allocator = std::allocator<T>;
    using message_ptr = std::shared_ptr<message>;

    template <class T>
    class objects {
    public:
        std::shared_ptr<T> acquire() { return std::make_shared<T>(); }
    };

    message_ptr make_message() { return std::make_shared<message>(); }

    template <class Handler>
    static auto bind(Handler handler) {
        return asio::bind_allocator(allocator<std::byte>(), std::move(handler));
    }
};

template <class Memory>
class server {
public:
    server(asio::io_context& context, bool is_chat)
        : m_acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)), m_is_chat(is_chat) {
        accept();
    }

    [[nodiscard]] tcp::endpoint endpoint() const { return m_acceptor.local_endpoint(); }
    void stop() { m_acceptor.close(); }

private:
    using message_ptr = typename Memory::message_ptr;

    // One client. The pool keeps it constructed: reset() makes it ready for the next one.
    struct session {
        std::optional<tcp::socket> socket{};
        message_ptr incoming{};
        std::deque<message_ptr, typename Memory::template allocator<message_ptr>> outgoing{};

        // There is a socket from acquire to release.
        tcp::socket& connection() { return *socket; }  // NOLINT(bugprone-unchecked-optional-access)

        void reset() noexcept {
            socket.reset();
            incoming.reset();
            outgoing.clear();
        }
    };
    using session_ptr = std::shared_ptr<session>;

    void accept() {
        m_acceptor.async_accept(Memory::bind([this](boost::system::error_code error, tcp::socket socket) {
            if (error) return;
            socket.set_option(tcp::no_delay(true));
            session_ptr const s = m_pool.acquire();
            s->socket.emplace(std::move(socket));
            m_sessions.push_back(s);
            read(s);
            accept();
        }));
    }

    void read(session_ptr const& s) {
        s->incoming = m_memory.make_message();
        asio::async_read(s->connection(), s->incoming->header(),
                         Memory::bind([this, s](boost::system::error_code error, std::size_t) {
                             if (error || s->incoming->body_size() > message::k_capacity) return leave(s);
                             read_body(s);
                         }));
    }

    void read_body(session_ptr const& s) {
        asio::async_read(s->connection(), s->incoming->body(),
                         Memory::bind([this, s](boost::system::error_code error, std::size_t) {
                             if (error) return leave(s);
                             message_ptr const m = std::move(s->incoming);
                             if (m_is_chat)
                                 for (session_ptr const& each : m_sessions)
                                     send(each, m);
                             else
                                 send(s, m);
                             read(s);
                         }));
    }

    void send(session_ptr const& to, message_ptr const& m) {
        to->outgoing.push_back(m);
        if (to->outgoing.size() == 1) write(to);
    }

    void write(session_ptr const& to) {
        asio::async_write(to->connection(), to->outgoing.front()->all(),
                          Memory::bind([this, to](boost::system::error_code error, std::size_t) {
                              if (error) return leave(to);
                              to->outgoing.pop_front();
                              if (!to->outgoing.empty()) write(to);
                          }));
    }

    // The session is released with its last handler.
    void leave(session_ptr const& s) {
        boost::system::error_code ignored;
        s->connection().close(ignored);
        std::erase(m_sessions, s);
    }

    tcp::acceptor m_acceptor;
    bool m_is_chat;
    Memory m_memory;
    typename Memory::template objects<session> m_pool;
    std::vector<session_ptr> m_sessions;
};

// All clients, on one thread.
template <class Memory>
class load {
public:
    load(asio::io_context& context, tcp::endpoint const& server, std::size_t clients, std::size_t messages,
         bool is_chat)
        : m_messages(messages),
          m_expected_each(is_chat ? messages * clients : messages),
          m_expected(m_expected_each * clients),
          m_warm(m_expected / 3) {
        for (std::size_t i = 0; i < clients; ++i) {
            m_clients.push_back(std::make_unique<client>(context));
            m_clients.back()->socket.connect(server);
            m_clients.back()->socket.set_option(tcp::no_delay(true));
            m_clients.back()->id = static_cast<std::uint8_t>(i);
        }
    }

    // Not before the server has accepted all, so that every chat message has the same number of receivers.
    void start() {
        for (auto const& each : m_clients) {
            send(*each);
            read(*each);
        }
    }

    [[nodiscard]] bool is_complete() const noexcept { return m_received == m_expected; }
    [[nodiscard]] std::size_t received() const noexcept { return m_received; }
    // In steady state: received messages, and calls to malloc meanwhile.
    [[nodiscard]] std::size_t steady() const noexcept { return m_expected - m_warm; }
    [[nodiscard]] std::size_t mallocs() const noexcept { return m_mallocs_at_end - m_mallocs_when_warm; }

private:
    struct client {
        explicit client(asio::io_context& context) : socket(context) {}
        tcp::socket socket;
        message out{};
        message in{};
        std::uint8_t id = 0;
        std::size_t sent = 0;
        std::size_t received = 0;
    };

    void send(client& c) {
        c.out.set_body_size(16 + c.sent++ % 400);
        c.out.bytes[message::k_header] = c.id;
        asio::async_write(c.socket, c.out.all(), Memory::bind([](boost::system::error_code, std::size_t) {}));
    }

    void read(client& c) {
        asio::async_read(
            c.socket, c.in.header(), Memory::bind([this, &c](boost::system::error_code error, std::size_t) {
                if (error) return;
                asio::async_read(c.socket, c.in.body(),
                                 Memory::bind([this, &c](boost::system::error_code e, std::size_t) {
                                     if (!e) receive(c);
                                 }));
            }));
    }

    void receive(client& c) {
        ++c.received;
        if (++m_received == m_warm) m_mallocs_when_warm = test::malloc_calls_so_far();
        if (m_received == m_expected) m_mallocs_at_end = test::malloc_calls_so_far();
        bool const is_own = c.in.bytes[message::k_header] == c.id;
        if (is_own && c.sent < m_messages) send(c);
        if (c.received < m_expected_each) read(c);
    }

    std::size_t m_messages;
    std::size_t m_expected_each;
    std::size_t m_expected;
    std::size_t m_warm;
    std::size_t m_received = 0;
    std::size_t m_mallocs_when_warm = 0;
    std::size_t m_mallocs_at_end = 0;
    std::vector<std::unique_ptr<client>> m_clients;
};

// Runs a context until the end of its scope. (libc++ 19 has no std::jthread.)
class service_thread {
public:
    explicit service_thread(asio::io_context& context)
        : m_context(context), m_thread([this] { m_context.run(); }) {}
    ~service_thread() {
        m_context.stop();
        m_thread.join();
    }
    service_thread(service_thread const&) = delete;
    service_thread& operator=(service_thread const&) = delete;

private:
    asio::io_context& m_context;
    std::thread m_thread;
};

template <class Memory>
int run(bool is_chat, std::size_t clients, std::size_t messages, bool is_malloc) {
    asio::io_context server_context(1);
    asio::io_context client_context(1);
    server<Memory> service(server_context, is_chat);
    load<Memory> all(client_context, service.endpoint(), clients, messages, is_chat);
    // connect() returns before accept() does: the acceptor and one accept for each client.
    for (std::size_t i = 0; i < clients; ++i)
        server_context.run_one();

    service_thread const serving(server_context);
    auto const start = std::chrono::steady_clock::now();
    all.start();
    client_context.run();
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start;

    std::printf("%s, %zu clients: %zu messages received, %.1f us each\n", is_chat ? "chat" : "echo", clients,
                all.received(), time.count() * 1e6 / static_cast<double>(all.received()));
    std::printf("steady state: %zu messages, %zu calls to malloc and free\n", all.steady(), all.mallocs());
    std::printf("%s: seconds %.4f\n", is_malloc ? "malloc" : "pool", time.count());
    bool const is_right = is_malloc || !test::k_counts_malloc || all.mallocs() == 0;
    return all.is_complete() && is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    example::arguments words(argc, argv,
                             "asio_server [--pool | --malloc] [--chat] [--clients N] [--messages N]");
    bool const is_malloc = words.is_malloc();
    bool const is_chat = words.flag("--chat");
    std::size_t const clients = std::clamp<std::size_t>(words.number("--clients", 4), 1, 200);
    std::size_t const messages = std::max<std::size_t>(words.number("--messages", 2000), 3);
    words.end();
    try {
        return is_malloc ? run<from_malloc>(is_chat, clients, messages, true)
                         : run<from_pools>(is_chat, clients, messages, false);
    } catch (std::exception const& e) {
        std::fprintf(stderr, "asio_server: %s\n", e.what());
        return 1;
    }
}
