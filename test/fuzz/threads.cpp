// SPDX-License-Identifier: BSL-1.0
// The differential fuzzer of several threads. They create, exchange, observe and drop objects of pools that others replace,
// trim and drain meanwhile, recycle objects, wait for them, start and end.
//
//   fuzz-threads --seconds <n> [--seed <s>]        rounds of random programs, for n seconds of processor time
//
// Each user of an object checks its contents; after each round every object is destroyed, every block returned, and
// upstream has all of its memory.

#include "pooled/pooled.hpp"

#include "fuzz/input.hpp"
#include "fuzz/objects.hpp"
#include "support/internals.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace fuzz;

// Fails one call in `m_one_in`.
class shared_upstream final : public std::pmr::memory_resource {
public:
    explicit shared_upstream(std::size_t one_in) : m_one_in(one_in) {}
    shared_upstream(shared_upstream const&) = delete;
    shared_upstream& operator=(shared_upstream const&) = delete;
    ~shared_upstream() override { check(m_bytes == 0, "all memory is given back to upstream"); }

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        if (m_one_in != 0 && m_calls.fetch_add(1) % m_one_in == m_one_in - 1) throw std::bad_alloc();
        m_bytes += bytes;
        return ::operator new(bytes, std::align_val_t(align));
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        m_bytes -= bytes;
        ::operator delete(p, std::align_val_t(align));
    }
    [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
        return this == &other;
    }

    std::size_t m_one_in;
    std::atomic<std::size_t> m_calls{0};
    std::atomic<std::size_t> m_bytes{0};
};

// Numbers, and how many objects are alive.
class ledger {
public:
    [[nodiscard]] std::uint32_t born() {
        m_alive.fetch_add(1, std::memory_order_relaxed);
        return m_next.fetch_add(1, std::memory_order_relaxed);
    }
    void destroyed(std::uint32_t) { m_alive.fetch_sub(1, std::memory_order_relaxed); }
    [[nodiscard]] std::size_t alive() const { return m_alive.load(); }

private:
    std::atomic<std::size_t> m_alive{0};
    std::atomic<std::uint32_t> m_next{0};
};

struct connection {
    std::atomic<bool> is_out{false};
    std::array<std::byte, 100> bytes{};
    std::uint64_t number = 0;
};
struct one_user {
    static void on_acquire(connection& one) {
        check(!one.is_out.exchange(true), "an object has one user at a time");
        fill(one.bytes, ++one.number);
    }
    static void on_release(connection& one) noexcept {
        check_filled(one.bytes, one.number);
        check(one.is_out.exchange(false), "an object is released once");
    }
};

constexpr std::size_t k_pools = 4;
constexpr std::size_t k_threads = 4;
constexpr std::size_t k_places = 12;
constexpr std::size_t k_most_connections = 3;

struct round_of_threads {
    using weak = std::pair<std::weak_ptr<node>, pooled::weak_rc_ptr<node>>;

    explicit round_of_threads(std::uint64_t seed)
        : random_options(seed), from(random_options.below(3) == 0 ? 5 : 0) {
        for (auto& one : pools)
            one = open();
    }

    std::shared_ptr<pooled::pool> open() {
        static constexpr std::array<std::size_t, 3> bounds{0, std::size_t{512} << 10, std::size_t{8} << 20};
        std::scoped_lock const guard(lock);
        pooled::pool_options options{.name = "fuzzed"};
        options.max_bytes = bounds[random_options.below(bounds.size())];
        if (random_options.below(2) == 0) options.upstream = &from;
        options.teardown = static_cast<pooled::teardown>(random_options.below(3));
        options.release_unused_after = std::chrono::milliseconds(random_options.below(3));
        return std::make_shared<pooled::pool>(options);
    }
    std::shared_ptr<pooled::pool> any_pool(generator& random) {
        std::scoped_lock const guard(lock);
        return pools[random.below(k_pools)];
    }

    handle make(generator& random, std::vector<handle>& places) {
        auto const pool = any_pool(random);
        std::array<handle, 2> owned{};
        for (handle& one : owned)
            if (random.below(2) == 0) one = std::exchange(places[random.below(k_places)], std::monostate());
        std::size_t const kind = random.below(3);
        bool const fails = random.below(16) == 0;
        auto const make_id = [this] { return objects.born(); };
        try {
            return with_size(random.below(k_sizes), [&]<std::size_t Bytes, std::size_t Align>() -> handle {
                using type = sized_node<ledger, Bytes, Align>;
                if (kind == 0)
                    return shared_handle(pool->try_make_shared<type>(objects, fails, make_id, owned));
                if (kind == 1) return rc_handle(pool->try_make_rc<type>(objects, fails, make_id, owned));
                return unique_handle(pool->make_unique<type>(objects, fails, make_id, owned));
            });
        } catch (refused const&) {
        } catch (std::bad_alloc const&) {}
        return {};
    }

    // Swaps what the thread has in a place with what lies in the mailbox.
    void exchange(generator& random, handle& place) {
        std::scoped_lock const guard(mail_lock);
        std::swap(place, mail[random.below(mail.size())]);
    }

    void work(std::uint64_t seed, std::size_t steps) {
        generator random(seed);
        std::vector<handle> places(k_places);
        std::vector<weak> observers(4);
        while (steps-- != 0) {
            handle& place = places[random.below(k_places)];
            switch (random.below(24)) {
            case 0:
            case 1:
            case 2:
            case 3:
            case 4:
            case 5: {
                handle made = make(random, places);
                place = std::move(made);
                break;
            }
            case 6:
            case 7:
            case 8:
                place = std::monostate();
                break;
            case 9:
            case 10:
            case 11:
            case 12:
                exchange(random, place);
                break;
            case 13:
                if (node const* const one = get(place)) one->check_contents();
                break;
            case 14: {
                handle& to = places[random.below(k_places)];
                if (&to == &place) break;
                if (auto* const s = std::get_if<shared_handle>(&place)) to = *s;
                if (auto* const r = std::get_if<rc_handle>(&place)) to = *r;
                break;
            }
            case 15: {
                weak& to = observers[random.below(observers.size())];
                if (auto* const s = std::get_if<shared_handle>(&place)) to.first = *s;
                if (auto* const r = std::get_if<rc_handle>(&place)) to.second = *r;
                break;
            }
            case 16: {
                weak const& one = observers[random.below(observers.size())];
                if (auto const s = one.first.lock()) s->check_contents();
                if (auto const r = one.second.lock()) r->check_contents();
                break;
            }
            case 17: {
                auto const got = random.below(2) == 0
                                     ? connections.try_acquire()
                                     : connections.acquire_for(std::chrono::microseconds(random.below(200)));
                if (got) check_filled(got->bytes, got->number);
                break;
            }
            case 18: {
                auto const got = connections.try_acquire_rc();
                if (got) check_filled(got->bytes, got->number);
                if (random.below(16) == 0) connections.trim();
                break;
            }
            case 19: {
                auto const pool = any_pool(random);
                std::size_t const bytes = random.below(3000);
                if (void* const p = pool->try_allocate(bytes)) {
                    fill({static_cast<std::byte*>(p), bytes}, seed);
                    check_filled({static_cast<std::byte*>(p), bytes}, seed);
                    pool->deallocate(p, bytes);
                }
                break;
            }
            case 20:
                if (random.below(8) == 0) any_pool(random)->trim();
                break;
            case 21:
                any_pool(random)->drain(random.below(16));
                break;
            case 22: {
                pooled::reclaim_scope const scope;
                for (int i = 0; i < 3; ++i)
                    places[random.below(k_places)] = std::monostate();
                break;
            }
            default:
                if (random.below(8) != 0) break;
                auto fresh = open();
                std::unique_lock guard(lock);
                std::swap(pools[random.below(k_pools)], fresh);
                guard.unlock();  // the old one may be destroyed here, with objects in use
            }
        }
    }

    void run(std::uint64_t seed) {
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < k_threads; ++i)
            threads.emplace_back([this, seed, i] {
                generator random(seed * k_threads + i);
                // A few threads, one after the other: what a thread has cached is returned when it ends.
                for (std::size_t life = 0; life < 3; ++life)
                    std::thread([&] { work(random.next(), 200 + random.below(600)); }).join();
            });
        for (std::thread& one : threads)
            one.join();
        for (handle& one : mail)
            one = std::monostate();
        // What one pool destroys may defer in another.
        for (std::size_t destroyed = 1; destroyed != 0;) {
            destroyed = 0;
            for (auto& one : pools)
                destroyed += one->drain();
        }
        for (auto& one : pools) {
            check(test::is_valid(*one), "a pool's structures are valid");
            check(one->stats().in_use == 0, "every block was returned");
        }
        check(test::is_valid(connections) && connections.in_use() == 0, "every connection was released");
        check(connections.capacity() <= k_most_connections, "the bound on objects is hard");
        for (auto& one : pools)
            one.reset();
        check(objects.alive() == 0, "every object is destroyed in the end");
    }

    generator random_options;
    shared_upstream from;  // outlives the pools
    ledger objects;
    std::mutex lock;
    std::array<std::shared_ptr<pooled::pool>, k_pools> pools;
    pooled::object_pool<connection, one_user> connections{{.max_objects = k_most_connections}};
    std::mutex mail_lock;
    std::array<handle, 16> mail;
};

}  // namespace

int main(int argc, char** argv) {
    double seconds = 1;
    std::uint64_t seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string_view const option = argv[i];
        if (option == "--seconds") seconds = std::atof(argv[i + 1]);
        if (option == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    }
    std::size_t rounds = 0;
    for (; static_cast<double>(std::clock()) / CLOCKS_PER_SEC < seconds; ++rounds, ++seed) {
        round_of_threads one(seed);
        one.run(seed);
        if (seed % 64 == 0)
            std::fprintf(stderr, "fuzz-threads: seed %llu\n", static_cast<unsigned long long>(seed));
    }
    std::printf("fuzz-threads: %zu rounds; every promise held\n", rounds);
    return 0;
}
