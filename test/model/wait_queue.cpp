// SPDX-License-Identifier: BSL-1.0

// The threads that wait for an object (object/wait_queue.hpp), production code, under Relacy's scheduler and memory model. The
// lock, and what to do under it, are those of recycle_list: take(), put() and the end of a section. Objects are numbers: addresses that are not read.
//
//   offering    two waiters, one of whose waits may end by itself, and which releases what it got; a thread that releases an object
//   overtaking  a waiter that is stopped, and a thread that releases an object and may take it back
//   returning   a waiter, and a thread that releases an object, may take it back, and releases it again
//   stopping    a waiter that another thread stops while a third one releases an object
//   controls    the same with one part left out: Relacy must find the fault
//
// Mutants of the production code, one at a time, and what they end in: docs/mechanisms.md.

#include "pooled/object/wait_queue.hpp"

#include "model/relacy_atomics.hpp"

#include <cstdint>

namespace {

using model::relacy_atomics;

struct no_wake_up : relacy_atomics {
    static void wake_one(atomic<unsigned>&) {}
};

enum class left_out { nothing, next_offer };

// Ends after some sleeps, as the model chooses.
struct any_deadline {
    template <class Waiter>
    [[nodiscard]] static int watch(Waiter&) {
        return 0;
    }
    [[nodiscard]] static std::int64_t remaining() { return rl::rand(3) == 0 ? 0 : 1; }
};
// Only a grant or a stop ends the sleep.
struct until_woken {
    template <class Waiter>
    [[nodiscard]] static int watch(Waiter&) {
        return 0;
    }
    [[nodiscard]] static std::int64_t remaining() { return model::k_without_end; }
};

template <class Atomics, left_out Omits>
struct stock {
    using queue = pooled::detail::basic_wait_queue<Atomics, 1>;
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
        for (bool gives_up = false;; gives_up = !sleep(self)) {
            bool const omits = Omits == left_out::next_offer && gives_up;
            lock.lock($);
            bool const has = !omits && take_locked(&self);
            has || gives_up ? waiters.leave(self) : waiters.wait(self);
            omits ? lock.unlock($) : unlock();
            if (has || gives_up) return has;
        }
    }

    bool take() {
        lock.lock($);
        bool const has = take_locked(nullptr);
        unlock();
        return has;
    }

    void put() {
        lock.lock($);
        idle($) = idle($) + 1;
        unlock();
    }

private:
    [[nodiscard]] std::size_t available() { return static_cast<std::size_t>(int(idle($))); }
    bool take_locked(waiter const* self) {
        if (!waiters.empty() && !waiters.admit(self, available())) return false;
        if (idle($) == 0) return false;
        idle($) = idle($) - 1;
        return true;
    }
    void unlock() {
        waiter* const to_wake = waiters.offer(available());
        lock.unlock($);
        waiter::wake(to_wake);
    }
};

template <class Atomics, left_out Omits, rl::test_result_e Expected>
struct offering : rl::test_suite<offering<Atomics, Omits, Expected>, 3, Expected> {
    stock<Atomics, Omits> all;

    void before() { all.begin_iteration(1); }
    void thread(unsigned index) {
        if (index == 2) return all.put();
        typename stock<Atomics, Omits>::waiter self;
        if (index == 1) RL_ASSERT(all.wait(self, [](auto& one) { return one.wait(until_woken()); }));
        if (index == 0 && all.wait(self, [](auto& one) { return one.wait(any_deadline()); })) all.put();
    }
    void after() { RL_ASSERT(all.idle($) == 0); }
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
        if (index == 0) had($) = all.wait(self, [](auto& one) { return one.wait(until_woken()); }) ? 1 : 0;
        if (index == 1) self.stop();
        if (index == 2) all.put();
    }
    void after() { RL_ASSERT(had($) + all.idle($) == 1); }
};

template <class Atomics, left_out Omits, rl::test_result_e Expected>
struct overtaking : rl::test_suite<overtaking<Atomics, Omits, Expected>, 3, Expected> {
    stock<Atomics, Omits> all;
    typename stock<Atomics, Omits>::waiter self;
    rl::var<int> had;
    rl::var<int> overtook;

    void before() {
        all.begin_iteration(1);
        had($) = overtook($) = 0;
    }
    void thread(unsigned index) {
        if (index == 0) had($) = all.wait(self, [](auto& one) { return one.wait(until_woken()); }) ? 1 : 0;
        if (index == 1) self.stop();
        if (index == 2) {
            all.put();
            overtook($) = all.take() ? 1 : 0;  // only the stop ends the wait then
        }
    }
    void after() { RL_ASSERT(had($) + overtook($) + all.idle($) == 1); }
};

template <class Atomics, left_out Omits, rl::test_result_e Expected>
struct returning : rl::test_suite<returning<Atomics, Omits, Expected>, 2, Expected> {
    stock<Atomics, Omits> all;

    void before() { all.begin_iteration(1); }
    void thread(unsigned index) {
        if (index == 0) {
            typename stock<Atomics, Omits>::waiter self;
            RL_ASSERT(all.wait(self, [](auto& one) { return one.wait(until_woken()); }));
        } else {
            all.put();
            if (all.take()) all.put();
        }
    }
};

constexpr auto k_success = rl::test_result_success;
constexpr auto k_endless = rl::test_result_livelock;

constexpr unsigned k_iterations = 200'000;

}  // namespace

int main() {
    bool ok = true;
    ok &= model::run<offering<relacy_atomics, left_out::nothing, k_success>>(
        "a waiter gets an object, however others wait for it and give up", k_iterations);
    ok &= model::run<stopping<relacy_atomics, left_out::nothing, k_success>>(
        "a waiter that is stopped or granted wakes, and loses no object", k_iterations);

    ok &= model::run<overtaking<relacy_atomics, left_out::nothing, k_success>>(
        "a waiter whose object was taken back can be stopped", k_iterations);
    ok &= model::run<returning<relacy_atomics, left_out::nothing, k_success>>(
        "a waiter whose object was taken back is woken again", k_iterations);

    ok &= model::run<stopping<no_wake_up, left_out::nothing, k_endless>>(
        "without a call of wake a waiter sleeps for ever", k_iterations);
    ok &= model::run<offering<relacy_atomics, left_out::next_offer, k_endless>>(
        "without another offer when a waiter gives up, the next one sleeps for ever", k_iterations);
    return ok ? 0 : 1;
}
