// SPDX-License-Identifier: BSL-1.0
// The records of a chunk's granules follow its descriptor, in one piece of metadata.

#include "pooled/heap/chunk.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace {

using namespace pooled::detail;

class chunk_test : public testing::Test {
protected:
    static constexpr std::size_t k_granules = 6;

    chunk_test() {
        c->base = reinterpret_cast<std::byte*>(std::uintptr_t{0x7f12'3456'0000});  // NOLINT: never read
        c->granules = k_granules;
        c->bytes = k_granules * k_granule_bytes;
    }
    slab& span_of(std::size_t first, std::uint32_t granules) {
        slab& s = c->record(first);
        s.granules = granules;
        return s;
    }

    alignas(chunk) std::byte memory[chunk::descriptor_bytes(k_granules)]{};
    chunk* const c = ::new (static_cast<void*>(memory)) chunk;
};

TEST_F(chunk_test, has_a_record_for_each_granule_right_behind_itself) {
    ASSERT_EQ(c->records().size(), k_granules);
    EXPECT_EQ(static_cast<void*>(c->records().data()), memory + sizeof(chunk));
    EXPECT_EQ(static_cast<void*>(c->records().data() + k_granules), memory + sizeof(memory));
    static_assert(sizeof(chunk) % alignof(slab) == 0 && alignof(chunk) == alignof(slab));
}

TEST_F(chunk_test, makes_a_record_once_when_a_span_first_begins_there) {
    slab& s = c->record(2);
    EXPECT_EQ(s.memory(), c->base + 2 * k_granule_bytes);
    EXPECT_EQ(s.owner, c);
    EXPECT_EQ(c->index_of(s), 2U);
    EXPECT_TRUE(s.is_free());
    EXPECT_TRUE(s.is_valid());
    s.purged = 1;
    EXPECT_EQ(c->record(2).purged, 1U);
}

TEST_F(chunk_test, knows_the_records_before_and_after_a_span) {
    slab& low = span_of(0, 2);
    slab& high = span_of(2, 4);
    EXPECT_EQ(chunk::before(low), nullptr);
    EXPECT_EQ(chunk::after(low), &high);
    EXPECT_EQ(chunk::before(high), &c->records()[1]);
    EXPECT_EQ(chunk::after(high), nullptr);
}

TEST_F(chunk_test, of_less_than_a_granule_has_a_shorter_span) {
    EXPECT_EQ(span_of(2, 4).bytes(), 4 * k_granule_bytes);
    c->bytes = k_granule_bytes - 1008;
    EXPECT_EQ(span_of(0, 1).bytes(), k_granule_bytes - 1008);
}

}  // namespace
