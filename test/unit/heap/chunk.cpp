// SPDX-License-Identifier: BSL-1.0
// The descriptors of a chunk's slabs follow its own, in one piece of metadata.

#include "pooled/heap/chunk.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <new>

namespace {

using namespace pooled::detail;

TEST(chunk, has_its_slabs_right_behind_itself_and_no_more_than_they_need) {
    constexpr std::size_t k_slabs = 3;
    alignas(chunk) std::byte memory[chunk::descriptor_bytes(k_slabs)];
    auto* const c = ::new (static_cast<void*>(memory)) chunk;
    EXPECT_TRUE(c->slabs().empty());
    c->slab_count = k_slabs;
    ASSERT_EQ(c->slabs().size(), k_slabs);
    EXPECT_EQ(static_cast<void*>(c->slabs().data()), memory + sizeof(chunk));
    EXPECT_EQ(static_cast<void*>(c->slabs().data() + k_slabs), memory + sizeof(memory));
    static_assert(sizeof(chunk) % alignof(slab) == 0 && alignof(chunk) == alignof(slab));
}

}  // namespace
