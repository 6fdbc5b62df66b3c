// SPDX-License-Identifier: BSL-1.0
// The code blocks of the pages in docs/, as a program: tools/tests/test_pages.py checks that each block's lines are in its page's
// part here, in their order. clang-format leaves them as the pages show them.
#include <pooled/as_std.hpp>
#include <pooled/compat/pmr.hpp>      // after
#include <pooled/compat/recycle.hpp>  // before: <recycle/shared_pool.hpp>
#include <pooled/pooled.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>  // before
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

bool g_is_right = true;
void expect(bool condition) { g_is_right = g_is_right && condition; }

// clang-format off

// page: docs/counted-pointers.md
namespace as_in_the_standard {
using pooled::as_std::make_shared;     // using std::make_shared;
using pooled::as_std::shared_ptr;      // using std::shared_ptr;
static_assert(sizeof(shared_ptr<int>) == sizeof(void*) && sizeof(make_shared<int>()) == sizeof(void*));
}  // namespace as_in_the_standard
struct Left {
    virtual ~Left() = default;
};
struct Base {
    virtual ~Base() = default;
};
struct Node : Left, Base {
    explicit Node(int n = 0) : number(n) {}
    int number;
};
void counted_pointers() {
    using Packet = Node;
    pooled::pool packets;
pooled::rc_ptr<Packet> p = packets.make_rc<Packet>(7);
pooled::weak_rc_ptr<Packet> w = p;
pooled::rc_ptr<Base> b = p;                                    // also a second or a virtual base
pooled::rc_ptr<Packet> q = packets.make_unique<Packet>();      // no allocation
    expect(p->number == 7 && !w.expired() && b.use_count() == 2 && q.use_count() == 1);
}

struct config {
    explicit config(int p) : port(p) {}
    int port;
};
class latest_config {
public:
    pooled::rc_ptr<config const> load() const {
        std::scoped_lock const lock(m_mutex);
        return m_config;                                       // one count up; the lock is held no longer
    }
    void store(pooled::rc_ptr<config const> next) {
        std::scoped_lock const lock(m_mutex);
        m_config.swap(next);
    }                                                          // the lock ends first, then the old one is dropped

private:
    mutable std::mutex m_mutex;
    pooled::rc_ptr<config const> m_config;
};
void atomic_alternative() {
    latest_config latest;
    latest.store(pooled::make_rc<config const>(80));
    std::thread([&] { latest.store(pooled::make_rc<config const>(443)); }).join();
    expect(latest.load()->port == 443);
}

void arrays() {
    pooled::pool packets;
pooled::rc_ptr<float[]> samples = pooled::make_rc<float[]>(512);             // zeros
pooled::rc_ptr<float[]> full = pooled::make_rc<float[]>(512, 1.0F);          // copies of a value
pooled::rc_ptr<float[512]> fixed = pooled::make_rc<float[512]>();
pooled::rc_ptr<float[]> raw = packets.make_rc_for_overwrite<float[]>(512);   // not written
samples[0] = full[1];
    expect(samples[0] == 1.0F && fixed[511] == 0.0F && raw.use_count() == 1);
}

// page: docs/debugging.md
struct cache {
    std::vector<std::shared_ptr<int[]>> held;
    void evict() { held.clear(); }
};
void debugging() {
    cache packet_cache;
pooled::pool packets{{.max_bytes = 1 << 30,
                      .on_exhausted = {.call = [](std::size_t, void* c) noexcept { static_cast<cache*>(c)->evict(); },
                                       .context = &packet_cache}}};
    packet_cache.held.push_back(packets.make_shared<int[]>(100));
    expect(packets.try_allocate(std::size_t{1} << 31) == nullptr && packet_cache.held.empty());
}

// page: compat/README.md
struct Parser {
    int line = 0;
    void reset() { line = 0; }
};
void migration_recycle() {
recycle::shared_pool<Parser> parsers([] { return std::make_shared<Parser>(); },
                                     [](std::shared_ptr<Parser> p) { p->reset(); });
std::shared_ptr<Parser> parser = parsers.allocate();
    expect(parser->line == 0);
}
void migration_recycle_later() {
struct Recycling {
    void on_release(Parser& p) { p.reset(); }
};
pooled::object_pool<Parser, Recycling> parsers{{.max_objects = 64}};
std::shared_ptr<Parser> parser = parsers.acquire();       // or try_acquire, acquire_for(10ms), acquire_rc ...
    expect(parser->line == 0);
}

// page: docs/object-pool.md
struct connection {
    explicit connection(std::string to) : address(std::move(to)) {}
    void set_timeout(int ms) { timeout = ms; }
    void rollback() { timeout = 0; }
    std::string address;
    int timeout = 0;
};
struct postgres {                                           // a Lifecycle: each member is optional
    connection* create(void* where) { return new (where) connection(address); }
    void on_acquire(connection& c, int timeout) { c.set_timeout(timeout); }
    void on_release(connection& c) { c.rollback(); }
    std::string address;
};
void object_pools() {
pooled::object_pool<connection, postgres> connections{{.max_objects = 64}, {"db:5432"}};

std::shared_ptr<connection> c = connections.acquire(30);                  // throws pooled::exhausted when 64 are in use
std::shared_ptr<connection> d = connections.try_acquire(30);              // empty instead
std::shared_ptr<connection> e = connections.acquire_for(10ms, 30);        // waits; empty after 10 ms
pooled::unique_ptr<connection> f = connections.acquire_unique(30);        // 8 bytes
pooled::rc_ptr<connection> g = connections.acquire_rc(30);                // 8 bytes, counted
    expect(c->timeout == 30 && d && e && f->address == "db:5432" && g && connections.in_use() == 5);
}

// page: docs/one-allocation.md
void one_allocation() {
    struct Packet {
        explicit Packet(int n) : number(n) {}
        int number;
        std::byte data[44]{};
    };
auto p = pooled::make_shared<Packet>(42);   // 48 bytes of payload
    static_assert(sizeof(Packet) == 48);
    expect(p->number == 42);
p.reset();
}

// page: docs/pools.md
void pools() {
    struct Packet { char data[1500]; };
pooled::pool packets{{.name = "packets", .max_bytes = 64 << 20}};

std::shared_ptr<Packet> a = packets.make_shared<Packet>();
pooled::unique_ptr<Packet> b = packets.make_unique<Packet>();
pooled::rc_ptr<Packet> c = packets.make_rc<Packet>();
std::shared_ptr<float[]> samples = packets.make_shared<float[]>(512);

std::vector<int, pooled::pool_allocator<int>> numbers{packets};     // any standard container
std::pmr::string text{"any pmr container", packets.resource()};

void* raw = packets.allocate(4096, 64);                             // 4096 bytes, aligned to 64
packets.deallocate(raw, 4096, 64);                                  // the same size and alignment
    numbers.push_back(1);
    expect(a && b && c && samples && text.size() == 17 && packets.owns(&numbers[0]));

auto frame = packets.make_shared_with_tail<Packet, std::byte>(300);      // a Packet() and 300 bytes, all 0
std::span<std::byte> bytes = tail(frame);
std::shared_ptr<Packet> header = frame;
auto unwritten = packets.make_rc_with_tail_for_overwrite<Packet, std::byte>(300);
    expect(bytes.size() == 300 && bytes[299] == std::byte{0} && header.get() == frame.get() && tail(unwritten).size() == 300);
    frame = nullptr, unwritten = nullptr, header = nullptr;

std::vector<std::shared_ptr<Packet>> kept;
try {
    for (;;) kept.push_back(packets.make_shared<Packet>());
} catch (pooled::exhausted const& e) {                              // a std::bad_alloc whose what() names pool and request
    std::fprintf(stderr, "%s\n", e.what());
}
std::shared_ptr<Packet> one_more = packets.try_make_shared<Packet>();   // empty instead
    expect(kept.size() > 40000 && !one_more);
    kept.clear();

packets.reserve<Packet>(1000);

pooled::pool_stats const now = packets.stats();                     // does not slow down other threads
std::printf("%llu blocks in use, %llu bytes from upstream\n", static_cast<unsigned long long>(now.in_use),
            static_cast<unsigned long long>(now.upstream_bytes));
std::string const json = now.to_json();                             // or `stream << now`, a table
    expect(json.find("packets") != std::string::npos);

pooled::pool all{{.name = "all", .max_bytes = 256 << 20}};
pooled::pool audio{{.name = "audio", .upstream = all.resource()}};
    expect(audio.make_shared<int>(1) != nullptr && all.stats().in_use != 0);

bool const is_new = pooled::configure_default_pool({.max_bytes = std::size_t{1} << 30, .huge_pages = false});
    expect(!is_new || pooled::default_pool().stats().max_bytes == std::size_t{1} << 30);

pooled::local_pool nodes{{.name = "nodes"}};
pooled::local_rc_ptr<Packet> n = nodes.make_rc<Packet>();           // counts without atomics
    expect(n.use_count() == 1);
}

// page: docs/teardown.md
struct Guard {
    ~Guard() { expect(true); }
};
}  // namespace
template <>
inline constexpr bool pooled::destroy_in_place<Guard> = true;
namespace {
struct Link {
    std::shared_ptr<Link> next;
};
void teardown_scope() {
    std::vector<std::shared_ptr<Link>> lists(5);
    for (auto& list : lists)
        for (int i = 0; i < 100; ++i) {
            auto link = pooled::make_shared<Link>();
            link->next = std::move(list);
            list = std::move(link);
        }
{
    pooled::reclaim_scope together;
    for (auto& list : lists) list.reset();
}   // here they are destroyed
}
void teardown_incremental() {
    using Packet = Link;
    struct {
        void push(pooled::pending all) { work.push_back(std::move(all)); }
        std::vector<pooled::pending> work;
    } cleaner;
pooled::pool packets{{.teardown = pooled::teardown::incremental}};
    std::shared_ptr<Link> root;
    for (int i = 0; i < 10'000; ++i) {
        auto link = packets.make_shared<Link>();
        link->next = std::move(root);
        root = std::move(link);
    }
root.reset();                                    // a million nodes: only the root is noted
auto p = packets.make_shared<Packet>();          // destroys up to four deferred objects first
packets.drain(1000);                             // up to a thousand, in a quiet moment
cleaner.push(packets.take_pending());            // or all of them, on another thread
    expect(packets.stats().in_use > 8000);
    cleaner.work.clear();
    expect(packets.stats().in_use == 1);
    pooled::make_shared<Guard>().reset();
}

// page: compat/docs/bde.md
void migration_bde() {
    pooled::pool memory;
pooled::object_pool<std::string, pooled::clear_on_release>                          // after
    buffers({.growth_factor = 2, .upstream = memory.resource()},
            [](void* where) { (new (where) std::string)->reserve(1000); });
buffers.reserve(100);
std::shared_ptr<std::string> buffer = buffers.acquire();
    expect(buffer->capacity() >= 1000 && buffers.capacity() == 100);
}

// page: compat/docs/queueptr.md
void migration_queueptr() {
    using buffer = std::string;
    std::list<std::shared_ptr<buffer>> queue;
pooled::object_pool<buffer, pooled::clear_on_release> buffers({.name = "buffers", .max_objects = 16});
std::shared_ptr<buffer> empty = buffers.acquire_for(10ms);   // waits; null after 10 ms
if (empty) queue.push_back(std::move(empty));                // dropped by the consumer: cleared, and free again
    expect(queue.size() == 1 && buffers.in_use() == 1);
}

// page: compat/docs/free-list-pool.md
void migration_free_list_pool() {
pooled::local_pool pool{{.name = "nodes"}};                       // after; pooled::pool if several threads use it
pool.reserve<Node>(1024);
pooled::unique_ptr<Node> node = pool.make_unique<Node>(7);        // as large as a Node*
    expect(node->number == 7 && sizeof(node) == sizeof(Node*));
node.reset();
}

// page: compat/docs/foonathan-memory.md
void migration_foonathan() {
    struct Event {
        explicit Event(int at) : time(at) {}
        int time;
    };
pooled::pool pool({.name = "events"});                                              // after
pool.reserve<Event>(1000);
std::shared_ptr<Event> a = pool.make_shared<Event>(7);
pooled::unique_ptr<Event> b = pool.make_unique<Event>(8);
std::list<int, pooled::pool_allocator<int>> times(pool);
    times.push_back(a->time + b->time);
    expect(times.front() == 15);
}

// page: compat/docs/pmr.md
// #include <memory_resource>                                                          // before
// #include <pooled/compat/pmr.hpp>                                                    // after
void migration_pmr_before() {
std::pmr::synchronized_pool_resource pool({.max_blocks_per_chunk = 0, .largest_required_pool_block = 4096});
    std::pmr::map<int, std::pmr::string> orders(&pool);
    orders[1] = "one";
}
void migration_pmr() {
pooled::compat::synchronized_pool_resource pool({.max_blocks_per_chunk = 0, .largest_required_pool_block = 4096});

std::pmr::map<int, std::pmr::string> orders(&pool);                                 // as before
    orders[1] = "one";
}
void migration_pmr_later() {
pooled::pool pool({.name = "orders", .max_bytes = 1u << 30});
std::pmr::map<int, std::pmr::string> orders(pool.resource());
    orders[1] = "one";
    expect(pool.stats().in_use != 0);
}

// page: README.md
struct Packet { std::uint32_t source; std::byte data[1500]; };
void readme() {
auto a = pooled::make_shared<Packet>();           // std::shared_ptr<Packet>, from the process-wide pool
auto b = pooled::make_unique<Packet>();           // pooled::unique_ptr<Packet>: 8 bytes, upcasts to a base
auto r = pooled::make_rc<Packet>();               // pooled::rc_ptr<Packet>: 8 bytes, counted, weak references

pooled::pool packets{{.name = "packets", .max_bytes = 1u << 30}};  // a separate pool: any size, any thread
packets.reserve<Packet>(100'000);                 // from here on neither malloc nor a system call

std::shared_ptr<Packet> c = packets.make_shared<Packet>();         // throws pooled::exhausted at the bound
if (auto d = packets.try_make_shared<Packet>()) {}  // gives an empty pointer instead

std::map<int, int, std::less<>, pooled::pool_allocator<std::pair<const int, int>>> index{packets};
std::pmr::vector<int> ports{packets.resource()};  // a std::pmr::memory_resource*
    index[80] = 1;
    ports.push_back(80);
    expect(a && b && r && packets.owns(c.get()) && index.at(ports.front()) == 1);
}
// end of pages
// clang-format on

}  // namespace

int main() {
    for (void (*page)() :
         {counted_pointers, atomic_alternative, arrays, debugging, migration_recycle, migration_recycle_later,
          object_pools, one_allocation, pools, teardown_scope, teardown_incremental, migration_bde,
          migration_queueptr, migration_free_list_pool, migration_foonathan, migration_pmr_before,
          migration_pmr, migration_pmr_later, readme})
        page();
    return g_is_right ? 0 : 1;
}
