// SPDX-License-Identifier: BSL-1.0
// What keeps a pool within its bound.

#include "pooled/heap/upstream.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace {

using pooled::detail::k_granule_bytes;
using pooled::detail::upstream;

void* take(upstream& from, std::size_t bytes, std::size_t align) {
    upstream::call under_way(from);
    return from.allocate(bytes, align, under_way);
}

TEST(upstream, counts_what_is_out_and_how_often_it_was_asked) {
    test::counting_upstream books;
    upstream source(&books, 0, true);
    void* const a = take(source, 100'000, k_granule_bytes);
    void* const b = take(source, 50, k_granule_bytes);
    EXPECT_EQ(source.used(), 100'050U);
    EXPECT_EQ(source.calls(), 2U);
    source.deallocate(a, 100'000, k_granule_bytes);
    EXPECT_EQ(source.used(), 50U);
    source.deallocate(b, 50, k_granule_bytes);
    EXPECT_EQ(source.used(), 0U);
    EXPECT_EQ(source.calls(), 2U);
}

TEST(upstream, gives_the_bound_to_the_last_byte_and_none_beyond) {
    test::counting_upstream books;
    upstream source(&books, 1000, true);
    void* const a = take(source, 900, k_granule_bytes);
    EXPECT_EQ(take(source, 101, k_granule_bytes), nullptr);
    EXPECT_EQ(source.room(), 100U);
    void* const b = take(source, 100, k_granule_bytes);
    EXPECT_NE(b, nullptr);
    EXPECT_EQ(take(source, 1, k_granule_bytes), nullptr);
    EXPECT_EQ(books.most_bytes(), 1000U);
    source.deallocate(a, 900, k_granule_bytes);
    source.deallocate(b, 100, k_granule_bytes);
}

TEST(upstream, is_as_before_when_the_resource_throws) {
    test::counting_upstream books;
    test::failing_upstream failing(books, 1);
    upstream source(&failing, 0, true);
    EXPECT_THROW(static_cast<void>(take(source, 100, k_granule_bytes)), test::injected_failure);
    EXPECT_EQ(source.used(), 0U);
    EXPECT_EQ(source.calls(), 0U);
}

TEST(upstream, takes_pages_of_the_system_at_the_alignment_asked) {
    upstream source(nullptr, 0, true);
    for (int i = 0; i < 3; ++i) {
        void* const p = take(source, std::size_t{4} << 20, k_granule_bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % k_granule_bytes, 0U);
        *static_cast<char*>(p) = 1;
        source.deallocate(p, std::size_t{4} << 20, k_granule_bytes);
    }
}

TEST(upstream, throws_bad_alloc_when_the_system_has_no_more) {
    upstream source(nullptr, 0, true);
    EXPECT_THROW(static_cast<void>(take(source, std::size_t{1} << 62, k_granule_bytes)), std::bad_alloc);
    EXPECT_EQ(source.used(), 0U);
}

}  // namespace
