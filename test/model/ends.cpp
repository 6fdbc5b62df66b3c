// SPDX-License-Identifier: BSL-1.0

// A thread that ends, a pool that is closed, and a thread that steals, against one another. The gate (cache/gate.hpp) is
// production code; the steps around it are those of registry::on_thread_exit(), free_closed_caches() and close(), and of
// cache_set::steal() and abandon_all(), with blocks as numbers in an rl::var, on which Relacy reports every unordered pair of
// accesses. (The lists that they work on are plain memory, which Relacy does not see.)
//
//   exit and steal   the owner allocates, frees and ends, while another thread steals twice
//   exit and close   while another one closes the pool; the owner may be cancelled within its gate
//   all three        at once
//   controls         the same with one step left out: Relacy must find the race, the use of a cache that is gone, the lost
//                    block, or the wait without end

#include "pooled/cache/gate.hpp"

#include "model/relacy_atomics.hpp"

namespace {

using model::relacy_atomics;

enum class left_out {
    nothing,
    leave_at_exit,     // of a thread that was cancelled
    registry_at_exit,  // the lock that close() holds
    caches_at_exit,    // the lock that a steal holds
    unlink_at_exit,
    stop_at_close,
    class_at_flush,
};
enum class threads { exit_and_steal, exit_and_close, all };

constexpr int k_blocks = 3;
constexpr int k_gone = -1000;

template <left_out Omits, threads Which, bool IsCancelled, rl::test_result_e Expected>
struct ends
    : rl::test_suite<ends<Omits, Which, IsCancelled, Expected>, Which == threads::all ? 3 : 2, Expected> {
    using gate = pooled::detail::gate<relacy_atomics>;

    // Of the registry, the caches and the size class, in the order in which they are taken.
    rl::mutex registry, caches, one_class;
    gate own;
    rl::var<int> cache;       // of the owner; k_gone: its memory was given back
    rl::var<int> central;     // free blocks
    rl::var<bool> is_linked;  // the pool knows the cache: guarded by `caches`
    rl::var<bool> has_core;   // guarded by `registry`
    rl::var<bool> is_closed;  // the class: guarded by its lock

    void before() {
        cache($) = 0;
        central($) = k_blocks;
        is_linked($) = has_core($) = true;
        is_closed($) = false;
    }

    static void lock_unless(left_out step, rl::mutex& one) {
        if (Omits != step) one.lock($);
    }
    static void unlock_unless(left_out step, rl::mutex& one) {
        if (Omits != step) one.unlock($);
    }

    void push_slow() {  // cache_set::deallocate, with a refill's and a flush's accesses
        lock_unless(left_out::class_at_flush, one_class);
        if (is_closed($)) {
            central($) = central($) + 1;
        } else {
            cache($) = cache($) + 1;
        }
        unlock_unless(left_out::class_at_flush, one_class);
    }
    bool pop_slow() {  // cache_set::allocate: all that there is
        lock_unless(left_out::class_at_flush, one_class);
        bool const has = !is_closed($) && central($) > 0;
        if (has) {
            cache($) = cache($) + central($) - 1;
            central($) = 0;
        }
        unlock_unless(left_out::class_at_flush, one_class);
        return has;
    }

    void use() {
        for (int i = 0; i < 2; ++i) {
            bool has = false;
            if (own.enter()) {
                has = cache($) > 0;
                if (has) cache($) = cache($) - 1;
                own.leave();
            }
            if (!has && !pop_slow()) continue;
            if (own.enter()) {
                cache($) = cache($) + 1;
                own.leave();
            } else {
                push_slow();
            }
        }
    }

    void exit() {
        if (IsCancelled) static_cast<void>(own.enter());
        if (Omits != left_out::leave_at_exit) own.leave();
        lock_unless(left_out::registry_at_exit, registry);
        if (has_core($)) {
            lock_unless(left_out::caches_at_exit, caches);
            one_class.lock($);
            central($) = central($) + cache($);
            cache($) = 0;
            one_class.unlock($);
            if (Omits != left_out::unlink_at_exit) is_linked($) = false;
            unlock_unless(left_out::caches_at_exit, caches);
        }
        cache($) = k_gone;
        unlock_unless(left_out::registry_at_exit, registry);
    }

    static void wait(gate const& one) {
        while (!one.is_idle())
            model::yield();
    }
    void stop() {
        if (is_linked($))
            pooled::detail::stop_all([this](auto&& visit) { visit(own); }, model::heavy_barrier, wait);
    }
    void collect() {
        if (!is_linked($)) return;
        RL_ASSERT(cache($) >= 0);
        central($) = central($) + cache($);
        cache($) = 0;
    }

    void steal() {
        caches.lock($);
        stop();
        one_class.lock($);
        collect();
        one_class.unlock($);
        if (is_linked($)) own.resume();
        caches.unlock($);
    }

    void close() {
        registry.lock($);
        caches.lock($);
        if (Omits != left_out::stop_at_close) stop();
        one_class.lock($);
        collect();
        is_closed($) = true;
        one_class.unlock($);
        if (is_linked($)) {
            is_linked($) = false;
            has_core($) = false;
            own.close();
        }
        caches.unlock($);
        registry.unlock($);
    }

    void thread(unsigned index) {
        if (index == 0) {
            use();
            exit();
        } else if (index == 1 && Which != threads::exit_and_steal) {
            close();
        } else {
            steal();
            steal();
        }
    }
    void after() { RL_ASSERT(central($) == k_blocks && cache($) == k_gone); }
};

constexpr auto k_success = rl::test_result_success;
constexpr auto k_race = rl::test_result_data_race;
constexpr auto k_endless = rl::test_result_livelock;

constexpr unsigned k_iterations = 200'000;

template <left_out Omits, threads Which, bool IsCancelled, rl::test_result_e Expected>
[[nodiscard]] bool run(char const* name) {
    return model::run<ends<Omits, Which, IsCancelled, Expected>>(name, k_iterations);
}

}  // namespace

int main() {
    bool ok = true;
    ok &= run<left_out::nothing, threads::exit_and_steal, false, k_success>(
        "a thread ends while another one steals: no block is lost");
    ok &= run<left_out::nothing, threads::exit_and_close, false, k_success>(
        "a thread ends while another one closes the pool: no block is lost");
    ok &= run<left_out::nothing, threads::exit_and_close, true, k_success>(
        "a thread that was cancelled within its gate does not hold up who closes the pool");
    ok &= run<left_out::nothing, threads::all, true, k_success>("one ends, one steals, one closes the pool");

    ok &= run<left_out::leave_at_exit, threads::exit_and_steal, true, k_endless>(
        "without leaving the gate a thread that was cancelled holds up who steals");
    ok &= run<left_out::registry_at_exit, threads::exit_and_close, false, k_race>(
        "without the registry's lock a thread that ends and one that closes race");
    ok &= run<left_out::caches_at_exit, threads::exit_and_steal, false, k_race>(
        "without the lock of the caches a thread that ends and one that steals race");
    ok &= run<left_out::unlink_at_exit, threads::exit_and_steal, false, k_race>(
        "without unlinking its cache a thread that ends leaves one that is gone");
    ok &= run<left_out::stop_at_close, threads::exit_and_close, false, k_race>(
        "without stopping the owner closing a pool races");
    ok &= run<left_out::class_at_flush, threads::exit_and_steal, false, k_race>(
        "without the lock of the class a refill and a steal race");
    return ok ? 0 : 1;
}
