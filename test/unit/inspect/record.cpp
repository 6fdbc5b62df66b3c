// SPDX-License-Identifier: BSL-1.0

// What another program reads of this one. A version of poolheap knows the structures by their number.

#include "pooled/inspect/own_record.hpp"
#include "pooled/object/recycle_list.hpp"
#include "pooled/object/recycle_list_slow.hpp"
#include "pooled/pooled.hpp"
#include "pooled/teardown/incremental.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

namespace inspect = pooled::inspect;
using namespace pooled::detail;

// FNV-1a.
std::uint64_t hash(void const* of, std::size_t bytes, std::uint64_t value) {
    for (std::size_t i = 0; i < bytes; ++i)
        value = (value ^ static_cast<unsigned char const*>(of)[i]) * 0x100000001b3;
    return value;
}

TEST(record, has_another_number_when_a_structure_changes) {
    if (POOLED_CHECKED || POOLED_HARDENED || POOLED_SANITIZE || POOLED_HAS_MEMBARRIER != 1 ||
        POOLED_THREAD_SANITIZER)
        GTEST_SKIP() << "the number is that of the plain build";
    inspect::record plain = k_record;
    plain.page_map = plain.registry = plain.arena = plain.geometry.table = nullptr;
    std::uint64_t value = hash(&plain, sizeof(plain), 0xcbf29ce484222325);
    value = hash(&record_access::of<recycle_list>::k_layout, sizeof(inspect::recycle_layout), value);
    value = hash(&record_access::of<deferred_objects>::k_layout, sizeof(inspect::deferred_layout), value);
    EXPECT_TRUE(inspect::k_layout == 1 && value == 0x415ff39908675aa6)
        << "structures that poolheap reads have changed: raise inspect::k_layout, unless its number was "
           "never released; look whether "
           "inspect/walk.hpp still reads them; and write the new number and 0x"
        << std::hex << value << " here";
}

TEST(record, has_the_sizes_of_all_classes) {
    for (class_index c = 0; c < k_class_count; ++c) {
        std::uint32_t bytes = 0;
        auto const* const table = static_cast<std::byte const*>(k_record.geometry.table);
        std::memcpy(&bytes, table + std::size_t{c} * k_record.geometry.stride + k_record.geometry.block_bytes,
                    sizeof(bytes));
        EXPECT_EQ(bytes, k_geometry[c].block_bytes);
    }
    EXPECT_EQ(k_record.geometry.count, k_exact + 1);
}

}  // namespace
