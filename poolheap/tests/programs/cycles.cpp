// SPDX-License-Identifier: BSL-1.0
// Plants cycles of each shape, a hundred times each, while threads work; and what looks like one but is no leak. An unedited program: it
// knows nothing of the pool.
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace app {

struct connection;
struct session {
    std::array<long, 3> bytes{};
    std::shared_ptr<connection> conn;
};
struct connection {
    long state = 0;
    std::shared_ptr<session> owner;
};

// Rings of one type.
template <int Length>
struct ring_node {
    long payload = Length;
    std::shared_ptr<ring_node> next;
};

struct child;
struct parent {
    std::vector<std::shared_ptr<child>> children;
};
struct child {
    std::shared_ptr<parent> up;
};

struct room;
struct guest {
    std::shared_ptr<room> stays_in;
};
struct room {
    std::map<int, std::shared_ptr<guest>> guests;
};

struct job_queue;
struct job {
    std::shared_ptr<job_queue> queue;
};
struct job_queue {
    std::deque<std::shared_ptr<job>> jobs;
};

struct player;
struct team {
    std::list<std::shared_ptr<player>> players;
};
struct player {
    std::shared_ptr<team> plays_for;
};

struct city;
struct country {
    std::unordered_map<std::string, std::shared_ptr<city>> cities;
};
struct city {
    std::shared_ptr<country> in;
};

struct button {
    std::function<void()> on_click;
};

struct reader : std::enable_shared_from_this<reader> {
    void start() {
        m_on_data = [self = shared_from_this(), n = 0L]() mutable {
            n += static_cast<long>(self.use_count());
        };
    }
    virtual ~reader() = default;
    std::function<void()> m_on_data;
};

struct node_base {
    virtual ~node_base() = default;
};
struct device;
struct driver final : node_base {
    std::shared_ptr<device> drives;
};
struct device final : node_base {
    long registers[4]{};
    std::shared_ptr<driver> driven_by;
};

// No leak: weak ways back.
struct leaf;
struct tree : std::enable_shared_from_this<tree> {
    std::vector<std::shared_ptr<leaf>> leaves;
};
struct leaf {
    std::weak_ptr<tree> root;
};

// A ring that a global, another one that a thread's stack, and one that a thread_local keeps.
struct kept_by_global {
    std::shared_ptr<kept_by_global> other;
};
struct kept_by_stack {
    std::shared_ptr<kept_by_stack> other;
};
struct kept_by_thread_local {
    std::shared_ptr<kept_by_thread_local> other;
};

}  // namespace app

namespace {

using namespace app;

std::vector<std::shared_ptr<tree>> g_trees;
std::shared_ptr<kept_by_global> g_kept;
thread_local std::shared_ptr<kept_by_thread_local> t_kept;
std::atomic<int> g_ready{0};
std::atomic<bool> g_stop{false};

template <int Length>
void plant_ring() {
    auto const first = std::make_shared<ring_node<Length>>();
    auto last = first;
    for (int i = 1; i < Length; ++i)
        last = last->next = std::make_shared<ring_node<Length>>();
    last->next = first;
}

template <class T>
std::shared_ptr<T> ring_of_two() {
    auto a = std::make_shared<T>(), b = std::make_shared<T>();
    a->other = b;
    b->other = a;
    return a;
}

std::shared_ptr<tree> make_tree() {
    auto t = std::make_shared<tree>();
    t->leaves.reserve(3);  // what a vector has beyond its end may hold stale words, which count as references
    for (int i = 0; i < 3; ++i) {
        t->leaves.push_back(std::make_shared<leaf>());
        t->leaves.back()->root = t->weak_from_this();
    }
    return t;
}

void plant(int i) {
    {
        auto s = std::make_shared<session>();
        s->conn = std::make_shared<connection>();
        s->conn->owner = s;
    }
    plant_ring<2>();
    plant_ring<3>();
    plant_ring<7>();
    if (i % 10 == 0) plant_ring<100>();
    {
        auto p = std::make_shared<parent>();
        for (int k = 0; k < 3; ++k) {
            p->children.push_back(std::make_shared<child>());
            p->children.back()->up = p;
        }
    }
    {
        auto r = std::make_shared<room>();
        for (int k = 0; k < 5; ++k)
            (r->guests[k] = std::make_shared<guest>())->stays_in = r;
    }
    {
        auto q = std::make_shared<job_queue>();
        q->jobs.push_back(std::make_shared<job>());
        q->jobs.back()->queue = q;
    }
    {
        auto t = std::make_shared<team>();
        t->players.push_back(std::make_shared<player>());
        t->players.back()->plays_for = t;
    }
    {
        auto c = std::make_shared<country>();
        (c->cities["a city whose name needs memory of its own"] = std::make_shared<city>())->in = c;
    }
    {
        auto b = std::make_shared<button>();
        b->on_click = [b, a = 1L, c = 2L] { std::printf("%ld\n", a + c + static_cast<long>(b.use_count())); };
    }
    std::make_shared<reader>()->start();
    {
        auto d = std::shared_ptr<device>(new device);
        d->driven_by = std::shared_ptr<driver>(new driver);
        d->driven_by->drives = d;
    }
    make_tree();                                      // dropped at once
    if (i % 10 == 0) g_trees.push_back(make_tree());  // lives
}

// Overwrites what calls left on the stack.
[[gnu::noinline]] void wipe_stack() {
    char volatile bytes[32 * 1024];
    for (std::size_t i = 0; i < sizeof bytes; ++i)
        bytes[i] = 0;
}

}  // namespace

int main() {
    std::thread([] {
        for (int i = 0; i < 100; ++i)
            plant(i);
        wipe_stack();
    }).join();
    g_kept = ring_of_two<kept_by_global>();
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([] {
            auto const mine = ring_of_two<kept_by_stack>();
            t_kept = ring_of_two<kept_by_thread_local>();
            ++g_ready;
            // Work that never stands still.
            while (!g_stop) {
                std::map<int, std::string> work;
                for (int k = 0; k < 100; ++k)
                    work[k] = std::string(40, 'x');
            }
            // What is dropped in order is no leak.
            mine->other.reset();
            t_kept->other.reset();
        });
    while (g_ready != 3)
        std::this_thread::yield();
    wipe_stack();
    std::puts("ready");
    std::fflush(stdout);
    std::getchar();
    g_stop = true;
    for (auto& t : threads)
        t.join();
    g_kept->other.reset();
}
