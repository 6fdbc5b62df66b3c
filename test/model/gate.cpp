// SPDX-License-Identifier: BSL-1.0

// The gate between a thread's cache and a stealing thread (cache/gate.hpp), production code, under Relacy's scheduler and
// memory model. What the gate guards is an rl::var, on which Relacy reports every unordered pair of accesses.
//
//   steal           one owner, a thread that steals twice
//   steal some      two owners, a thread that does without the cache of an owner that is inside
//   closing         a thread closes the gate for good; the owner then frees what that thread touched
//   slow path       two owners with a central free list, a stealing thread that must find every free block
//   controls        the same with one part of the protocol left out: Relacy must find the race, or it sees nothing at all

#include "pooled/cache/gate.hpp"

#include "model/relacy.hpp"

namespace {

enum class left_out { nothing, heavy_barrier, waiting };

using pooled::detail::gate;

template <left_out Omits>
struct steal_parts {
    // The production sequence, with the parts that it is given. A thread that steals looks a few times, or until the owner is outside.
    static bool try_stop(gate& one) {
        return pooled::detail::stop_all([&](auto&& visit) { visit(one); }, barrier, take);
    }
    static void stop(gate& one) {
        while (!try_stop(one))
            model::yield();
    }
    static void barrier() {
        if constexpr (Omits != left_out::heavy_barrier) simulation::heavy_fence();
    }
    static bool take(gate& g) {
        if constexpr (Omits == left_out::waiting) return true;
        for (int attempt = 0; !g.take(); ++attempt) {
            if (attempt == 2) return false;
            model::yield();
        }
        return true;
    }
};

template <left_out Omits, rl::test_result_e Expected>
struct steal_twice : rl::test_suite<steal_twice<Omits, Expected>, 2, Expected> {
    using parts = steal_parts<Omits>;
    gate one;
    rl::var<int> cache;

    void before() {
        model::begin_iteration();
        cache($) = 0;
    }
    void after() { simulation::clear(); }
    void thread(unsigned index) {
        if (index == 0) {
            for (int i = 0; i < 3; ++i) {
                if (!one.enter()) continue;
                cache($) = cache($) + 1;
                one.leave();
            }
        } else {
            for (int i = 0; i < 2; ++i) {
                parts::stop(one);
                cache($) = cache($) + 1;
                one.resume();
            }
        }
    }
};

// A thread that steals does without a cache whose owner is inside, and with one that it took before it looks again at another one.
template <left_out Omits, rl::test_result_e Expected>
struct steal_some : rl::test_suite<steal_some<Omits, Expected>, 3, Expected> {
    using parts = steal_parts<Omits>;
    gate gates[2];
    rl::var<int> caches[2];

    void before() {
        model::begin_iteration();
        for (rl::var<int>& cache : caches)
            cache($) = 0;
    }
    void after() { simulation::clear(); }
    void thread(unsigned index) {
        if (index < 2) {
            for (int i = 0; i < 2; ++i) {
                if (!gates[index].enter()) continue;
                caches[index]($) = caches[index]($) + 1;
                gates[index].leave();
            }
            return;
        }
        auto const each = [this](auto&& visit) {
            for (gate& one : gates)
                visit(one);
        };
        for (int i = 0; i < 2; ++i) {
            static_cast<void>(pooled::detail::stop_all(each, parts::barrier, parts::take));
            for (unsigned at : {0U, 1U})
                if (Omits == left_out::waiting || gates[at].is_taken()) caches[at]($) = caches[at]($) + 1;
            if (i == 0 && rl::rand(2) == 0)
                continue;  // they stay stopped, as for a thread that must have all
            for (gate& one : gates)
                one.resume();
        }
    }
};

// close() is the stealing thread's last access: an owner that sees the gate closed may free the cache at once.
template <left_out Omits, rl::test_result_e Expected>
struct closing : rl::test_suite<closing<Omits, Expected>, 2, Expected> {
    using parts = steal_parts<Omits>;
    gate one;
    rl::var<int> cache;

    void before() {
        model::begin_iteration();
        cache($) = 0;
    }
    void after() { simulation::clear(); }
    void thread(unsigned index) {
        if (index == 0) {
            bool is_freed = false;
            for (int i = 0; i < 3 && !is_freed; ++i) {
                if (one.enter()) {
                    cache($) = cache($) + 1;
                    one.leave();
                } else if (one.is_closed()) {
                    cache($) = -1;            // stands for freeing it
                    RL_ASSERT(!one.enter());  // for good
                    is_freed = true;
                }
            }
        } else {
            parts::stop(one);
            RL_ASSERT(cache($) >= 0);
            cache($) = 100;
            one.close();
        }
    }
};

// Threads 0 and 1 own a cache each and share a central free list under a lock; thread 2 steals. An owner that cannot enter works on
// its own cache under the lock, as cache_set does. Blocks are numbers in vars.
template <bool SlowPathLocks, rl::test_result_e Expected>
struct slow_path : rl::test_suite<slow_path<SlowPathLocks, Expected>, 3, Expected> {
    static constexpr int k_blocks = 3;

    gate gates[2];
    rl::var<int> caches[2];
    rl::var<int> central;
    rl::mutex lock;
    rl::var<int> held[3];  // blocks that each thread has for itself

    void before() {
        model::begin_iteration();
        caches[0]($) = 0;
        caches[1]($) = 0;
        central($) = k_blocks;
        for (rl::var<int>& h : held)
            h($) = 0;
    }

    void lock_class() {
        if constexpr (SlowPathLocks) lock.lock($);
    }
    void unlock_class() {
        if constexpr (SlowPathLocks) lock.unlock($);
    }

    bool pop(unsigned self) {
        if (gates[self].enter()) {
            bool const found = caches[self]($) > 0;
            if (found) caches[self]($) = caches[self]($) - 1;
            gates[self].leave();
            if (found) return true;
        }
        lock_class();
        if (caches[self]($) == 0) {  // all there are
            caches[self]($) = int(central($));
            central($) = 0;
        }
        bool const found = caches[self]($) > 0;
        if (found) caches[self]($) = caches[self]($) - 1;
        unlock_class();
        return found;
    }

    void push(unsigned self) {
        if (gates[self].enter()) {
            caches[self]($) = caches[self]($) + 1;
            gates[self].leave();
            return;
        }
        lock_class();
        caches[self]($) = caches[self]($) + 1;
        unlock_class();
    }

    bool steal() {
        auto const each = [this](auto&& visit) {
            for (gate& one : gates)
                visit(one);
        };
        while (!pooled::detail::stop_all(each, simulation::heavy_fence, steal_parts<left_out::nothing>::take))
            model::yield();
        lock_class();
        for (rl::var<int>& cache : caches) {
            central($) = central($) + cache($);
            cache($) = 0;
        }
        bool const found = central($) > 0;
        if (found) central($) = central($) - 1;
        unlock_class();
        for (gate& one : gates)
            one.resume();
        return found;
    }

    void thread(unsigned index) {
        if (index < 2) {
            for (int i = 0; i < 2; ++i) {
                if (!pop(index)) continue;
                push(index);
            }
            if (pop(index)) held[index]($) = 1;
        } else {
            bool const found = steal();
            if (found) held[2]($) = 1;
            // Two others can have one block each, so a third is free at any moment.
            RL_ASSERT(found);
        }
    }

    void after() {
        RL_ASSERT(caches[0]($) + caches[1]($) + central($) + held[0]($) + held[1]($) + held[2]($) ==
                  k_blocks);
        simulation::clear();
    }
};

constexpr auto k_success = rl::test_result_success;
constexpr auto k_race = rl::test_result_data_race;

constexpr unsigned k_iterations = 500'000;

}  // namespace

int main() {
    using steal_as_is = steal_twice<left_out::nothing, k_success>;
    using some_as_is = steal_some<left_out::nothing, k_success>;
    using closing_as_is = closing<left_out::nothing, k_success>;
    bool ok = true;
    ok &= model::run<steal_as_is>("owner and stealing thread are never in the cache together", k_iterations);
    ok &= model::run<some_as_is>("a thread that steals leaves the caches alone whose owners are inside",
                                 k_iterations);
    ok &= model::run<closing_as_is>("an owner that sees its gate closed may free the cache", k_iterations);
    ok &=
        model::run<slow_path<true, k_success>>("stealing finds every free block, none is lost", k_iterations);

    using steal_heavy = steal_twice<left_out::heavy_barrier, k_race>;
    using steal_hasty = steal_twice<left_out::waiting, k_race>;
    using some_hasty = steal_some<left_out::waiting, k_race>;
    using closing_hasty = closing<left_out::waiting, k_race>;
    ok &= model::run<steal_heavy>("without the heavy barrier stealing races", k_iterations);
    ok &= model::run<steal_hasty>("without waiting for the owner stealing races", k_iterations);
    ok &= model::run<some_hasty>("with the caches of owners that are inside stealing races", k_iterations);
    ok &= model::run<closing_hasty>("without waiting for the owner closing races", k_iterations);
    ok &= model::run<slow_path<false, k_race>>("without the class lock the slow path races", k_iterations);

    simulation::g_has.light_fence = false;
    using steal_light = steal_twice<left_out::nothing, k_race>;
    using closing_light = closing<left_out::nothing, k_race>;
    ok &= model::run<steal_light>("without the owner's barrier stealing races", k_iterations);
    ok &= model::run<closing_light>("without the owner's barrier closing races", k_iterations);
    return ok ? 0 : 1;
}
