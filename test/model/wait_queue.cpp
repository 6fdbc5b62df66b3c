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

#include "model/relacy.hpp"

#include <cstdint>

namespace {

using pooled::detail::wait_queue;
using pooled::detail::waiter;

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
    [[nodiscard]] static std::int64_t remaining() { return simulation::k_long; }
};

template <left_out Omits>
struct stock {
    rl::mutex lock;
    wait_queue waiters;
    rl::var<int> idle;
    rl::var<int> out;  // acquired, and not released

    void begin_iteration(int acquired) {
        model::begin_iteration();
        simulation::g_may_lose_patience = true;
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

template <left_out Omits, rl::test_result_e Expected>
struct offering : rl::test_suite<offering<Omits, Expected>, 3, Expected> {
    stock<Omits> all;

    void before() { all.begin_iteration(1); }
    void thread(unsigned index) {
        if (index == 2) return all.put();
        waiter self;
        if (index == 1) RL_ASSERT(all.wait(self, [](auto& one) { return one.wait(until_woken()); }));
        if (index == 0 && all.wait(self, [](auto& one) { return one.wait(any_deadline()); })) all.put();
    }
    void after() {
        RL_ASSERT(all.idle($) == 0);
        simulation::clear();
    }
};

template <left_out Omits, rl::test_result_e Expected>
struct stopping : rl::test_suite<stopping<Omits, Expected>, 3, Expected> {
    stock<Omits> all;
    waiter self;
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
    void after() {
        RL_ASSERT(had($) + all.idle($) == 1);
        simulation::clear();
    }
};

template <left_out Omits, rl::test_result_e Expected>
struct overtaking : rl::test_suite<overtaking<Omits, Expected>, 3, Expected> {
    stock<Omits> all;
    waiter self;
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
    void after() {
        RL_ASSERT(had($) + overtook($) + all.idle($) == 1);
        simulation::clear();
    }
};

template <left_out Omits, rl::test_result_e Expected>
struct returning : rl::test_suite<returning<Omits, Expected>, 2, Expected> {
    stock<Omits> all;

    void before() { all.begin_iteration(1); }
    void thread(unsigned index) {
        if (index == 0) {
            waiter self;
            RL_ASSERT(all.wait(self, [](auto& one) { return one.wait(until_woken()); }));
        } else {
            all.put();
            if (all.take()) all.put();
        }
    }
    void after() { simulation::clear(); }
};

// By one thread: which waiters have an offer, and how long they may be overtaken.
template <class Test>
struct in_order : rl::test_suite<in_order<Test>, 1> {
    void before() {
        model::begin_iteration();
        simulation::g_may_lose_patience = false;
        simulation::g_now = 1;
    }
    void thread(unsigned) { Test::run(); }
    void after() {
        simulation::g_now = 0;
        simulation::clear();
    }
};
struct overtakes_for_50_microseconds {
    static void run() {
        wait_queue queue;
        waiter w;
        queue.wait(w);
        simulation::g_now = 1'000'000;
        static_cast<void>(queue.offer(1));
        simulation::g_now += 49'999;
        RL_ASSERT(queue.admit(nullptr, 1));
        RL_ASSERT(!queue.admit(&w, 0));
        static_cast<void>(queue.offer(1));
        simulation::g_now += 1;
        RL_ASSERT(!queue.admit(nullptr, 1));  // counted from its first offer
        RL_ASSERT(queue.admit(&w, 1));
        queue.leave(w);
        RL_ASSERT(queue.empty());
    }
};
struct does_not_overtake_who_woke_in_vain {
    struct no_time {
        static int watch(waiter&) noexcept { return 0; }
        [[nodiscard]] static std::int64_t remaining() noexcept { return 0; }
    };
    static void run() {
        wait_queue queue;
        waiter w;
        queue.wait(w);
        static_cast<void>(queue.offer(1));
        RL_ASSERT(queue.admit(nullptr, 1));
        queue.wait(w);
        RL_ASSERT(!w.wait(no_time()));  // it waits again
        static_cast<void>(queue.offer(1));
        RL_ASSERT(!queue.admit(nullptr, 1));
        RL_ASSERT(queue.admit(&w, 1));
    }
};
// What the first of them was to build, say, all of it, or what another thread destroyed.
struct withdraws_what_has_gone_from_those_after_it {
    static void run() {
        wait_queue queue;
        waiter w[3];
        for (waiter& one : w)
            queue.wait(one);
        for (int i = 0; i < 4; ++i)
            static_cast<void>(queue.offer(3));
        RL_ASSERT(queue.size() == 0);
        queue.wait(w[1]);
        RL_ASSERT(queue.size() == 2);
        RL_ASSERT(queue.admit(&w[0], 1));
        RL_ASSERT(!queue.admit(&w[1], 1) && !queue.admit(&w[2], 1));
        queue.leave(w[0]);
        static_cast<void>(queue.offer(1));
        RL_ASSERT(queue.admit(&w[1], 1));  // it kept its place
        RL_ASSERT(!queue.admit(&w[2], 1));
    }
};

constexpr auto k_success = rl::test_result_success;
constexpr auto k_endless = rl::test_result_livelock;

constexpr unsigned k_iterations = 200'000;

}  // namespace

int main() {
    bool ok = true;
    ok &= model::run<offering<left_out::nothing, k_success>>(
        "a waiter gets an object, however others wait for it and give up", k_iterations);
    ok &= model::run<stopping<left_out::nothing, k_success>>(
        "a waiter that is stopped or granted wakes, and loses no object", k_iterations);

    ok &= model::run<overtaking<left_out::nothing, k_success>>(
        "a waiter whose object was taken back can be stopped", k_iterations);
    ok &= model::run<returning<left_out::nothing, k_success>>(
        "a waiter whose object was taken back is woken again", k_iterations);

    ok &= model::run<offering<left_out::next_offer, k_endless>>(
        "without another offer when a waiter gives up, the next one sleeps for ever", k_iterations);
    ok &= model::run<in_order<overtakes_for_50_microseconds>>(
        "a waiter is overtaken for 50 microseconds at most", 1);
    ok &= model::run<in_order<does_not_overtake_who_woke_in_vain>>(
        "a waiter that has woken in vain is not overtaken", 1);
    ok &= model::run<in_order<withdraws_what_has_gone_from_those_after_it>>(
        "what has gone is withdrawn from the waiters after it, too", 1);

    simulation::g_has = {.wake_up = false};
    ok &= model::run<stopping<left_out::nothing, k_endless>>(
        "without a call of wake a waiter sleeps for ever", k_iterations);
    return ok ? 0 : 1;
}
