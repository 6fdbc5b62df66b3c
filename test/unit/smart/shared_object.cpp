// SPDX-License-Identifier: BSL-1.0

// Plan: objects of make_shared that are deferred, in each of the three ways, behave like objects of std::make_shared,
// except for the time of their destruction.
//   - observers: none, some, the object itself; dropped before, while it waits, in its destructor, after, on another thread
//   - what a destructor sees: counts, observers, siblings, its own observers
//   - memory: each block goes back exactly once, and not before the object and the last observer
//   - order: an object goes after those that owned it; what is in containers is not deferred
//   - objects of all shapes: the block is found from the object and back

#include "pooled/pooled.hpp"
#include "pooled/smart/control_block.hpp"

#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using item = test::counted<>;

// Defers what is dropped, if the current teardown allows it.
struct in_a_scope {
    static constexpr char const* k_name = "in_a_scope";
    static constexpr pooled::teardown k_teardown = pooled::teardown::immediate;
    static void put_off(pooled::pool&, std::function<void()> const& drop,
                        std::function<void()> const& meanwhile) {
        pooled::reclaim_scope const scope;
        drop();
        meanwhile();
    }
};

// Within a destructor of an unordered pool's object: what that drops is deferred until the destructor has returned.
struct in_a_destructor {
    static constexpr char const* k_name = "in_a_destructor";
    static constexpr pooled::teardown k_teardown = pooled::teardown::unordered;
    struct working {
        explicit working(std::function<void()> w) : work(std::move(w)) {}
        working(working const&) = delete;
        working& operator=(working const&) = delete;
        ~working() { work(); }
        std::function<void()> work;
    };
    static void put_off(pooled::pool& pool, std::function<void()> const& drop,
                        std::function<void()> const& meanwhile) {
        auto outermost = pool.make_shared<working>([&] {
            drop();
            meanwhile();
        });
        outermost.reset();
    }
};

struct by_an_incremental_pool {
    static constexpr char const* k_name = "by_an_incremental_pool";
    static constexpr pooled::teardown k_teardown = pooled::teardown::incremental;
    static void put_off(pooled::pool& pool, std::function<void()> const& drop,
                        std::function<void()> const& meanwhile) {
        drop();
        meanwhile();
        pool.drain();
    }
};

using ways = testing::Types<in_a_scope, in_a_destructor, by_an_incremental_pool>;
struct way_names {
    template <class Way>
    static std::string GetName(int) {
        return Way::k_name;
    }
};

template <class Way>
class put_off : public testing::Test {
protected:
    pooled::pool pool{{.teardown = Way::k_teardown}};
    test::life_log log;

    ~put_off() override {
        pool.drain();
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(in_use(), 0U);
        EXPECT_TRUE(test::is_valid(pool));
    }
    [[nodiscard]] std::uint64_t in_use() const { return pool.stats().in_use; }

    // `drop` runs where nothing that it drops is destroyed, then `meanwhile`; then all of it is.
    void while_waiting(std::function<void()> const& drop, std::function<void()> const& meanwhile = [] {}) {
        Way::put_off(pool, drop, meanwhile);
    }
};
TYPED_TEST_SUITE(put_off, ways, way_names);

TYPED_TEST(put_off, an_object_that_is_observed_to_the_end_leaves_its_block_to_the_observer) {
    auto p = this->pool.template make_shared<item>(this->log);
    std::weak_ptr<item> observer = p;
    this->while_waiting([&] { p.reset(); },
                        [&] {
                            EXPECT_EQ(this->log.destroyed(), 0);
                            EXPECT_EQ(observer.use_count(), 0);
                            EXPECT_EQ(observer.lock(), nullptr);
                        });
    EXPECT_EQ(this->log.destroyed(), 1);
    EXPECT_EQ(this->in_use(), 1U);
    auto another = observer;
    observer.reset();
    EXPECT_EQ(this->in_use(), 1U);
    another.reset();
    EXPECT_EQ(this->in_use(), 0U);
}

TYPED_TEST(put_off, an_object_whose_observers_go_while_it_waits_waits_on) {
    auto p = this->pool.template make_shared<item>(this->log);
    std::weak_ptr<item> observer = p;
    auto another = observer;
    test::sleeper other;
    this->while_waiting([&] { p.reset(); },
                        [&] {
                            auto const before = this->in_use();
                            observer.reset();
                            other.run([&] { another.reset(); });
                            EXPECT_EQ(this->log.destroyed(), 0);
                            EXPECT_EQ(this->in_use(), before);
                        });
    EXPECT_EQ(this->log.destroyed(), 1);
    EXPECT_EQ(this->in_use(), 0U);
}

// An object that holds its only observer, or one more of itself than its base does.
struct self_observer : item {
    using item::item;
    ~self_observer() override {
        EXPECT_TRUE(self.expired());
        EXPECT_EQ(self.use_count(), 0);
        EXPECT_EQ(self.lock(), nullptr);
        if (drops_itself) self.reset();
        if (outlives != nullptr) *outlives = self;
    }
    std::weak_ptr<self_observer> self;
    bool drops_itself = false;
    std::weak_ptr<self_observer>* outlives = nullptr;
};

TYPED_TEST(put_off, an_object_may_be_its_own_only_observer) {
    for (bool const drops_itself : {false, true}) {
        auto p = this->pool.template make_shared<self_observer>(this->log);
        p->self = p;
        p->drops_itself = drops_itself;
        this->while_waiting([&] { p.reset(); });
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(this->in_use(), 0U);
    }
}

TYPED_TEST(put_off, an_observer_made_in_the_destructor_keeps_the_block_and_not_the_object) {
    std::weak_ptr<self_observer> saved;
    auto p = this->pool.template make_shared<self_observer>(this->log);
    p->self = p;
    p->outlives = &saved;
    this->while_waiting([&] { p.reset(); });
    EXPECT_EQ(this->log.destroyed(), 1);
    EXPECT_EQ(saved.lock(), nullptr);
    EXPECT_EQ(this->in_use(), 1U);
    saved.reset();
    EXPECT_EQ(this->in_use(), 0U);
}

struct aware : item, std::enable_shared_from_this<aware> {
    using item::item;
    ~aware() override { EXPECT_TRUE(this->weak_from_this().expired()); }
};

TYPED_TEST(put_off, an_object_that_knows_itself_frees_its_block_when_it_is_done) {
    auto p = this->pool.template make_shared<aware>(this->log);
    this->while_waiting([&] { p.reset(); }, [&] { EXPECT_EQ(this->log.destroyed(), 0); });
    EXPECT_EQ(this->log.destroyed(), 1);
    EXPECT_EQ(this->in_use(), 0U);
}

// Nodes with random owners and observers; for each block it is known when it may be freed.
struct node : item {
    using item::item;
    ~node() override {
        EXPECT_EQ(owners, 0U) << "destroyed before an owner let go";
        EXPECT_EQ(mark, k_alive) << "destroyed twice, or something else was written there";
        mark = ~k_alive;
        for (auto const& other : observed)
            if (auto const locked = other.lock()) {
                EXPECT_EQ(locked->mark, k_alive) << "locked after its end";
                EXPECT_NE(locked->owners, 0U) << "locked without an owner";
            }
        for (auto& child : owned) {
            --child->owners;
            child.reset();
        }
    }

    static constexpr std::uint64_t k_alive = 0x616c697665;
    std::uint64_t mark = k_alive;
    std::size_t owners = 0;
    std::vector<std::shared_ptr<node>> owned;
    std::vector<std::weak_ptr<node>> observed;
};

TYPED_TEST(put_off, a_graph_is_destroyed_each_object_once_and_after_its_owners) {
    std::uint64_t state = 7;
    auto const below = [&](std::size_t n) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::size_t>(state >> 33) % n;
    };
    for (int turn = 0; turn < 20; ++turn) {
        std::vector<std::shared_ptr<node>> all;
        for (std::size_t i = 0; i < 700; ++i) {
            auto p = this->pool.template make_shared<node>(this->log);
            for (std::size_t k = below(4); i != 0 && k-- != 0;) {
                auto const& child = all[below(i)];
                ++child->owners;
                p->owned.push_back(child);
                p->observed.push_back(all[below(i)]);
            }
            all.push_back(std::move(p));
        }
        for (auto const& p : all)  // some observe forwards, and so in circles
            p->observed.push_back(all[below(all.size())]);
        std::vector<std::weak_ptr<node>> observers(all.begin(), all.begin() + 300);
        this->while_waiting([&] { all.clear(); }, [&] { observers.resize(100); });
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(this->in_use(), 100U);
    }
}

TYPED_TEST(put_off, an_object_saved_by_a_destructor_lives_on_and_goes_later) {
    struct saver : item {
        using item::item;
        ~saver() override {
            if (auto found = other.lock()) *saved = std::move(found);
        }
        std::weak_ptr<item> other;
        std::shared_ptr<item>* saved = nullptr;
    };
    struct holder : item {
        using item::item;
        std::shared_ptr<saver> first;
        std::shared_ptr<item> held;
    };
    std::shared_ptr<item> saved;
    auto p = this->pool.template make_shared<holder>(this->log);
    auto const q = this->pool.template make_shared<item>(this->log);
    p->held = this->pool.template make_shared<item>(this->log);
    p->first = this->pool.template make_shared<saver>(this->log);
    p->first->other = q;
    p->first->saved = &saved;
    this->while_waiting([&] { p.reset(); });
    EXPECT_EQ(saved, q);
    EXPECT_EQ(this->log.alive(), 1);
    EXPECT_EQ(saved.use_count(), 2);
}

TYPED_TEST(put_off, counts_seen_by_destructors_are_those_of_the_owners_that_are_left) {
    struct counting : item {
        using item::item;
        ~counting() override { seen->push_back(shared.use_count()); }
        std::shared_ptr<item> shared;
        std::vector<long>* seen = nullptr;
    };
    std::vector<long> seen;
    std::vector<std::shared_ptr<counting>> all;
    auto common = this->pool.template make_shared<item>(this->log);
    for (std::size_t i = 0; i < 40; ++i) {
        all.push_back(this->pool.template make_shared<counting>(this->log));
        all.back()->shared = common;
        all.back()->seen = &seen;
    }
    common.reset();
    this->while_waiting([&] { all.clear(); });
    ASSERT_EQ(seen.size(), 40U);
    for (std::size_t i = 0; i < seen.size(); ++i)
        EXPECT_EQ(seen[i], static_cast<long>(seen.size() - i));
}

// A member that is destroyed where it stands.
struct ordered {
    ordered(std::vector<int>& o, int n) : out(&o), number(n) {}
    ordered(ordered&& other) noexcept : out(std::exchange(other.out, nullptr)), number(other.number) {}
    ordered(ordered const&) = delete;
    ordered& operator=(ordered const&) = delete;
    ~ordered() {
        if (out != nullptr) out->push_back(number);
    }
    std::vector<int>* out;
    int number;
};

TYPED_TEST(put_off, members_and_the_elements_of_containers_go_in_place_and_order) {
    struct owner {
        explicit owner(std::vector<int>& o) : first(o, 1), last(o, 4), out(o) {}
        ~owner() {
            out.push_back(5);
            by_map.clear();
        }
        ordered first;
        std::vector<ordered, pooled::allocator<ordered>> many;
        ordered last;
        std::map<int, ordered, std::less<>, pooled::allocator<std::pair<int const, ordered>>> by_map;
        std::vector<int>& out;
    };
    std::vector<int> out;
    auto p = this->pool.template make_shared<owner>(out);
    p->many.reserve(2);
    p->many.emplace_back(out, 2);
    p->many.emplace_back(out, 3);
    p->by_map.emplace(1, ordered(out, 6));
    p->by_map.emplace(2, ordered(out, 7));
    this->while_waiting([&] { p.reset(); }, [&] { EXPECT_TRUE(out.empty()); });
    ASSERT_EQ(out.size(), 7U);
    EXPECT_EQ(out[0], 5);
    EXPECT_EQ(out[1] + out[2], 13) << "the map is emptied within the destructor";
    EXPECT_EQ(out[3], 4);
    EXPECT_EQ(out[4] + out[5], 5);
    EXPECT_EQ(out[6], 1);
}

TYPED_TEST(put_off, elements_of_arrays_go_at_once_in_reverse_order) {
    struct element {
        ~element() { out->push_back(number); }
        std::vector<int>* out = nullptr;
        int number = 0;
    };
    std::vector<int> out;
    auto p = this->pool.template make_shared<element[]>(4);
    for (int i = 0; i < 4; ++i)
        p.get()[i] = {&out, i};
    out.clear();  // the temporaries'
    this->while_waiting([&] { p.reset(); }, [&] { EXPECT_EQ(out, (std::vector<int>{3, 2, 1, 0})); });
    EXPECT_EQ(out.size(), 4U);
}

// Objects of all shapes: each knows its own address.
template <std::size_t Bytes, std::size_t Align>
struct alignas(Align) placed {
    explicit placed(test::life_log& l) : log(l), self(this) {
        log.on_construct();
        bytes[0] = 1;
        bytes[Bytes - 1] = 1;
    }
    placed(placed const&) = delete;
    placed& operator=(placed const&) = delete;
    ~placed() {
        EXPECT_EQ(self, this) << "destroyed at another address than it was made";
        EXPECT_EQ(bytes[0] + bytes[Bytes - 1], 2);
        log.on_destroy();
    }
    test::life_log& log;
    placed* self;
    unsigned char bytes[Bytes];
};

TYPED_TEST(put_off, objects_of_every_size_and_alignment_are_found_in_their_blocks) {
    auto const both = [&]<class T>(std::type_identity<T>) {
        auto p = this->pool.template make_shared<T>(this->log);
        auto q = this->pool.template make_shared<T const>(this->log);
        std::weak_ptr<T const> observer = q;
        std::int64_t const before = this->log.destroyed();
        this->while_waiting(
            [&] {
                p.reset();
                q.reset();
            },
            [&] { EXPECT_EQ(this->log.destroyed(), before); });
        EXPECT_EQ(this->log.destroyed(), before + 2);
        observer.reset();
        EXPECT_EQ(this->in_use(), 0U);
    };
    both(std::type_identity<placed<1, 8>>{});
    both(std::type_identity<placed<100, 16>>{});
    both(std::type_identity<placed<33, 32>>{});
    both(std::type_identity<placed<64, 64>>{});
    both(std::type_identity<placed<1500, 8>>{});
    both(std::type_identity<placed<5000, 1024>>{});
    both(std::type_identity<placed<16, 4096>>{});
    both(std::type_identity<placed<40'000, 8>>{});
    both(std::type_identity<placed<40'000, 4096>>{});
    both(std::type_identity<placed<3'000'000, 64>>{});
}

TYPED_TEST(put_off, an_object_held_by_a_base_in_its_midst_is_found) {
    struct front {
        virtual ~front() = default;
        std::uint64_t words[3] = {1, 2, 3};
    };
    struct both : front, item {
        explicit both(test::life_log& l) : item(l) {}
    };
    std::shared_ptr<item> p = this->pool.template make_shared<both>(this->log);
    std::shared_ptr<item> q = this->pool.template make_shared<both>(this->log);
    std::weak_ptr<item> observer = q;
    this->while_waiting(
        [&] {
            p.reset();
            q.reset();
        },
        [&] { EXPECT_EQ(this->log.destroyed(), 0); });
    EXPECT_EQ(this->log.destroyed(), 2);
    observer.reset();
}

TYPED_TEST(put_off, a_constructor_that_throws_within_a_destructor_leaves_nothing_behind) {
    struct tries {
        tries(pooled::pool& p, test::life_log& l) : pool(p), log(l) {}
        tries(tries const&) = delete;
        tries& operator=(tries const&) = delete;
        ~tries() {
            log.throw_at(2);
            auto const first = pool.make_shared<item>(log);
            EXPECT_THROW(static_cast<void>(pool.make_shared<item>(log)), test::constructor_failed);
        }
        pooled::pool& pool;
        test::life_log& log;
    };
    auto p = this->pool.template make_shared<tries>(this->pool, this->log);
    this->while_waiting([&] { p.reset(); });
    EXPECT_EQ(this->log.alive(), 0);
}

// The pool's memory is returned by the last of them, on whichever thread.
TYPED_TEST(put_off, the_memory_of_a_pool_that_is_gone_goes_with_the_last_observer) {
    test::counting_upstream memory;
    {
        std::weak_ptr<item> observer;
        {
            pooled::pool short_lived{{.upstream = &memory, .teardown = TypeParam::k_teardown}};
            auto p = short_lived.make_shared<item>(this->log);
            auto q = short_lived.make_shared<item>(this->log);
            observer = p;
            TypeParam::put_off(
                short_lived,
                [&] {
                    p.reset();
                    q.reset();
                },
                [] {});
        }
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_NE(memory.bytes(), 0U);
    }
    EXPECT_EQ(memory.bytes(), 0U);
}

// Two threads: one drops the owner, the other the observer, as close to each other as possible.
template <class Drop>
void race(std::size_t turns, std::function<void(std::size_t)> const& prepare, Drop drop,
          std::function<void()> const& other_drop, std::function<void()> const& check) {
    std::atomic<std::size_t> started{0};
    std::atomic<std::size_t> finished{0};
    std::thread other([&] {
        for (std::size_t turn = 1; turn <= turns; ++turn) {
            while (started.load() != turn)
                std::this_thread::yield();
            other_drop();
            finished.store(turn);
        }
    });
    for (std::size_t turn = 1; turn <= turns; ++turn) {
        prepare(turn);
        started.store(turn);
        for (std::size_t i = 0; i < turn % 64; ++i)
            std::atomic_signal_fence(std::memory_order_seq_cst);
        drop();
        while (finished.load() != turn)
            std::this_thread::yield();
        check();
    }
    other.join();
}

TYPED_TEST(put_off, an_observer_that_goes_on_another_thread_at_that_moment_frees_nothing_early_or_twice) {
    std::shared_ptr<item> p;
    std::weak_ptr<item> observer;
    std::int64_t made = 0;
    race(
        1000,
        [&](std::size_t) {
            p = this->pool.template make_shared<item>(this->log);
            observer = p;
            ++made;
        },
        [&] { this->while_waiting([&] { p.reset(); }); }, [&] { observer.reset(); },
        [&] {
            ASSERT_EQ(this->log.destroyed(), made);
            ASSERT_EQ(this->in_use(), 0U);
        });
}

TYPED_TEST(put_off, an_observer_that_locks_on_another_thread_at_that_moment_finds_all_or_nothing) {
    std::shared_ptr<node> p;
    std::weak_ptr<node> observer;
    race(
        1000,
        [&](std::size_t) {
            p = this->pool.template make_shared<node>(this->log);
            observer = p;
        },
        [&] { this->while_waiting([&] { p.reset(); }); },
        [&] {
            if (auto const locked = observer.lock()) {
                EXPECT_EQ(locked->mark, node::k_alive);
            }
            observer.reset();
        },
        [&] {
            this->pool.drain();
            ASSERT_EQ(this->log.alive(), 0);
            ASSERT_EQ(this->in_use(), 0U);
        });
}

}  // namespace
