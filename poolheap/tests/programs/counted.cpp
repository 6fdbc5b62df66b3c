// SPDX-License-Identifier: BSL-1.0
// Objects of pooled's own pointers and pools.
#include <pooled/pooled.hpp>

#include <cstdio>
#include <string>

#include <unistd.h>

namespace app {
struct packet {
    std::string text = "with a destructor";
};
struct connection {
    pooled::rc_ptr<packet> last = pooled::make_rc<packet>();
};
struct alignas(32) wide {
    long word[2]{};
    std::shared_ptr<connection> held;
};
struct watched : pooled::enable_rc_from_this<watched> {
    pooled::weak_rc_ptr<watched> watcher;
    pooled::weak_local_rc_ptr<packet> local_watcher;
    pooled::local_rc_ptr<packet> local = pooled::make_local_rc<packet>();
};
}  // namespace app

int main() {
    using namespace app;
    auto const counted = pooled::make_rc<packet>();
    auto const counted2 = counted;
    pooled::weak_rc_ptr<packet> const watcher = counted;
    auto const unique = pooled::make_unique<packet>();
    auto const array = pooled::make_rc<packet[]>(5);
    auto const shared = pooled::make_shared<connection>();
    auto const tailed = pooled::make_shared_with_tail<packet, std::byte>(1280);
    auto const wide_tailed = pooled::make_shared_with_tail<wide, long>(7);
    auto const connections_of = pooled::make_shared<connection[]>(5);
    auto const wides = pooled::make_shared<wide[]>(3);
    auto const watches = pooled::make_rc<watched>();
    watches->watcher = watches;
    watches->local_watcher = watches->local;
    pooled::object_pool<connection> connections;
    auto const idle = connections.acquire().get();
    auto const acquired = connections.acquire();
    auto const acquired_rc = connections.acquire_rc();
    auto const say = [](char const* name, auto const* p) {
        std::printf("%s %p\n", name, static_cast<void const*>(p));
    };
    say("counted", counted.get());
    say("unique", unique.get());
    say("array", array.get());
    say("shared", shared.get());
    say("last", &shared->last);
    say("tailed", tailed.get());
    say("tailed->text", &tailed->text);
    say("wide_tailed->held", &wide_tailed->held);
    say("connections_of[3].last", &connections_of[3].last);
    say("wides[2].held", &wides[2].held);
    say("rc_from_this", static_cast<pooled::enable_rc_from_this<watched>*>(watches.get()));
    say("watcher", &watches->watcher);
    say("local_watcher", &watches->local_watcher);
    say("local", &watches->local);
    say("idle", idle);
    say("acquired", acquired.get());
    say("acquired_rc", acquired_rc.get());
    std::printf("ready\n");
    std::fflush(stdout);
    for (;;)
        ::pause();
}
