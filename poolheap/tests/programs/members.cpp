// SPDX-License-Identifier: BSL-1.0
// A session that refers to connections in all the ways that there are.
#include "recorded_new.hpp"

#include <coroutine>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace app {

struct connection {
    long bytes[4]{};
    std::shared_ptr<void> session;
};
struct plain {
    long word = 1;
    connection* peer = nullptr;
};
struct base {
    long id = 1;
    std::string label = "a label that is too long for its own bytes";
};
struct place {
    std::shared_ptr<connection> owner;
    std::weak_ptr<connection> watcher;
};
struct large {
    char room[100'000]{};
    std::shared_ptr<connection> behind;
};
struct alignas(64) aligned {
    std::shared_ptr<connection> held = std::make_shared<connection>();
};
// It lies in the control block, in front of the object.
template <class T>
struct stateful {
    using value_type = T;
    long state;
    explicit stateful(long s) : state(s) {}
    template <class U>
    stateful(stateful<U> const& other) : state(other.state) {}
    T* allocate(std::size_t n) { return std::allocator<T>().allocate(n); }
    void deallocate(T* at, std::size_t n) { std::allocator<T>().deallocate(at, n); }
    bool operator==(stateful const&) const = default;
};
// Of debug information, each branch has the bytes of the virtual base.
struct root {
    virtual ~root() = default;
    long id = 1;
};
struct left : virtual root {
    std::shared_ptr<connection> on_left;
};
struct right : virtual root {
    std::shared_ptr<connection> on_right;
};
struct joined : left, right {
    std::shared_ptr<connection> own;
};
struct session : base, std::enable_shared_from_this<session> {
    std::shared_ptr<connection> conn = std::make_shared<connection>();
    std::vector<std::shared_ptr<connection>> all{conn, conn, conn};
    std::map<int, std::shared_ptr<connection>> table{{1, conn}, {2, conn}};
    std::unordered_map<std::string, std::shared_ptr<connection>> hashed{{"a", conn}};
    std::list<std::shared_ptr<connection>> listed{conn};
    std::deque<place> queue{1};
    std::optional<std::shared_ptr<connection>> maybe = conn;
    std::unique_ptr<plain> owned = std::make_unique<plain>();
    std::function<void()> on_close;
    place places[2];
    connection* raw = conn.get();
    std::coroutine_handle<> frame;
    std::shared_ptr<large> in_large = std::make_shared<large>();
};
std::map<int, std::shared_ptr<session>> g_table;
// GCC tags the symbol of one, and says the name alone of the other.
std::vector<std::pair<std::string, std::shared_ptr<session>>> g_by_name(3);
static std::vector<std::shared_ptr<session>> s_kept(3);
std::shared_ptr<session>& first() {
    static std::shared_ptr<session> s_first = std::make_shared<session>();
    return s_first;
}

}  // namespace app
std::shared_ptr<app::session> g;  // a demangler of types takes it for __float128

int main() {
    using namespace app;
    session& s = *first();
    g_table[7] = first();
    s.on_close = [self = s.shared_from_this(), n = 1L, m = 2L] { std::printf("%ld\n", self->id + n + m); };
    s.conn->session = first();
    say("session", &s);
    say("conn", &s.conn);
    say("all", &s.all);
    say("all[1]", &s.all[1]);
    say("table", &s.table);
    say("table[1]", &s.table[1]);
    say("hashed", &s.hashed);
    say("hashed[a]", &s.hashed["a"]);
    say("listed", &s.listed);
    say("listed[0]", &s.listed.front());
    say("queue", &s.queue);
    say("queue[0].watcher", &s.queue[0].watcher);
    say("maybe", &s.maybe);
    say("owned", &s.owned);
    say("owned->peer", &s.owned->peer);
    say("on_close", &s.on_close);
    say("places[1].owner", &s.places[1].owner);
    say("raw", &s.raw);
    say("frame", &s.frame);
    say("label", &s.label);
    say("large->behind", &s.in_large->behind);
    auto const over_aligned = std::make_shared<aligned>();
    auto const with_state = std::allocate_shared<connection>(stateful<connection>(4711));
    with_state->session = first();
    say("over_aligned->held", &over_aligned->held);
    say("with_state->session", &with_state->session);
    auto const diamond = std::make_shared<joined>();
    say("diamond->on_left", &diamond->on_left);
    say("diamond->on_right", &diamond->on_right);
    say("diamond->own", &diamond->own);
    say("g", &g);
    say("g_by_name", &g_by_name);
    say("s_kept", &s_kept);
    say("self", static_cast<std::enable_shared_from_this<session>*>(&s));
    say("conn->session", &s.conn->session);
    say("g_table", &g_table);
    say("g_table[7]", &g_table[7]);
    say("s_first", &first());
    say_ready();
}
