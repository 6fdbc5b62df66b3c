// SPDX-License-Identifier: BSL-1.0

// Plan: threads copy, observe, lock and drop the same objects. Each object records whether it is alive and intact, so an
// object that is used after its end, destroyed twice or never, or whose block is reused too early is detected. Each test
// aims at one race of the count word:
//   - the last two owners                 sole-owner path of release_strong against its own slow path
//   - lock() and the last owner           try_add_strong against retire
//   - the last observer and the owners    release_weak's own fast path, from both sides
//   - an object that asks for itself      rc_from_this while owners come and go
//   - teardown on one thread, observers on another: the object waits in a queue while they lock

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
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace stress;

// Writes to itself without atomics: the thread that destroys it must see all that the others wrote.
class witness : public pooled::enable_rc_from_this<witness> {
public:
    witness() noexcept { ++s_alive; }
    witness(witness const&) = delete;
    witness& operator=(witness const&) = delete;
    ~witness() {
        std::uint64_t sum = 0;
        for (std::uint64_t& n : touched)
            sum += std::exchange(n, 0);
        if (m_mark != k_alive || sum != m_touches.load(std::memory_order_relaxed)) ++g_damaged;
        m_mark = 0;
        --s_alive;
    }
    // Each thread has a word of its own.
    void touch(std::size_t thread) noexcept {
        if (m_mark != k_alive) ++g_damaged;
        ++touched[thread];
        m_touches.fetch_add(1, std::memory_order_relaxed);
    }

    static inline std::atomic<std::int64_t> s_alive{0};

private:
    static constexpr std::uint64_t k_alive = 0x616c697665616c69;
    std::uint64_t m_mark = k_alive;
    std::array<std::uint64_t, 4> touched{};
    std::atomic<std::uint64_t> m_touches{0};
};

// The same without a base class, which takes the other way through retire().
class plain_witness {
public:
    plain_witness() noexcept { ++witness::s_alive; }
    plain_witness(plain_witness const&) = delete;
    plain_witness& operator=(plain_witness const&) = delete;
    ~plain_witness() {
        if (std::exchange(m_mark, 0) != k_alive) ++g_damaged;
        --witness::s_alive;
    }
    void touch(std::size_t thread) noexcept {
        if (m_mark != k_alive) ++g_damaged;
        ++m_touched[thread];
    }

private:
    static constexpr std::uint64_t k_alive = 0x616c697665616c69;
    std::uint64_t m_mark = k_alive;
    std::array<std::uint64_t, 4> m_touched{};
};

class rc_ptr_stress : public testing::Test {
protected:
    ~rc_ptr_stress() override {
        EXPECT_EQ(g_damaged.exchange(0), 0U) << "an object was used after its end or destroyed before it";
        EXPECT_EQ(witness::s_alive.exchange(0), 0) << "an object was never destroyed";
        EXPECT_EQ(pool.stats().in_use, 0U) << "a block was never freed";
        EXPECT_TRUE(test::is_valid(pool));
    }
    pooled::pool pool;
};

// On a machine with other work to do a round may take a scheduler's slice for each thread: it is enough then.
constexpr std::chrono::milliseconds k_long_enough{400};

// Rounds in which all threads begin at the same moment: thread 0 prepares, then each does its part.
template <class Prepare, class Part>
void in_step(std::size_t threads, std::size_t rounds, Prepare&& prepare, Part&& part) {
    test::starting_line line(threads);
    bool is_over = false;  // thread 0 writes it while the others wait
    auto const start = std::chrono::steady_clock::now();
    on_threads(threads, [&](std::size_t t) {
        for (std::size_t round = 0;; ++round) {
            if (t == 0) {
                is_over = round == rounds || std::chrono::steady_clock::now() - start > k_long_enough;
                if (!is_over) prepare(round);
            }
            line.arrive_and_wait();
            if (is_over) return;
            part(t, round);
            line.arrive_and_wait();
        }
    });
}

// How far a thread has come, for another that is to meet it half-way, each round elsewhere.
class progress {
public:
    void reset() noexcept { m_at.store(0, std::memory_order_relaxed); }
    void step() noexcept { m_at.fetch_add(1, std::memory_order_relaxed); }
    void wait_for(std::size_t at) const noexcept {
        while (m_at.load(std::memory_order_relaxed) < at)
            std::this_thread::yield();
    }

private:
    std::atomic<std::size_t> m_at{0};
};

constexpr std::size_t k_objects = 64;

TEST_F(rc_ptr_stress, of_owners_that_let_go_at_the_same_moment_one_destroys) {
    std::array<std::array<pooled::rc_ptr<plain_witness>, k_objects>, 2> held;
    in_step(
        2, scaled(20'000, 1'000),
        [&](std::size_t) {
            for (std::size_t i = 0; i < k_objects; ++i)
                held[0][i] = held[1][i] = pool.make_rc<plain_witness>();
        },
        [&](std::size_t t, std::size_t) {
            for (auto& p : held[t]) {
                p->touch(t);
                p.reset();
            }
        });
}

TEST_F(rc_ptr_stress, a_lock_gets_a_living_object_or_none_while_the_last_owner_lets_go) {
    std::array<pooled::rc_ptr<plain_witness>, k_objects> owners;
    std::array<std::array<pooled::weak_rc_ptr<plain_witness>, k_objects>, 3> observers;
    std::atomic<std::size_t> found{0};
    progress first_observer;
    in_step(
        3, scaled(8'000, 500),
        [&](std::size_t) {
            first_observer.reset();
            for (std::size_t i = 0; i < k_objects; ++i) {
                owners[i] = pool.make_rc<plain_witness>();
                for (auto& of_thread : observers)
                    of_thread[i] = owners[i];
            }
        },
        [&](std::size_t t, std::size_t round) {
            // In opposite directions, so that they meet at some object; at least one is found before.
            if (t == 0) first_observer.wait_for(1 + round % (k_objects / 2));
            for (std::size_t i = 0; i < k_objects; ++i) {
                std::size_t const at = t == 0 ? i : k_objects - 1 - i;
                if (t == 0) owners[at].reset();
                if (auto const p = observers[t][at].lock()) {
                    p->touch(t);
                    if (t != 0) ++found;
                    auto const copy = p;
                    if (round % 2 == 0) observers[t][at].reset();
                }
                observers[t][at].reset();
                if (t == 1) first_observer.step();
            }
        });
    EXPECT_GT(found, 0U) << "the race was never run";
}

TEST_F(rc_ptr_stress, the_last_of_owners_and_observers_frees_the_block) {
    // One owner and one observer, each thread has one: whichever comes last frees it, by the fast path or the other.
    std::array<pooled::rc_ptr<plain_witness>, k_objects> owners;
    std::array<pooled::weak_rc_ptr<plain_witness>, k_objects> observers;
    std::array<pooled::weak_rc_ptr<plain_witness>, k_objects> more;
    in_step(
        3, scaled(8'000, 500),
        [&](std::size_t) {
            for (std::size_t i = 0; i < k_objects; ++i)
                more[i] = observers[i] = owners[i] = pool.make_rc<plain_witness>();
        },
        [&](std::size_t t, std::size_t) {
            for (std::size_t i = 0; i < k_objects; ++i) {
                if (t == 0) owners[i].reset();
                if (t == 1) observers[i].reset();
                if (t == 2) more[i].reset();
            }
        });
}

TEST_F(rc_ptr_stress, an_object_asks_for_itself_while_owners_come_and_go) {
    std::array<std::array<pooled::rc_ptr<witness>, k_objects>, 3> held;
    in_step(
        3, scaled(6'000, 400),
        [&](std::size_t) {
            for (std::size_t i = 0; i < k_objects; ++i)
                held[0][i] = held[1][i] = held[2][i] = pool.make_unique<witness>();
        },
        [&](std::size_t t, std::size_t) {
            for (auto& p : held[t]) {
                witness& w = *p;
                auto const again = w.rc_from_this();
                auto const observer = w.weak_rc_from_this();
                p.reset();
                again->touch(t);
                if (observer.lock() != again) ++g_damaged;
            }
        });
}

struct link {
    pooled::rc_ptr<link> next;
    plain_witness life;
};

TEST_F(rc_ptr_stress, what_waits_to_be_destroyed_is_found_by_no_observer) {
    constexpr std::size_t k_length = 400;
    pooled::rc_ptr<link> head;
    std::array<std::array<pooled::weak_rc_ptr<link>, k_length>, 2> observers;
    std::atomic<std::size_t> found{0};
    progress observer;
    in_step(
        2, scaled(1'500, 150),
        [&](std::size_t) {
            observer.reset();
            for (std::size_t i = 0; i < k_length; ++i) {
                auto front = pool.make_rc<link>();
                front->next = std::move(head);
                head = std::move(front);
                if (i % 3 != 0) observers[0][i] = observers[1][i] = head;
            }
        },
        [&](std::size_t t, std::size_t round) {
            if (t == 0) {
                observer.wait_for(1 + round % 32);
                pooled::reclaim_scope const scope;
                head.reset();
                for (auto& w : observers[0])
                    w.reset();
                return;
            }
            for (std::size_t i = 0; i < k_length; ++i) {
                auto& w = observers[1][(i * 7 + round) % k_length];
                // Locked, it takes the rest of the list along, to be torn down on this thread.
                if (auto const p = w.lock()) {
                    p->life.touch(t);
                    ++found;
                }
                w.reset();
                observer.step();
            }
        });
    EXPECT_GT(found, 0U) << "the race was never run";
}

TEST_F(rc_ptr_stress, threads_swap_copy_observe_and_drop_at_random) {
    exchange<pooled::rc_ptr<witness>, 32> owners;
    exchange<pooled::weak_rc_ptr<witness>, 32> observers;
    on_threads(3, [&](std::size_t t) {
        dice r(t);
        std::vector<pooled::rc_ptr<witness>> mine(16);
        for (std::size_t i = 0; i < scaled(1'000'000, 60'000); ++i) {
            auto& p = mine[r.below(mine.size())];
            switch (r.below(8)) {
            case 0:
                p = pool.make_rc<witness>();
                break;
            case 1:
                p = pool.make_unique<witness>();
                break;
            case 2:
                p = owners.swap(p, r.below(32));
                break;
            case 3:
                p = owners.swap(std::move(p), r.below(32));
                break;
            case 4:
                p = observers.swap(p, r.below(32)).lock();
                break;
            case 5:
                p = mine[r.below(mine.size())];
                break;
            case 6:
                if (p) static_cast<void>(observers.swap(p->weak_rc_from_this(), r.below(32)));
                break;
            default:
                p.reset();
                break;
            }
            if (p) p->touch(t);
        }
    });
    owners.drain([](auto const&) {});
    observers.drain([](auto const&) {});
}

TEST_F(rc_ptr_stress, a_sole_owner_changes_the_way_of_counting_after_others_have_let_go) {
    pooled::rc_ptr<plain_witness> shared;
    pooled::rc_ptr<plain_witness> other;
    in_step(
        2, scaled(20'000, 2'000), [&](std::size_t) { other = shared = pool.make_local_rc<plain_witness>(); },
        [&](std::size_t t, std::size_t) {
            if (t == 1) {
                other->touch(t);
                other.reset();
                return;
            }
            shared->touch(t);
            while (shared.use_count() != 1)
                std::this_thread::yield();
            pooled::local_rc_ptr<plain_witness> const mine = std::move(shared);
            auto const copy = mine;
            copy->touch(1);  // what the other thread wrote is seen
        });
}

}  // namespace
