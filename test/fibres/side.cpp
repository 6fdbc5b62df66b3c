// SPDX-License-Identifier: BSL-1.0
#include "fibres/side.hpp"

#include <pooled/pooled.hpp>

#include "fibres/pool.hpp"

#include <cstddef>

namespace fibres {
namespace {

// All of it in one function, so that the compiler may keep across the switch what it has computed before.
template <class Make, class Next>
[[gnu::always_inline]] inline std::size_t count_lost(Make make, Next next, void (*switch_thread)()) {
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
        lost += count_lost([] { return pooled::make_unique<object<200>>(); }, next_unique, switch_thread);
        lost += count_lost([] { return pooled::make_rc<object<400>>(); }, next_rc, switch_thread);
        lost += count_lost([] { return pooled::make_shared<object<600>>(); }, next_shared, switch_thread);
        lost += count_lost([] { return pool().make_shared<object<800>>(); }, next_of_pool, switch_thread);

        pooled::allocator<object<1000>> memory;
        auto* const block = memory.allocate(1);
        switch_thread();
        memory.deallocate(block, 1);
        lost += next_memory() == block ? 0U : 1U;
    }
    return lost;
}

}  // namespace fibres
