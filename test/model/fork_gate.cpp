// SPDX-License-Identifier: BSL-1.0

// The gate of forks (os/fork_gate.hpp) and the lock (os/raw_mutex.hpp), production code, under Relacy's scheduler and memory
// model. What critical sections touch is an rl::var, on which Relacy reports every unordered pair of accesses; the thread
// that forks touches it without the lock.
//
//   raw_mutex     three threads, of which some sleep; what two leave for the holder
//   fork          a thread with a flag of its own, one that counts, one that forks, where its heirs are those of the parent
//   two forks     two threads fork at once, one of which has a flag; a third one is inside now and then
//   flags         a thread that ends hands its flag to another one, while a third one forks
//   child         a thread that a handler starts in a child, before the fork has ended there
//   patience      each side may give up at any time. What the child sees are reads of the parent's variables, in any order, while the lock
//                 of the mappings is held: the state is lost, or the structure is consistent
//   controls      the same with one part left out: Relacy must find the race, or the sleep without end
//
// Mutants of the production code, one at a time, and what they end in: docs/mechanisms.md.

#include "pooled/os/fork_gate.hpp"

#include "pooled/os/raw_mutex.hpp"

#include "model/relacy.hpp"

namespace {

template <rl::test_result_e Expected>
struct lock_of_three : rl::test_suite<lock_of_three<Expected>, 3, Expected> {
    pooled::detail::raw_mutex lock;
    rl::var<int> data;

    void before() {
        model::begin_iteration();
        data($) = 0;
    }
    void thread(unsigned) {
        for (int i = 0; i < 2; ++i) {
            lock.lock();
            data($) = data($) + 1;
            lock.unlock();
        }
    }
    void after() {
        RL_ASSERT(data($) == 6);
        simulation::g_mappings = nullptr;
        simulation::g_may_lose_patience = false;
        simulation::clear();
    }
};

// What threads leave is found by the lock's holder, or the one after it, and by nobody later.
template <rl::test_result_e Expected>
struct left_for_holder : rl::test_suite<left_for_holder<Expected>, 3, Expected> {
    pooled::detail::raw_mutex lock;
    rl::atomic<std::uint32_t> is_left;
    rl::var<int> left[2];
    rl::var<int> settled;

    void before() {
        model::begin_iteration();
        is_left.store(0, rl::mo_relaxed, $);
        settled($) = left[0]($) = left[1]($) = 0;
    }
    void settle() {
        if (is_left.load(rl::mo_relaxed, $) == 0) return;
        for (std::uint32_t bits = is_left.exchange(0, rl::mo_acquire, $); bits != 0; bits &= bits - 1)
            settled($) = settled($) + left[bits % 2 != 0 ? 0 : 1]($);
    }
    void unlock() {
        while (!lock.try_unlock())
            settle();
    }
    void thread(unsigned index) {
        if (index == 2) {
            lock.lock();
            return unlock();
        }
        left[index]($) = 1;
        is_left.fetch_or(1U << index, rl::mo_release, $);
        while (!lock.tell_holder())
            if (lock.try_lock()) return settle(), unlock();
    }
    void after() {
        RL_ASSERT(settled($) == 2);
        simulation::g_mappings = nullptr;
        simulation::g_may_lose_patience = false;
        simulation::clear();
    }
};

struct guarded {
    pooled::detail::fork_gate gate;  // nobody loses patience: the model's clock stands still
    rl::mutex lock;
    rl::var<int> data;

    void begin_iteration() {
        model::begin_iteration();
        data($) = 0;
    }
    void critical_section(bool makes_flag) {
        gate.enter();
        lock.lock($);
        if (makes_flag) gate.own_flag();
        data($) = data($) + 1;
        lock.unlock($);
        gate.leave();
    }
    // As pthread_atfork's handlers do; what is between them finds all whole.
    void fork() {
        gate.begin();
        data($) = data($) + 1;
        gate.end();
    }
};

template <rl::test_result_e Expected>
struct fork_among_threads : rl::test_suite<fork_among_threads<Expected>, 3, Expected> {
    guarded all;

    void before() { all.begin_iteration(); }
    void thread(unsigned index) {
        if (index == 2) return all.fork();
        // Into the flag, then twice with it: who withdraws must not hide what it did before.
        for (int i = 0; i < (index == 0 ? 3 : 2); ++i)
            all.critical_section(index == 0);
        if (index == 0) all.gate.release_flag();
    }
    void after() {
        RL_ASSERT(all.data($) == 6);
        simulation::g_mappings = nullptr;
        simulation::g_may_lose_patience = false;
        simulation::clear();
    }
};

template <rl::test_result_e Expected>
struct forks_at_once : rl::test_suite<forks_at_once<Expected>, 3, Expected> {
    guarded all;

    void before() { all.begin_iteration(); }
    void thread(unsigned index) {
        if (index != 2) all.critical_section(index == 0);
        if (index != 1) all.fork();
        if (index != 2) all.critical_section(false);
        if (index == 0) all.gate.release_flag();
    }
    void after() {
        RL_ASSERT(all.data($) == 6);
        simulation::g_mappings = nullptr;
        simulation::g_may_lose_patience = false;
        simulation::clear();
    }
};

// Both want flags; there are two, so that each looks at one that the other has or gives up.
template <rl::test_result_e Expected>
struct places_change_hands : rl::test_suite<places_change_hands<Expected>, 4, Expected> {
    guarded all;

    void before() { all.begin_iteration(); }
    void thread(unsigned index) {
        if (index == 3) return all.fork();
        all.critical_section(true);
        all.critical_section(false);
        all.gate.release_flag();
    }
    void after() {
        RL_ASSERT(all.data($) == 7);
        simulation::g_mappings = nullptr;
        simulation::g_may_lose_patience = false;
        simulation::clear();
    }
};

// In a child, a handler may start a thread before the fork ends: the gate must not wait for it later.
template <rl::test_result_e Expected>
struct starts_in_child : rl::test_suite<starts_in_child<Expected>, 2, Expected> {
    pooled::detail::fork_gate gate;
    rl::atomic<int> has_begun;

    void before() {
        model::begin_iteration();
        has_begun.store(0, rl::mo_relaxed, $);
    }
    void thread(unsigned index) {
        if (index == 0) {
            while (has_begun.load(rl::mo_relaxed, $) == 0)
                model::yield();
            gate.enter();
            return gate.leave();
        }
        gate.begin();
        has_begun.store(1, rl::mo_relaxed, $);
        gate.forget_others();
        gate.end();
        gate.begin();  // waits for ever, unless the other one's increment and decrement are of the same counter
        gate.end();
    }
    void after() { simulation::clear(); }
};

// A fork beside a thread with a flag and one without, each of which may lose patience. In the parent the lock excludes whoever enters.
template <rl::test_result_e Expected>
struct copy_of_a_process : rl::test_suite<copy_of_a_process<Expected>, 3, Expected> {
    pooled::detail::fork_gate gate;
    rl::mutex lock;
    rl::mutex mappings;
    rl::var<int> data;             // of the parent
    rl::atomic<int> halves[2];     // a structure of the library, which a copy may catch between two stores
    rl::atomic<int> published[2];  // with order() between the stores

    void before() {
        model::begin_iteration();
        simulation::g_mappings = &mappings;
        simulation::g_may_lose_patience = true;
        data($) = 0;
        for (int i = 0; i < 2; ++i) {
            halves[i].store(0, rl::mo_relaxed, $);
            published[i].store(0, rl::mo_relaxed, $);
        }
    }
    void critical_section(bool makes_flag) {
        gate.enter();
        lock.lock($);
        if (makes_flag) gate.own_flag();
        data($) = data($) + 1;
        int const next = halves[0].load(rl::mo_relaxed, $) + 1;
        halves[0].store(next, rl::mo_relaxed, $);
        halves[1].store(next, rl::mo_relaxed, $);
        published[0].store(next, rl::mo_relaxed, $);
        gate.order();
        published[1].store(next, rl::mo_relaxed, $);
        lock.unlock($);
        gate.leave();
    }
    void fork() {
        gate.begin();
        if (!gate.has_given_up()) data($) = data($) + 1;
        gate.let_in();
        mappings.lock($);
        unsigned const first = rl::rand(2);
        int half[2];
        int seen[2];
        bool is_lost = rl::rand(2) != 0 && gate.is_lost();
        half[first] = halves[first].load(rl::mo_relaxed, $);
        seen[1] = published[1].load(rl::mo_relaxed, $);
        is_lost = is_lost || gate.is_lost();
        half[1 - first] = halves[1 - first].load(rl::mo_relaxed, $);
        seen[0] = published[0].load(rl::mo_relaxed, $);
        mappings.unlock($);
        RL_ASSERT(is_lost || half[0] == half[1]);
        RL_ASSERT(seen[0] >= seen[1]);
        // A handler that runs in the parent.
        critical_section(false);
        gate.end();
    }
    void thread(unsigned index) {
        if (index == 2) return fork();
        for (int i = 0; i < 2; ++i)
            critical_section(index == 0);
        if (index == 0) gate.release_flag();
    }
    void after() {
        RL_ASSERT(data($) >= 5);
        simulation::g_mappings = nullptr;
        simulation::g_may_lose_patience = false;
        simulation::clear();
    }
};

constexpr auto k_success = rl::test_result_success;
constexpr auto k_torn = rl::test_result_user_assert_failed;
constexpr auto k_race = rl::test_result_data_race;
constexpr auto k_endless = rl::test_result_livelock;

constexpr unsigned k_iterations = 100'000;

}  // namespace

int main() {
    bool ok = true;
    ok &=
        model::run<lock_of_three<k_success>>("the lock excludes threads, and wakes who sleeps", k_iterations);
    ok &=
        model::run<left_for_holder<k_success>>("what is left for the lock's holder is settled", k_iterations);
    ok &= model::run<fork_among_threads<k_success>>(
        "while one thread forks, no other is in a critical section", k_iterations);
    ok &= model::run<forks_at_once<k_success>>("two threads fork one after the other", k_iterations);
    ok &= model::run<places_change_hands<k_success>>("a flag may be given up and taken during a fork",
                                                     k_iterations);

    ok &= model::run<copy_of_a_process<k_success>>(
        "a child finds all consistent, or that its state is lost, whoever loses patience", k_iterations);
    ok &= model::run<starts_in_child<k_success>>("a thread that began in a child is counted in later forks",
                                                 k_iterations);

    simulation::g_has = {.wait_for_copy = false};
    ok &= model::run<copy_of_a_process<k_torn>>(
        "without the wait for the copy a child does not know that its state is lost", k_iterations);
    simulation::g_has = {.wake_up = false};
    ok &=
        model::run<lock_of_three<k_endless>>("without a call of wake a thread sleeps for ever", k_iterations);
    simulation::g_has = {.light_fence = false};
    ok &= model::run<fork_among_threads<k_race>>("without the light barrier a fork races", k_iterations);
    simulation::g_has = {.full_fence = false, .heavy_fence = false};  // in the model, the same
    ok &= model::run<fork_among_threads<k_race>>("without the heavy barrier a fork races", k_iterations);
    return ok ? 0 : 1;
}
