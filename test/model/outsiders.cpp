// SPDX-License-Identifier: BSL-1.0

// What threads share that have neither a cache nor a lock: the gate of all of them (shared_gate, cache/gate.hpp), and large blocks on their
// way from thread to thread (cache/handed_blocks.hpp). Production code, under Relacy's scheduler and memory model.
//
//   enter        two threads without a cache, and a thread that steals twice
//   hand over    two threads leave a block each and take one, and so does a third one; a batch is one block
//   controls     the same with one part of the protocol left out: Relacy must find the race

#include "pooled/cache/gate.hpp"
#include "pooled/cache/handed_blocks.hpp"

#include "model/relacy.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace {

template <bool Waits, rl::test_result_e Expected>
struct enter : rl::test_suite<enter<Waits, Expected>, 3, Expected> {
    pooled::detail::shared_gate one;
    std::array<rl::var<int>, 2> deferred;

    void before() {
        model::begin_iteration();
        for (rl::var<int>& each : deferred)
            each($) = 0;
    }
    void after() { simulation::clear(); }
    void thread(unsigned index) {
        for (int i = 0; i < 2; ++i) {
            if (index < 2) {
                if (!one.enter()) continue;
                deferred[index]($) = deferred[index]($) + 1;
                one.leave();
                continue;
            }
            one.stop();
            if (!Waits || one.take())
                for (rl::var<int>& each : deferred)
                    each($) = each($) + 1;
            one.resume();
        }
    }
};

// Constructed again in each iteration.
pooled::detail::handed_blocks g_handed;

// Of a block, its owner writes to it.
template <rl::test_result_e Expected>
struct hand_over : rl::test_suite<hand_over<Expected>, 3, Expected> {
    static constexpr pooled::detail::class_index k_class = pooled::detail::large_class_for(4'000'000, 16);
    static constexpr std::size_t k_all =
        pooled::detail::handed_blocks::k_batches * pooled::detail::handed_blocks::k_most_blocks;
    std::array<rl::var<int>, 2> blocks;
    std::array<int, 3> taken;

    void before() {
        model::begin_iteration();
        for (rl::var<int>& block : blocks)
            block($) = 0;
        taken = {};
        std::construct_at(&g_handed);
    }
    void use(unsigned index, void* p) {
        auto& block = *static_cast<rl::var<int>*>(p);
        RL_ASSERT(block($) == 1);
        block($) = 2;
        ++taken[index];
    }
    void take(unsigned index) {
        void* got = nullptr;
        if (g_handed.take(k_class, 1, &got) != 0) use(index, got);
    }
    void thread(unsigned index) {
        if (index == 2) {
            take(index);
            return take(index);
        }
        blocks[index]($) = 1;
        void* const mine = &blocks[index];
        if (g_handed.push(k_class, {&mine, 1}) == 0) use(index, mine);  // no place: its owner keeps it
        take(index);
    }
    void after() {
        std::array<void*, k_all> rest{};
        std::uint32_t const count = g_handed.take_all(k_class, rest.data());
        for (std::uint32_t i = 0; i < count; ++i)
            use(2, rest[i]);
        RL_ASSERT(taken[0] + taken[1] + taken[2] == 2);
        RL_ASSERT(g_handed.count(k_class) == 0);
        simulation::clear();
    }
};

constexpr auto k_success = rl::test_result_success;
constexpr auto k_race = rl::test_result_data_race;

constexpr unsigned k_iterations = 200'000;

}  // namespace

int main() {
    bool ok = true;
    using enter_as_is = enter<true, k_success>;
    using enter_hasty = enter<false, k_race>;
    ok &= model::run<enter_as_is>("threads without a cache and one that steals keep apart", k_iterations);
    ok &= model::run<hand_over<k_success>>("a block that was handed over has one owner", k_iterations / 20);
    simulation::g_has.orders = false;
    ok &= model::run<hand_over<k_race>>(
        "without the orders of its atomics a block that was handed over has two", k_iterations / 20);
    simulation::g_has.orders = true;
    ok &= model::run<enter_hasty>("without waiting for threads without a cache stealing races", k_iterations);
    simulation::g_has.full_fence = false;
    using enter_unfenced = enter<true, k_race>;
    ok &= model::run<enter_unfenced>("without their barriers stealing races", k_iterations);
    return ok ? 0 : 1;
}
