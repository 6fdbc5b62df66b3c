// SPDX-License-Identifier: BSL-1.0
// Plan: two threads drop the halves of one small graph at the same moment, over and over. Within a half nodes own each
// other, a few are owned by both; weak pointers go across, and destructors lock them: so an object that waits on one
// thread is looked for by the other, its last owner may be a destructor over there, and its last observer, too.
//   - nodes by std::shared_ptr and by rc_ptr, some of which know themselves
//   - in the default pool, a pool, an incremental pool, or all of them by turns
//   - dropped one by one or in a reclaim_scope; what waits is drained by both threads, by one, or handed over
// After each turn every object has been destroyed exactly once and no block is out.
//
// POOLED_TEST_ITERATIONS says how many turns each test takes; 1,000,000 are run by hand under the sanitizers.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/internals.hpp"
#include "support/starting_line.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace stress;

constexpr std::size_t k_least_nodes = 8;
constexpr std::size_t k_most_nodes = 40;

[[nodiscard]] std::size_t iterations() {
    if (char const* const asked = std::getenv("POOLED_TEST_ITERATIONS"))
        return std::strtoull(asked, nullptr, 10);
    return scaled(3'000, 300);
}

// Errors that any thread found: the last one, and their number.
class faults {
public:
    void expect(bool is_right, char const* what) noexcept {
        if (is_right) return;
        m_what.store(what);
        ++m_count;
    }
    [[nodiscard]] std::size_t count() const noexcept { return m_count; }
    [[nodiscard]] char const* last() const noexcept { return m_what; }

private:
    std::atomic<std::size_t> m_count{0};
    std::atomic<char const*> m_what{""};
};

// Counts of one turn, and of all.
struct books {
    faults wrong;
    std::array<std::atomic<unsigned>, k_most_nodes> destroyed{};
    std::array<std::uint64_t, 2> locked{};  // by a destructor on that thread, on the other half
    std::array<std::uint64_t, 2> expired{};
};

thread_local std::size_t t_me = 0;  // 0 or 1

struct shared_node;
struct counted_node;

class node {
public:
    node(books& b, std::size_t number, bool gathers) noexcept
        : m_books(b), m_number(number), m_gathers(gathers) {}
    node(node const&) = delete;
    node& operator=(node const&) = delete;
    ~node();

    // By whoever holds it. Without atomics: who destroys it must have seen this.
    void touch() noexcept {
        m_books.wrong.expect(m_mark == k_alive, "an object was locked that is not alive");
        ++m_touched[t_me];
    }

    std::array<std::shared_ptr<shared_node>, 2> shared;
    std::array<pooled::rc_ptr<counted_node>, 2> counted;
    std::array<std::weak_ptr<shared_node>, 2> weak_shared;
    std::array<pooled::weak_rc_ptr<counted_node>, 2> weak_counted;

private:
    static constexpr std::uint64_t k_alive = 0x616c697665;

    void look_across(node* other) noexcept {
        if (other == nullptr) {
            ++m_books.expired[t_me];
        } else {
            ++m_books.locked[t_me];
            other->touch();
        }
    }

    books& m_books;
    std::uint64_t m_mark = k_alive;
    std::size_t m_number;
    std::array<std::uint32_t, 2> m_touched{};
    bool m_gathers;
};

struct shared_node : node {
    using node::node;
};
struct aware_shared_node : shared_node, std::enable_shared_from_this<aware_shared_node> {
    using shared_node::shared_node;
    std::array<std::uint64_t, 6> payload{};
};
struct counted_node : node {
    using node::node;
};
struct aware_counted_node : counted_node, pooled::enable_rc_from_this<aware_counted_node> {
    using counted_node::counted_node;
    std::array<std::uint64_t, 6> payload{};
};

node::~node() {
    m_books.wrong.expect(m_mark == k_alive, "an object was destroyed that is not alive");
    m_books.wrong.expect(m_touched[0] < 1000 && m_touched[1] < 1000, "an object was written over");
    m_mark = ~k_alive;
    ++m_books.destroyed[m_number];
    std::optional<pooled::reclaim_scope> scope;
    if (m_gathers) scope.emplace();
    for (auto const& other : weak_shared)
        look_across(other.lock().get());
    for (auto const& other : weak_counted)
        look_across(other.lock().get());
    if (m_number % 2 == 0) {
        weak_shared[0].reset();
        weak_counted[0].reset();
    }
    shared[0].reset();
    counted[1].reset();
}

// Either kind of pointer.
struct any_owner {
    std::shared_ptr<shared_node> shared;
    pooled::rc_ptr<counted_node> counted;

    [[nodiscard]] node& get() const noexcept {
        return shared != nullptr ? static_cast<node&>(*shared) : static_cast<node&>(*counted);
    }
};
struct any_observer {
    std::weak_ptr<shared_node> shared;
    pooled::weak_rc_ptr<counted_node> counted;
};

enum class where { default_pool, pool, incremental_pool, all };

class teardown_graph : public testing::TestWithParam<where> {
protected:
    pooled::pool pool;
    pooled::pool slow{{.teardown = pooled::teardown::incremental}};

    void turns(std::size_t count) {
        std::uint64_t const before = pooled::default_pool().stats().in_use;
        std::thread other([&] { work(1, count, before); });
        work(0, count, before);
        other.join();
        EXPECT_EQ(m_books.wrong.count(), 0U) << m_books.wrong.last() << ", last in turn " << m_turn;
        EXPECT_TRUE(test::is_valid(pool));
        EXPECT_TRUE(test::is_valid(slow));
        EXPECT_TRUE(test::is_valid(pooled::default_pool()));
    }

    void report(std::size_t count) const {
        std::printf("%zu turns; destructors found the other half alive %llu times, gone %llu times; both "
                    "threads found "
                    "something alive in %zu turns\n",
                    count, static_cast<unsigned long long>(m_books.locked[0] + m_books.locked[1]),
                    static_cast<unsigned long long>(m_books.expired[0] + m_books.expired[1]), m_overlapped);
    }

private:
    void work(std::size_t me, std::size_t count, std::uint64_t in_use_before) {
        t_me = me;
        for (std::size_t turn = 0; turn < count; ++turn) {
            if (turn % 2 == me) build(turn);
            dice roll(2 * turn + me);
            m_barrier.arrive_and_wait();
            drop(me, roll);
            m_barrier.arrive_and_wait();
            finish(me, turn);
            m_barrier.arrive_and_wait();
            if (me == 0) check(turn, in_use_before);
            m_barrier.arrive_and_wait();
            if (m_books.wrong.count() != 0) return;  // neither has begun the next turn
        }
    }

    void build(std::size_t turn) {
        dice roll(turn ^ 0x5bd1e995);
        m_nodes = k_least_nodes + roll.below(k_most_nodes - k_least_nodes + 1);
        m_owners.resize(m_nodes);
        std::array<bool, k_most_nodes> is_owned{};
        for (std::size_t i = 0; i < m_nodes; ++i) {
            m_owners[i] = make(i, roll);
            node& made = m_owners[i].get();
            for (std::size_t edge = 0; edge < 2 && i >= 2; ++edge) {
                bool const is_across = roll.below(8) == 0;
                std::size_t const back = 2 * roll.below(i < 8 ? i / 2 : 4);  // near, so that it gets deep
                std::size_t const child = i - 2 - back + (is_across ? 1 : 0);
                any_owner const& owner = m_owners[child];
                made.shared[edge] = owner.shared;
                made.counted[edge] = owner.counted;
                is_owned[child] = true;
            }
        }
        for (std::size_t i = 0; i < m_nodes; ++i)
            for (std::size_t edge = 0; edge < 2; ++edge) {
                any_owner const& seen = m_owners[random_node(1 - i % 2, roll)];
                if (seen.shared != nullptr)
                    m_owners[i].get().weak_shared[edge] = seen.shared;
                else
                    m_owners[i].get().weak_counted[edge] = seen.counted;
            }
        for (std::size_t half = 0; half < 2; ++half)
            for (std::size_t i = roll.below(4); i-- != 0;) {
                any_owner const& seen = m_owners[random_node(1 - half, roll)];
                m_observers[half].push_back({seen.shared, seen.counted});
            }
        for (std::size_t i = 0; i < m_nodes; ++i)
            if (!is_owned[i] || roll.below(8) == 0) m_roots[i % 2].push_back(std::move(m_owners[i]));
        m_owners.clear();
    }

    [[nodiscard]] std::size_t random_node(std::size_t half, dice& roll) const {
        return half + 2 * roll.below((m_nodes - half + 1) / 2);
    }

    [[nodiscard]] any_owner make(std::size_t number, dice& roll) {
        switch (GetParam() == where::all ? static_cast<where>(roll.below(3)) : GetParam()) {
        case where::default_pool:
            return make_in(pooled::default_pool(), number, roll);
        case where::pool:
            return make_in(pool, number, roll);
        default:
            return make_in(slow, number, roll);
        }
    }
    [[nodiscard]] any_owner make_in(pooled::pool& from, std::size_t number, dice& roll) {
        bool const gathers = roll.below(4) == 0;
        switch (roll.below(6)) {
        case 0:
        case 1:
            return {from.make_shared<shared_node>(m_books, number, gathers), {}};
        case 2:
            return {from.make_shared<aware_shared_node>(m_books, number, gathers), {}};
        case 3:
        case 4:
            return {{}, from.make_rc<counted_node>(m_books, number, gathers)};
        default:
            return {{}, from.make_rc<aware_counted_node>(m_books, number, gathers)};
        }
    }

    void drop(std::size_t me, dice& roll) {
        std::optional<pooled::reclaim_scope> scope;
        if (roll.below(3) == 0) scope.emplace();
        bool const observers_first = roll.below(2) == 0;
        if (observers_first) m_observers[me].clear();
        for (auto& root : m_roots[me]) {
            root = {};
            if (roll.below(8) == 0) slow.deallocate(slow.allocate(64), 64);  // destroys some that wait
        }
        m_roots[me].clear();
        m_observers[me].clear();
    }

    // What the incremental pool still holds.
    void finish(std::size_t me, std::size_t turn) {
        switch (turn / 2 % 4) {
        case 0:
            slow.drain();
            break;
        case 1:
            if (me == 0) m_handed_over = slow.take_pending();
            m_barrier.arrive_and_wait();
            if (me == 1) {
                m_handed_over.drain(turn % 7);
                m_handed_over = {};
            }
            break;
        case 2:
            while (slow.drain(1 + turn % 5) != 0) {}
            break;
        default:
            for (std::size_t i = 0; i < k_most_nodes / 8; ++i)
                slow.deallocate(slow.allocate(64), 64);
        }
    }

    void check(std::size_t turn, std::uint64_t in_use_before) {
        slow.drain();
        m_turn = turn;
        std::array<std::uint64_t, 2> const before = std::exchange(m_locked, m_books.locked);
        if (m_locked[0] != before[0] && m_locked[1] != before[1]) ++m_overlapped;
        for (std::size_t i = 0; i < m_nodes; ++i) {
            unsigned const times = m_books.destroyed[i].exchange(0);
            m_books.wrong.expect(times != 0, "an object was not destroyed");
            m_books.wrong.expect(times < 2, "an object was destroyed twice");
        }
        m_books.wrong.expect(pool.stats().in_use == 0, "a block of the pool is out");
        m_books.wrong.expect(slow.stats().in_use == 0, "a block of the incremental pool is out");
        m_books.wrong.expect(pooled::default_pool().stats().in_use == in_use_before,
                             "a block of the default pool is out");
    }

    test::starting_line m_barrier{2};
    books m_books;
    std::size_t m_turn = 0;
    std::size_t m_overlapped = 0;
    std::array<std::uint64_t, 2> m_locked{};  // until the turn before

    // The graph of the turn.
    std::size_t m_nodes = 0;
    std::vector<any_owner> m_owners;
    std::array<std::vector<any_owner>, 2> m_roots;
    std::array<std::vector<any_observer>, 2> m_observers;
    pooled::pending m_handed_over;
};

TEST_P(teardown_graph, halves_dropped_by_two_threads_are_destroyed_once_and_leave_no_block) {
    std::size_t const count = iterations();
    turns(count);
    report(count);
}

INSTANTIATE_TEST_SUITE_P(nodes_in, teardown_graph,
                         testing::Values(where::default_pool, where::pool, where::incremental_pool,
                                         where::all),
                         [](testing::TestParamInfo<where> const& one) -> std::string {
                             switch (one.param) {
                             case where::default_pool:
                                 return "the_default_pool";
                             case where::pool:
                                 return "a_pool";
                             case where::incremental_pool:
                                 return "an_incremental_pool";
                             default:
                                 return "all_pools";
                             }
                         });

// Deferred objects and memory pressure: bounded incremental pools used by eight threads, and pools that stand on pools.
// However the threads interleave, no allocation is refused while memory is deferred, and no destructor runs under a lock.
// POOLED_TEST_SECONDS says how long each test runs; 60 is run by hand.

[[nodiscard]] std::chrono::steady_clock::time_point end_of_test() {
    char const* const asked = std::getenv("POOLED_TEST_SECONDS");
    auto const time = asked != nullptr ? std::chrono::seconds(std::atoi(asked)) : std::chrono::seconds(1);
    return std::chrono::steady_clock::now() + time;
}

constexpr std::size_t k_threads = 8;

struct allocating_node {
    explicit allocating_node(pooled::pool* p = nullptr) noexcept : pool(p) {}
    allocating_node(allocating_node const&) = delete;
    allocating_node& operator=(allocating_node const&) = delete;
    // Allocates, as destructors of users may: that needs every lock on the way down.
    ~allocating_node() {
        if (pool != nullptr)
            if (void* const p = pool->try_allocate(64)) pool->deallocate(p, 64);
    }
    pooled::pool* pool;
    std::shared_ptr<allocating_node> next;
    std::array<char, 16> payload{};
};

// A list, or empty when an allocation was refused.
std::shared_ptr<allocating_node> try_list(pooled::pool& pool, std::size_t length, pooled::pool* allocates) {
    std::shared_ptr<allocating_node> head;
    for (std::size_t i = 0; i < length; ++i) {
        auto front = pool.try_make_shared<allocating_node>(allocates);
        if (front == nullptr) return nullptr;
        front->next = std::move(head);
        head = std::move(front);
    }
    return head;
}

TEST(a_bounded_incremental_pool, refuses_nothing_when_destructors_allocate) {
    pooled::pool pool{{.max_bytes = 512 << 10, .teardown = pooled::teardown::incremental}};
    std::atomic<std::size_t> refused{0};
    auto const end = end_of_test();
    stress::on_threads(k_threads, [&](std::size_t me) {
        stress::dice random(me + 1);
        while (std::chrono::steady_clock::now() < end)
            if (try_list(pool, 1 + random.below(100), &pool) == nullptr) ++refused;
    });
    EXPECT_EQ(refused, 0U);
    pool.drain();
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST(pools_on_pools_on_pools, neither_deadlock_nor_refuse) {
    using pooled::teardown;
    for (auto const [lowest, middle, top] :
         {std::array{teardown::incremental, teardown::immediate, teardown::immediate},
          std::array{teardown::immediate, teardown::incremental, teardown::incremental},
          std::array{teardown::incremental, teardown::incremental, teardown::incremental},
          std::array{teardown::unordered, teardown::immediate, teardown::incremental}}) {
        pooled::pool a{{.max_bytes = 16 << 20, .teardown = lowest}};
        pooled::pool b{{.chunk_bytes = 64 << 10, .upstream = a.resource(), .teardown = middle}};
        pooled::pool c{
            {.max_bytes = 4 << 20, .chunk_bytes = 64 << 10, .upstream = b.resource(), .teardown = top}};
        std::array<pooled::pool*, 3> const pools{&a, &b, &c};
        std::atomic<std::size_t> refused{0};
        auto const end = end_of_test();
        stress::on_threads(k_threads, [&](std::size_t me) {
            stress::dice random(me + 1);
            while (std::chrono::steady_clock::now() < end) {
                std::optional<pooled::reclaim_scope> scope;
                if (random.below(3) == 0) scope.emplace();
                for (std::size_t i = random.below(5); i != 0; --i)
                    if (try_list(*pools[random.below(3)], 1 + random.below(60), pools[random.below(3)]) ==
                        nullptr)
                        ++refused;
                // Large ones: upstream is called for each.
                pooled::pool& large = *pools[random.below(3)];
                if (void* const p = large.try_allocate(48 << 10))
                    large.deallocate(p, 48 << 10);
                else
                    ++refused;
                if (random.below(16) == 0) pools[random.below(3)]->drain(random.below(100));
                if (random.below(64) == 0) pools[random.below(3)]->trim();
            }
        });
        EXPECT_EQ(refused, 0U);
        for (pooled::pool* each : pools)
            each->drain();
    }
}

// The deadlock of issue 11: growing the upper pool calls the lower one, exhausted, whose relief destroys what this thread
// gathered: a large object of the upper pool, which needs the upper pool's lock.
TEST(pools_on_pools_on_pools, relieve_the_lower_one_outside_of_the_upper_ones_lock) {
    pooled::pool lower{{.max_bytes = 1 << 20}};
    pooled::pool upper{{.chunk_bytes = 64 << 10, .upstream = lower.resource()}};
    struct large {
        ~large() { bytes[0] = 1; }
        std::array<char, 400 << 10> bytes;
    };
    pooled::reclaim_scope const scope;
    for (int i = 0; i < 20; ++i)
        EXPECT_NE(upper.try_make_shared<large>(), nullptr);
}

// The same with deferred objects of an incremental lower pool.
TEST(pools_on_pools_on_pools, relieve_an_incremental_lower_one) {
    pooled::pool lower{{.max_bytes = 1 << 20, .teardown = pooled::teardown::incremental}};
    pooled::pool upper{{.chunk_bytes = 64 << 10, .upstream = lower.resource()}};
    struct keeps {
        explicit keeps(pooled::pool& p) : memory(p.try_make_unique<std::array<char, 40 << 10>>()) {}
        pooled::unique_ptr<std::array<char, 40 << 10>> memory;
        std::array<char, 30'000> bytes{};
    };
    for (int i = 0; i < 200; ++i) {
        auto const object = lower.try_make_shared<keeps>(upper);
        ASSERT_NE(object, nullptr);
        ASSERT_NE(object->memory, nullptr);
    }
}

}  // namespace
