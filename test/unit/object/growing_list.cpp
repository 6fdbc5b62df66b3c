// SPDX-License-Identifier: BSL-1.0
// growing_list: steps are built when the last free thing is taken, within the limits; one that fails changes nothing.

#include "pooled/object/growing_list.hpp"

#include "pooled/object/own_core.hpp"
#include "pooled/pool/extension.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <vector>

namespace {

using pooled::detail::growth_limits;
using own_core = pooled::detail::own_core<pooled::detail::sharing::shared>;

// Things are the elements of an array.
struct things {
    std::array<int, 256> all{};
    std::size_t made = 0;
    std::size_t building = 0;
    int undone = 0;
    bool is_out_of_memory = false;
    bool is_failing = false;
};

struct maker {
    things* of;
    void make(std::size_t count, std::size_t before) {
        EXPECT_EQ(before, of->made);
        if (of->is_out_of_memory) throw std::bad_alloc();
        of->building = count;
        if (of->is_failing) throw std::runtime_error("a constructor");
    }
    void keep(void** out) noexcept {
        for (std::size_t i = of->building; i-- != 0;)
            *out++ = &of->all[of->made + i];
        of->made += of->building;
    }
    void undo() noexcept { ++of->undone; }
};

struct owner final : pooled::detail::pool_extension {
    owner(pooled::detail::pool_core& c, growth_limits limits, things& all) noexcept
        : core(c), list(c, limits, maker{&all}) {}
    ~owner() = default;
    void on_retire(pooled::detail::thread_cache& cache) noexcept override { list.on_retire(cache); }
    pooled::detail::pool_core& core;
    pooled::detail::growing_list<maker> list;
};

class growing_list : public testing::Test {
protected:
    auto& make(growth_limits limits) {
        m_owner = &own_core::make<owner>({.name = "test"}, limits, all);
        m_owner->list.make_initial();
        return m_owner->list;
    }
    ~growing_list() override {
        static_cast<void>(m_owner->list.take_all([](maker&, std::size_t) {}));
        pooled::detail::g_registry.close(m_owner->core);
        own_core::destroy(*m_owner, m_owner->core);
    }
    things all;

private:
    owner* m_owner = nullptr;
};

TEST_F(growing_list, gives_things_in_the_order_of_their_making_and_the_last_put_first) {
    auto& list = make({4, 4, 0});
    EXPECT_EQ(list.take(), &all.all[0]);
    EXPECT_EQ(list.take(), &all.all[1]);
    EXPECT_TRUE(list.put(&all.all[0], false));
    void* seen = nullptr;
    list.check([&seen](void* next) { seen = next; });
    EXPECT_EQ(seen, &all.all[0]);
    EXPECT_EQ(list.take(), &all.all[0]);
}

TEST_F(growing_list, makes_a_step_with_the_last_thing_taken_up_to_the_limit) {
    auto& list = make({2, 4, 7});
    std::vector<void*> taken;
    for (int i = 0; i < 7; ++i)
        taken.push_back(list.take());
    EXPECT_EQ(taken.back(), &all.all[6]);
    EXPECT_EQ(list.capacity(), 7U);
    EXPECT_EQ(list.steps(), 3U);
    EXPECT_TRUE(list.is_exhausted());
    EXPECT_EQ(list.take(), nullptr);
    EXPECT_TRUE(list.put(taken[0], false));
    EXPECT_FALSE(list.is_exhausted());
    EXPECT_EQ(list.take(), taken[0]);
}

TEST_F(growing_list, step_that_fails_leaves_all_as_it_was) {
    auto& list = make({2, 4, 0});
    static_cast<void>(list.take());
    all.is_failing = true;
    EXPECT_THROW(static_cast<void>(list.take()), std::runtime_error);
    EXPECT_EQ(all.undone, 1);
    EXPECT_EQ(list.idle(), 1U);
    EXPECT_EQ(list.capacity(), 2U);
    all.is_out_of_memory = true;
    EXPECT_EQ(list.take(), &all.all[1]) << "want of memory is no failure while there is one left";
    EXPECT_TRUE(list.is_exhausted());
    EXPECT_THROW(static_cast<void>(list.take()), std::bad_alloc);
    all.is_out_of_memory = all.is_failing = false;
    EXPECT_EQ(list.take(), &all.all[2]);
}

TEST_F(growing_list, stale_things_are_not_taken_back) {
    auto& list = make({4, 0, 0});
    void* const one = list.take();
    std::size_t counted = 0;
    EXPECT_EQ(list.take_all([&](maker&, std::size_t count) { counted = count; }).size(), 3U);
    EXPECT_EQ(counted, 3U);
    EXPECT_EQ(list.capacity(), 0U);
    EXPECT_FALSE(list.put(one, true));
    EXPECT_EQ(list.idle(), 0U);
}

TEST_F(growing_list, thing_that_is_lost_counts_no_more) {
    auto& list = make({4, 0, 0});
    static_cast<void>(list.take());
    list.lose(false);
    EXPECT_EQ(list.capacity(), 3U);
    EXPECT_EQ(list.idle(), 3U);
}

}  // namespace
