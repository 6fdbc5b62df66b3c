// SPDX-License-Identifier: BSL-1.0
#include <pooled/pooled.hpp>

#include "fibres/pool.hpp"
#include "fibres/side.hpp"

namespace fibres {

namespace {

void const* address_of(auto const& object) { return object.get(); }

}  // namespace

void const* next_unique() { return address_of(pooled::make_unique<object<200>>()); }
void const* next_rc() { return address_of(pooled::make_rc<object<400>>()); }
void const* next_shared() { return address_of(pooled::make_shared<object<600>>()); }
void const* next_of_pool() { return address_of(pool().make_shared<object<800>>()); }
void const* next_memory() {
    pooled::allocator<object<1000>> memory;
    auto* const block = memory.allocate(1);
    memory.deallocate(block, 1);
    return block;
}

}  // namespace fibres
