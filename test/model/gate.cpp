// SPDX-License-Identifier: BSL-1.0

// The gate between a thread's cache and a raider (freelist/gate.hpp), production code, under Relacy's scheduler and
// memory model. What the gate guards is an rl::var, on which Relacy reports every unordered pair of accesses.
//
//   raid            one owner, a raider that comes twice
//   closing         the raider closes the gate for good; the owner then frees what the raider touched
//   slow path       two owners with a depot, a raider that must find every block that was freed before it came
//   controls        the same with one part of the protocol left out: Relacy must find the race, or it sees nothing at all

#include "pooled/cache/gate.hpp"

#include "model/relacy_atomics.hpp"

namespace {

// A policy as it must not be: the owner's store to `busy` and its load of `stop` may be exchanged.
struct no_light_barrier : model::relacy_atomics {
    static void light_barrier() {}
};

enum class raider_omits { nothing, heavy_barrier, waiting };

template <class Atomics, raider_omits Omits>
struct raid_parts {
    using gate = pooled::detail::gate<Atomics>;

    // The production sequence, with the parts that it is given.
    static void stop(gate& door) {
        pooled::detail::stop_all([&](auto&& visit) { visit(door); }, barrier, wait);
    }
    static void barrier() {
        if constexpr (Omits != raider_omits::heavy_barrier) model::heavy_barrier();
    }
    static void wait(gate& g) {
        if constexpr (Omits != raider_omits::waiting)
            while (!g.is_idle())
                model::yield();
    }
};

template <class Atomics, raider_omits Omits, rl::test_result_e Expected>
struct raid : rl::test_suite<raid<Atomics, Omits, Expected>, 2, Expected> {
    using parts = raid_parts<Atomics, Omits>;
    typename parts::gate door;
    rl::var<int> cache;

    void before() { cache($) = 0; }
    void thread(unsigned index) {
        if (index == 0) {
            for (int i = 0; i < 3; ++i) {
                if (!door.enter()) continue;
                cache($) = cache($) + 1;
                door.leave();
            }
        } else {
            for (int i = 0; i < 2; ++i) {
                parts::stop(door);
                cache($) = cache($) + 1;
                door.resume();
            }
        }
    }
};

// close() is the raider's last access: an owner that sees the gate closed may free the cache at once.
template <class Atomics, raider_omits Omits, rl::test_result_e Expected>
struct closing : rl::test_suite<closing<Atomics, Omits, Expected>, 2, Expected> {
    using parts = raid_parts<Atomics, Omits>;
    typename parts::gate door;
    rl::var<int> cache;

    void before() { cache($) = 0; }
    void thread(unsigned index) {
        if (index == 0) {
            bool is_freed = false;
            for (int i = 0; i < 3 && !is_freed; ++i) {
                if (door.enter()) {
                    cache($) = cache($) + 1;
                    door.leave();
                } else if (door.is_closed()) {
                    cache($) = -1;             // stands for freeing it
                    RL_ASSERT(!door.enter());  // for good
                    is_freed = true;
                }
            }
        } else {
            parts::stop(door);
            RL_ASSERT(cache($) >= 0);
            cache($) = 100;
            door.close();
        }
    }
};

// Threads 0 and 1 own a cache each and share a depot under a lock; thread 2 raids. An owner that is turned away works on
// its own cache under the lock, as push_slow and pop_slow do. Blocks are numbers in vars.
template <bool SlowPathLocks, rl::test_result_e Expected>
struct slow_path : rl::test_suite<slow_path<SlowPathLocks, Expected>, 3, Expected> {
    using gate = pooled::detail::gate<model::relacy_atomics>;
    static constexpr int k_blocks = 3;

    gate doors[2];
    rl::var<int> caches[2];
    rl::var<int> depot;
    rl::mutex lock;
    rl::var<int> held[3];  // blocks that each thread has for itself

    void before() {
        caches[0]($) = 0;
        caches[1]($) = 0;
        depot($) = k_blocks;
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
        if (doors[self].enter()) {
            bool const found = caches[self]($) > 0;
            if (found) caches[self]($) = caches[self]($) - 1;
            doors[self].leave();
            if (found) return true;
        }
        lock_class();
        if (caches[self]($) == 0) {  // a whole magazine
            caches[self]($) = int(depot($));
            depot($) = 0;
        }
        bool const found = caches[self]($) > 0;
        if (found) caches[self]($) = caches[self]($) - 1;
        unlock_class();
        return found;
    }

    void push(unsigned self) {
        if (doors[self].enter()) {
            caches[self]($) = caches[self]($) + 1;
            doors[self].leave();
            return;
        }
        lock_class();
        caches[self]($) = caches[self]($) + 1;
        unlock_class();
    }

    bool raid() {
        auto const each = [this](auto&& visit) {
            for (gate& door : doors)
                visit(door);
        };
        pooled::detail::stop_all(each, model::heavy_barrier,
                                 raid_parts<model::relacy_atomics, raider_omits::nothing>::wait);
        lock_class();
        for (rl::var<int>& cache : caches) {
            depot($) = depot($) + cache($);
            cache($) = 0;
        }
        bool const found = depot($) > 0;
        if (found) depot($) = depot($) - 1;
        unlock_class();
        for (gate& door : doors)
            door.resume();
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
            bool const found = raid();
            if (found) held[2]($) = 1;
            // Two others can have one block each, so a third is free at any moment.
            RL_ASSERT(found);
        }
    }

    void after() {
        RL_ASSERT(caches[0]($) + caches[1]($) + depot($) + held[0]($) + held[1]($) + held[2]($) == k_blocks);
    }
};

using model::relacy_atomics;
constexpr auto k_success = rl::test_result_success;
constexpr auto k_race = rl::test_result_data_race;

constexpr unsigned k_iterations = 500'000;

}  // namespace

int main() {
    using raid_as_is = raid<relacy_atomics, raider_omits::nothing, k_success>;
    using closing_as_is = closing<relacy_atomics, raider_omits::nothing, k_success>;
    bool ok = true;
    ok &= model::run<raid_as_is>("owner and raider are never in the cache together", k_iterations);
    ok &= model::run<closing_as_is>("an owner that sees its gate closed may free the cache", k_iterations);
    ok &= model::run<slow_path<true, k_success>>("a raid finds every free block, none is lost", k_iterations);

    using raid_light = raid<no_light_barrier, raider_omits::nothing, k_race>;
    using raid_heavy = raid<relacy_atomics, raider_omits::heavy_barrier, k_race>;
    using raid_hasty = raid<relacy_atomics, raider_omits::waiting, k_race>;
    using closing_light = closing<no_light_barrier, raider_omits::nothing, k_race>;
    using closing_hasty = closing<relacy_atomics, raider_omits::waiting, k_race>;
    ok &= model::run<raid_light>("without the owner's barrier a raid races", k_iterations);
    ok &= model::run<raid_heavy>("without the raider's barrier a raid races", k_iterations);
    ok &= model::run<raid_hasty>("without waiting for the owner a raid races", k_iterations);
    ok &= model::run<closing_light>("without the owner's barrier closing races", k_iterations);
    ok &= model::run<closing_hasty>("without waiting for the owner closing races", k_iterations);
    ok &= model::run<slow_path<false, k_race>>("without the class lock the slow path races", k_iterations);
    return ok ? 0 : 1;
}
