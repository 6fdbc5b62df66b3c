// SPDX-License-Identifier: BSL-1.0
// The examples of the API reference: the body of each function here is shown on the page of the name that it is called after.
// docs/reference.toml has the rest of what those pages say; tools/make_docs.py puts them together.
#include <pooled/pooled.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <list>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// In every build, unlike that of <cassert>.
#define assert(condition)                          \
    do {                                           \
        if (!(condition)) {                        \
            std::cerr << #condition << " fails\n"; \
            std::exit(1);                          \
        }                                          \
    } while (false)

namespace {

using namespace std::chrono_literals;

struct Packet {
    Packet() = default;
    explicit Packet(int n) : number(n) {}
    int number = 0;
    std::byte data[40]{};
};

struct Shape {
    virtual ~Shape() = default;
    int sides = 0;
};
struct Square : Shape {
    Square() { sides = 4; }
};

struct Guard {
    ~Guard() { (void)this; }
};

}  // namespace

template <>
inline constexpr bool pooled::destroy_in_place<Guard> = true;

namespace {

void pool() {
    pooled::pool packets{{.name = "packets", .max_bytes = 64 << 20}};
    packets.reserve<Packet>(1000);
    std::shared_ptr<Packet> p = packets.make_shared<Packet>(7);
    assert(packets.owns(p.get()) && packets.stats().in_use == 1);
    void* raw = packets.allocate(100, 16);
    packets.deallocate(raw, 100, 16);
    p.reset();
    packets.trim();
}

void local_pool() {
    pooled::local_pool nodes;  // for one thread: no atomics
    pooled::local_rc_ptr<Packet> p = nodes.make_rc<Packet>(1);
    assert(p.use_count() == 1);
}

void default_pool() {
    auto p = pooled::make_shared<Packet>();  // the same pool
    assert(pooled::default_pool().owns(p.get()));
    pooled::default_pool().trim();
}

void configure_default_pool() {
    bool is_configured = pooled::configure_default_pool({.max_bytes = 1 << 30, .huge_pages = false});
    assert(!is_configured);  // it was used above
}

void pool_options() {
    std::pmr::monotonic_buffer_resource upstream;
    pooled::pool_options options{.name = "orders", .max_bytes = 1 << 20, .upstream = &upstream};
    pooled::pool orders(options);
    assert(orders.name() == "orders" && orders.stats().max_bytes == 1 << 20);
}

void exhaustion_hook() {
    struct Cache {
        std::vector<std::shared_ptr<Packet>> packets;
    } cache;
    pooled::pool small{
        {.max_bytes = 64 << 10,
         .on_exhausted = {
             .call = [](std::size_t, void* c) noexcept { static_cast<Cache*>(c)->packets.clear(); },
             .context = &cache}}};
    for (int i = 0; i < 10'000; ++i)
        cache.packets.push_back(small.make_shared<Packet>(i));  // never throws: the hook makes space
}

void teardown() {
    pooled::pool events{{.teardown = pooled::teardown::incremental}};
    auto s = events.make_shared<std::string>("dropped now, destroyed later");
    s.reset();
    assert(events.drain() == 1);
}

void pool_stats() {
    pooled::pool packets{{.name = "packets"}};
    auto p = packets.make_shared<Packet>();
    pooled::pool_stats stats = packets.stats();
    assert(stats.in_use == 1 && stats.name == "packets");
    std::cout << stats << '\n' << stats.to_json() << '\n';
}

void size_class_stats() {
    pooled::pool packets;
    auto p = packets.make_shared<Packet>();
    for (pooled::size_class_stats const& one : packets.stats().classes)
        if (one.in_use != 0) std::cout << one.in_use << " blocks of " << one.block_bytes << " bytes\n";
}

void exhausted() {
    pooled::pool small{{.name = "small", .max_bytes = 16 << 10}};
    try {
        static_cast<void>(small.allocate(1 << 20));
    } catch (pooled::exhausted const& e) {
        std::cout << e.what() << '\n';
    }
    assert(small.try_allocate(1 << 20) == nullptr);
}

void allocator() {
    std::list<int, pooled::allocator<int>> numbers;
    numbers.push_back(1);
    auto p = std::allocate_shared<Packet>(pooled::allocator<Packet>(), 3);
    assert(p->number == 3);
}

void pool_allocator() {
    pooled::pool nodes{{.name = "nodes"}};
    std::list<int, pooled::pool_allocator<int>> numbers{nodes};
    numbers.push_back(1);
    assert(nodes.owns(&numbers.front()));
}

void make_shared() {
    std::shared_ptr<Packet> p = pooled::make_shared<Packet>(7);
    std::shared_ptr<int[]> zeros = pooled::make_shared<int[]>(100);
    std::shared_ptr<int[]> ones = pooled::make_shared<int[]>(100, 1);
    std::shared_ptr<int[3]> three = pooled::make_shared<int[3]>();
    assert(p->number == 7 && zeros[99] == 0 && ones[99] == 1 && three[2] == 0);
}

void allocate_shared() {
    pooled::pool packets{{.name = "packets"}};
    std::shared_ptr<Packet> p = pooled::allocate_shared<Packet>(packets, 7);
    assert(p->number == 7 && packets.owns(p.get()));
}

void make_shared_for_overwrite() {
    std::shared_ptr<std::byte[]> buffer = pooled::make_shared_for_overwrite<std::byte[]>(1500);
    buffer[0] = std::byte{1};
}

void allocate_shared_for_overwrite() {
    pooled::pool buffers{{.name = "buffers"}};
    auto buffer = pooled::allocate_shared_for_overwrite<std::byte[1500]>(buffers);
    buffer[0] = std::byte{1};
    assert(buffers.owns(buffer.get()));
}

void make_unique() {
    pooled::unique_ptr<Packet> p = pooled::make_unique<Packet>(7);
    pooled::unique_ptr<int[]> zeros = pooled::make_unique<int[]>(100);
    assert(p->number == 7 && zeros[99] == 0 && sizeof(p) == sizeof(void*));
}

void make_unique_for_overwrite() {
    pooled::unique_ptr<std::byte[]> buffer = pooled::make_unique_for_overwrite<std::byte[]>(1500);
    buffer[0] = std::byte{1};
}

void make_shared_with_tail() {
    auto p = pooled::make_shared_with_tail<Packet, std::uint16_t>(100, 7);
    std::shared_ptr<Packet> header = p;
    assert(header->number == 7 && tail(p).size() == 100 && tail(p)[99] == 0);
}

void make_shared_with_tail_for_overwrite() {
    auto p = pooled::make_shared_with_tail_for_overwrite<Packet, std::byte>(1500, 7);
    tail(p)[0] = std::byte{1};
}

void make_unique_with_tail() {
    auto p = pooled::make_unique_with_tail<Packet, std::string>(3, 7);
    tail(p)[2] = "last";
    assert(sizeof(p) == sizeof(void*));
}

void make_unique_with_tail_for_overwrite() {
    auto p = pooled::make_unique_with_tail_for_overwrite<Packet, std::byte>(1500, 7);
    tail(p)[0] = std::byte{1};
}

void make_rc_with_tail() {
    pooled::local_pool packets{{.name = "packets"}};
    auto p = packets.make_rc_with_tail<Packet, int>(3, 7);
    pooled::local_rc_ptr<Packet> header = p;
    assert(header.use_count() == 2);
}

void make_rc_with_tail_for_overwrite() {
    pooled::pool packets{{.name = "packets", .max_bytes = 1 << 20}};
    auto p = packets.try_make_rc_with_tail_for_overwrite<Packet, std::byte>(1 << 24, 7);
    assert(p == nullptr && tail(p).empty());
}

void with_tail() {
    std::shared_ptr<Packet> header = pooled::make_shared_with_tail<Packet, int>(3, 7);
    auto whole = std::static_pointer_cast<pooled::with_tail<Packet, int>>(header);
    assert(tail(whole).size() == 3);
}

void tail() {
    pooled::rc_ptr<pooled::with_tail<Packet, int> const> p = pooled::make_rc_with_tail<Packet, int>(3, 7);
    std::span<int const> numbers = tail(p);
    assert(numbers.data() == tail(*p).data());
}

void unique_ptr() {
    pooled::unique_ptr<Square> square = pooled::make_unique<Square>();
    pooled::unique_ptr<Shape> shape = std::move(square);  // Shape has a virtual destructor
    std::shared_ptr<Shape> shared = std::move(shape);
    assert(shared->sides == 4);
}

void deleter() {
    pooled::unique_ptr<Packet> p = pooled::make_unique<Packet>(7);
    pooled::deleter<Packet> destroy = p.get_deleter();
    destroy(p.release());
}

void make_rc() {
    pooled::rc_ptr<Packet> p = pooled::make_rc<Packet>(7);
    assert(p->number == 7 && sizeof(p) == sizeof(void*));
    pooled::rc_ptr<float[]> samples = pooled::make_rc<float[]>(512, 0.5F);
    assert(samples[511] == 0.5F);
}

void make_local_rc() {
    pooled::local_rc_ptr<Packet> p = pooled::make_local_rc<Packet>(7);
    pooled::rc_ptr<Packet> for_all = std::move(p);  // a sole owner may change the way of counting
    assert(for_all->number == 7);
}

void make_rc_for_overwrite() {
    pooled::rc_ptr<int> number = pooled::make_rc_for_overwrite<int>();
    *number = 1;
    pooled::rc_ptr<char[]> line = pooled::make_rc_for_overwrite<char[]>(4096);
    line[0] = 'x';
}

void rc_ptr() {
    pooled::rc_ptr<Square> square = pooled::make_rc<Square>();
    pooled::rc_ptr<Shape> shape = square;
    assert(shape == square && square.use_count() == 2);
    std::thread([shape = std::move(shape)] { assert(shape->sides == 4); }).join();
    assert(square.use_count() == 1);
}

void weak_rc_ptr() {
    pooled::rc_ptr<Packet> owner = pooled::make_rc<Packet>();
    pooled::weak_rc_ptr<Packet> observer = owner;
    assert(observer.lock() == owner);
    owner.reset();
    assert(observer.expired() && observer.lock() == nullptr);
}

void local_rc_ptr() {
    pooled::local_pool nodes;
    pooled::local_rc_ptr<Packet> first = nodes.make_rc<Packet>();
    pooled::local_rc_ptr<Packet> second = first;  // counts without atomics
    assert(second.use_count() == 2);
}

void weak_local_rc_ptr() {
    pooled::local_rc_ptr<Packet> owner = pooled::make_local_rc<Packet>();
    pooled::weak_local_rc_ptr<Packet> observer = owner;
    assert(!observer.expired());
}

void static_pointer_cast() {
    pooled::rc_ptr<Shape> shape = pooled::make_rc<Square>();
    pooled::rc_ptr<Square> square = pooled::static_pointer_cast<Square>(shape);
    assert(square == shape);
}

void const_pointer_cast() {
    pooled::rc_ptr<Packet const> fixed = pooled::make_rc<Packet const>(1);
    pooled::rc_ptr<Packet> open = pooled::const_pointer_cast<Packet>(std::move(fixed));
    open->number = 2;
}

void dynamic_pointer_cast() {
    pooled::rc_ptr<Shape> shape = pooled::make_rc<Shape>();
    assert(pooled::dynamic_pointer_cast<Square>(shape) == nullptr);
}

void reinterpret_pointer_cast() {
    pooled::rc_ptr<Packet> packet = pooled::make_rc<Packet>(7);
    auto bytes = pooled::reinterpret_pointer_cast<unsigned char>(packet);
    assert(static_cast<void*>(bytes.get()) == packet.get() && packet.use_count() == 2);
}

void to_shared() {
    pooled::rc_ptr<Packet> counted = pooled::make_rc<Packet>(7);
    std::shared_ptr<Packet> shared = pooled::to_shared(counted);
    assert(shared.get() == counted.get() && counted.use_count() == 2);
}

void enable_rc_from_this() {
    struct Session : pooled::enable_rc_from_this<Session> {
        pooled::rc_ptr<Session> self() { return rc_from_this(); }
    };
    pooled::rc_ptr<Session> session = pooled::make_rc<Session>();
    assert(session->self() == session);
}

void reclaim_scope() {
    std::vector<std::shared_ptr<std::string>> names(1000, pooled::make_shared<std::string>("a name"));
    {
        pooled::reclaim_scope together;
        names.clear();
    }  // destroyed here
}

void pending() {
    pooled::pool events{{.teardown = pooled::teardown::incremental}};
    events.make_shared<std::string>("dropped on this thread").reset();
    std::thread cleaner([work = events.take_pending()]() mutable { work.drain(); });
    cleaner.join();
}

void destroy_in_place() {
    // template <> inline constexpr bool pooled::destroy_in_place<Guard> = true;
    pooled::reclaim_scope together;
    pooled::make_shared<Guard>().reset();  // destroyed here, not at the end of the scope
}

void object_pool() {
    pooled::object_pool<std::vector<char>, pooled::clear_on_release> buffers{{.max_objects = 2}};
    std::shared_ptr<std::vector<char>> a = buffers.acquire();
    pooled::unique_ptr<std::vector<char>> b = buffers.acquire_unique();
    assert(buffers.try_acquire() == nullptr);
    assert(buffers.acquire_for(1ms) == nullptr);
    a.reset();  // idle, with the capacity it has
    assert(buffers.idle() == 1 && buffers.acquire_rc() != nullptr);
}

void local_object_pool() {
    pooled::local_object_pool<std::string> strings;
    pooled::local_rc_ptr<std::string> s = strings.acquire_rc();
    assert(strings.in_use() == 1);
}

void object_pool_options() {
    pooled::pool memory{{.name = "memory", .max_bytes = 64 << 20}};
    pooled::object_pool<Packet> packets{
        {.name = "packets", .initial_objects = 8, .max_objects = 64, .upstream = memory.resource()}};
    assert(packets.capacity() == 8);
}

void object_pool_stats() {
    pooled::object_pool<Packet> packets{{.name = "packets", .max_objects = 64}};
    auto p = packets.acquire();
    pooled::object_pool_stats stats = packets.stats();
    assert(stats.in_use == 1 && stats.max_objects == 64);
    std::cout << stats << '\n';
}

void default_lifecycle() {
    struct Lifecycle : pooled::default_lifecycle<std::string> {
        static bool validate(std::string const& s) { return s.capacity() < 1000; }
    };
    pooled::object_pool<std::string, Lifecycle> strings;
    assert(strings.acquire()->empty());
}

void clear_on_release() {
    pooled::object_pool<std::string, pooled::clear_on_release> strings;
    strings.acquire()->append("gone when it is released");
    assert(strings.acquire()->empty());
}

void reset_on_release() {
    struct Parser {
        int line = 0;
        void reset() { line = 0; }
    };
    pooled::object_pool<Parser, pooled::reset_on_release> parsers;
    parsers.acquire()->line = 7;
    assert(parsers.acquire()->line == 0);
}

void function_lifecycle() {
    pooled::function_lifecycle<std::string> functions;
    functions.on_release = [](std::string& s) { s.clear(); };
    pooled::object_pool<std::string, pooled::function_lifecycle<std::string>> strings({}, functions);
    strings.acquire()->append("gone when it is released");
    assert(strings.acquire()->empty());
}

void version() {
    static_assert(pooled::version_major * 10'000 + pooled::version_minor * 100 + pooled::version_patch >=
                  200);
    std::cout << "pooled " << pooled::version_string << '\n';
}

}  // namespace

int main() {
    for (void (*example)() : {pool,
                              local_pool,
                              default_pool,
                              configure_default_pool,
                              pool_options,
                              exhaustion_hook,
                              teardown,
                              pool_stats,
                              size_class_stats,
                              exhausted,
                              allocator,
                              pool_allocator,
                              make_shared,
                              allocate_shared,
                              allocate_shared_for_overwrite,
                              make_shared_for_overwrite,
                              make_unique,
                              make_unique_for_overwrite,
                              unique_ptr,
                              deleter,
                              make_rc,
                              make_local_rc,
                              make_rc_for_overwrite,
                              make_shared_with_tail,
                              make_shared_with_tail_for_overwrite,
                              make_unique_with_tail,
                              make_unique_with_tail_for_overwrite,
                              make_rc_with_tail,
                              make_rc_with_tail_for_overwrite,
                              with_tail,
                              tail,
                              rc_ptr,
                              weak_rc_ptr,
                              local_rc_ptr,
                              weak_local_rc_ptr,
                              static_pointer_cast,
                              const_pointer_cast,
                              dynamic_pointer_cast,
                              reinterpret_pointer_cast,
                              to_shared,
                              enable_rc_from_this,
                              reclaim_scope,
                              pending,
                              destroy_in_place,
                              object_pool,
                              local_object_pool,
                              object_pool_options,
                              object_pool_stats,
                              default_lifecycle,
                              clear_on_release,
                              reset_on_release,
                              function_lifecycle,
                              version})
        example();
    return 0;
}
