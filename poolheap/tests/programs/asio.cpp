// SPDX-License-Identifier: BSL-1.0
// Sessions whose timers' handlers hold them. Three hundred hold the context of their timers, too, and are lost with it; ten have a timer of
// a context that lives, and are not.
#include <boost/asio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include <unistd.h>

namespace app {

struct service {
    boost::asio::io_context context;
};
struct session : std::enable_shared_from_this<session> {
    std::shared_ptr<service> runs_on;
    boost::asio::steady_timer deadline;
    std::array<char, 100> buffer{};

    explicit session(std::shared_ptr<service> on) : runs_on(std::move(on)), deadline(runs_on->context) {}
    void start() {
        deadline.expires_after(std::chrono::hours(1));
        deadline.async_wait([self = shared_from_this()](auto const&) { self->buffer[0] = 1; });
    }
};
struct live_session : session {
    using session::session;
};

}  // namespace app

int main() {
    auto const lives = std::make_shared<app::service>();
    std::thread([&] {
        for (int i = 0; i < 100; ++i) {
            auto const on = std::make_shared<app::service>();
            for (int k = 0; k < 3; ++k)
                std::make_shared<app::session>(on)->start();
        }
        for (int i = 0; i < 10; ++i)
            std::make_shared<app::live_session>(lives)->start();
        char volatile stack[32 * 1024];  // overwrites what calls left
        for (std::size_t i = 0; i < sizeof stack; ++i)
            stack[i] = 0;
    }).join();
    std::puts("ready");
    std::fflush(stdout);
    ::pause();
    lives->context.stop();
}
