// SPDX-License-Identifier: BSL-1.0
#include "fibres/side.hpp"

#include <pooled/pooled.hpp>

#include <array>
#include <cstddef>

namespace fibres {
namespace {

// Each has a size class of its own.
template <std::size_t Bytes>
struct object {
    ~object() { value = 0; }
    int value = 1;
    std::array<std::byte, Bytes - sizeof(int)> rest{};
};

pooled::pool& pool() {
    static pooled::pool one;
    return one;
}

// Where an object of each kind lies that is made next. Volatile, so that compilers do not know what they call.
using place = void const* (*volatile)();
place g_next_unique = [] { return static_cast<void const*>(pooled::make_unique<object<200>>().get()); };
place g_next_rc = [] { return static_cast<void const*>(pooled::make_rc<object<400>>().get()); };
place g_next_shared = [] { return static_cast<void const*>(pooled::make_shared<object<600>>().get()); };
place g_next_of_pool = [] { return static_cast<void const*>(pool().make_shared<object<800>>().get()); };
place g_next_memory = [] {
    pooled::allocator<object<1000>> memory;
    auto* const block = memory.allocate(1);
    memory.deallocate(block, 1);
    return static_cast<void const*>(block);
};

// All of it in one function, so that the compiler may keep across the switch what it has computed before.
template <class Make>
[[gnu::always_inline]] inline std::size_t count_lost(Make make, place& next, void (*switch_thread)()) {
    auto object = make();
    void const* const at = object.get();
    switch_thread();
    object = nullptr;
    return next() == at ? 0 : 1;
}

}  // namespace

std::size_t count_lost_blocks(void (*switch_thread)(), std::size_t rounds) {
    std::size_t lost = 0;
    for (std::size_t i = 0; i != rounds; ++i) {
        lost += count_lost([] { return pooled::make_unique<object<200>>(); }, g_next_unique, switch_thread);
        lost += count_lost([] { return pooled::make_rc<object<400>>(); }, g_next_rc, switch_thread);
        lost += count_lost([] { return pooled::make_shared<object<600>>(); }, g_next_shared, switch_thread);
        lost += count_lost([] { return pool().make_shared<object<800>>(); }, g_next_of_pool, switch_thread);

        pooled::allocator<object<1000>> memory;
        auto* const block = memory.allocate(1);
        switch_thread();
        memory.deallocate(block, 1);
        lost += g_next_memory() == block ? 0U : 1U;
    }
    return lost;
}

}  // namespace fibres
