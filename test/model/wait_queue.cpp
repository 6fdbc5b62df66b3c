// SPDX-License-Identifier: BSL-1.0

// The threads that wait for an object (object/wait_queue.hpp), production code, under Relacy's scheduler and memory model. The
// lock, and what to do under it, are those of object_stock: wait() and put(). Objects are numbers: slots that are not read.
//
//   granting    two waiters, one of whose waits may end by itself, and a thread that releases two objects
//   stopping    a waiter that another thread stops while a third one releases an object
//   controls    the same with one part left out: Relacy must find the fault
//
// Mutants of the production code, one at a time, and what they end in: docs/mechanisms.md.

#include "pooled/object/wait_queue.hpp"

#include "model/relacy_atomics.hpp"

#include <chrono>

namespace {

using model::relacy_atomics;
using pooled::detail::grant;

struct no_wake_up : relacy_atomics {
    static void wake_one(atomic<unsigned>&) {}
};

enum class left_out { nothing, second_look };

// Ends after some sleeps, as the model chooses.
struct any_deadline {
    template <class Waiter>
    [[nodiscard]] static int watch(Waiter&) {
        return 0;
    }
    [[nodiscard]] static std::chrono::nanoseconds remaining() {
        return std::chrono::nanoseconds(rl::rand(3) == 0 ? 0 : 1);
    }
};
// Only a grant or a stop ends the sleep.
struct until_woken {
    template <class Waiter>
    [[nodiscard]] static int watch(Waiter&) {
        return 0;
    }
    [[nodiscard]] static std::chrono::nanoseconds remaining() {
        return std::chrono::nanoseconds(model::k_without_end);
    }
};

template <class Atomics, left_out Omits>
struct stock {
    using queue = pooled::detail::basic_wait_queue<Atomics>;
    using waiter = typename queue::waiter;

    rl::mutex lock;
    queue waiters;
    rl::var<int> idle;
    rl::var<int> out;  // acquired, and not released

    void begin_iteration(int acquired) {
        model::begin_iteration();
        waiters.clear();
        idle($) = 0;
        out($) = acquired;
    }

    // True: the caller has an object.
    template <class Sleep>
    bool wait(waiter& self, Sleep&& sleep) {
        lock.lock($);
        if (idle($) > 0) {
            idle($) = idle($) - 1;
            lock.unlock($);
            return true;
        }
        waiters.push(self);
        lock.unlock($);
        sleep(self);
        if (self.is_granted()) return bool(self.granted());
        lock.lock($);
        bool const is_granted = Omits != left_out::second_look && self.is_granted();
        bool const has = is_granted && bool(self.granted());
        if (!is_granted) waiters.remove(self);
        lock.unlock($);
        return has;
    }

    void put() {
        lock.lock($);
        waiter* const granted = waiters.grant_first(grant{nullptr, 1});
        if (granted == nullptr) idle($) = idle($) + 1;
        lock.unlock($);
        waiter::wake(granted);
    }
};

template <class Atomics, left_out Omits, rl::test_result_e Expected>
struct granting : rl::test_suite<granting<Atomics, Omits, Expected>, 3, Expected> {
    stock<Atomics, Omits> all;
    rl::var<int> had[2];

    void before() {
        all.begin_iteration(2);
        had[0]($) = had[1]($) = 0;
    }
    void thread(unsigned index) {
        if (index == 2) {
            all.put();
            all.put();
            return;
        }
        typename stock<Atomics, Omits>::waiter self;
        had[index]($) = all.wait(self, [](auto& one) { one.wait(any_deadline()); }) ? 1 : 0;
    }
    // No object is lost, none is given twice.
    void after() { RL_ASSERT(had[0]($) + had[1]($) + all.idle($) == 2); }
};

template <class Atomics, left_out Omits, rl::test_result_e Expected>
struct stopping : rl::test_suite<stopping<Atomics, Omits, Expected>, 3, Expected> {
    stock<Atomics, Omits> all;
    typename stock<Atomics, Omits>::waiter self;
    rl::var<int> had;

    void before() {
        all.begin_iteration(1);
        had($) = 0;
    }
    void thread(unsigned index) {
        if (index == 0) had($) = all.wait(self, [](auto& one) { one.wait(until_woken()); }) ? 1 : 0;
        if (index == 1) self.stop();
        if (index == 2) all.put();
    }
    void after() { RL_ASSERT(had($) + all.idle($) == 1); }
};

constexpr auto k_success = rl::test_result_success;
constexpr auto k_failed = rl::test_result_user_assert_failed;
constexpr auto k_endless = rl::test_result_livelock;

constexpr unsigned k_iterations = 200'000;

}  // namespace

int main() {
    bool ok = true;
    ok &= model::run<granting<relacy_atomics, left_out::nothing, k_success>>(
        "an object goes to one waiter, or is idle, whenever waits end", k_iterations);
    ok &= model::run<stopping<relacy_atomics, left_out::nothing, k_success>>(
        "a waiter that is stopped or granted wakes, and loses no object", k_iterations);

    ok &= model::run<stopping<no_wake_up, left_out::nothing, k_endless>>(
        "without a call of wake a waiter sleeps for ever", k_iterations);
    ok &= model::run<granting<relacy_atomics, left_out::second_look, k_failed>>(
        "without the second look, under the lock, an object is lost", k_iterations);
    return ok ? 0 : 1;
}
