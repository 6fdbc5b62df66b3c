// SPDX-License-Identifier: BSL-1.0
// Where an object lies in its slot, and slots in a chain.

#include "pooled/object/slot.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace {

using pooled::detail::count_header;
using pooled::detail::slot;
using pooled::detail::slot_chain;
using pooled::detail::slot_layout;

template <std::size_t Bytes, std::size_t Align>
struct alignas(Align) shaped {
    std::array<std::byte, Bytes> bytes;
};

template <class T>
void expect_layout() {
    using layout = slot_layout<T>;
    alignas(layout::k_align) std::array<std::byte, layout::k_bytes> memory;
    slot& s = *::new (static_cast<void*>(memory.data())) slot(nullptr);
    auto const begin = reinterpret_cast<std::uintptr_t>(memory.data());
    auto const object = reinterpret_cast<std::uintptr_t>(layout::memory_of(s));
    EXPECT_EQ(object % alignof(T), 0U);
    EXPECT_GE(object, begin + sizeof(slot) + sizeof(count_header));
    EXPECT_LE(object + sizeof(T), begin + layout::k_bytes);
    EXPECT_EQ(layout::k_bytes % 64, 0U);
    T* const made = ::new (layout::memory_of(s)) T();
    EXPECT_EQ(&layout::slot_of(made), &s);
    EXPECT_EQ(std::addressof(layout::object_of(s)), made);
}

TEST(slot_layout_test, leads_from_slot_to_object_and_back_for_any_size_and_alignment) {
    expect_layout<char>();
    expect_layout<double>();
    expect_layout<shaped<48, 16>>();
    expect_layout<shaped<64, 64>>();
    expect_layout<shaped<100, 256>>();
}

TEST(slot_chain_test, gives_out_the_slot_pushed_last) {
    slot a(nullptr);
    slot b(nullptr);
    slot_chain chain;
    EXPECT_EQ(chain.pop(), nullptr);
    chain.push(a);
    chain.push(b);
    EXPECT_EQ(chain.size(), 2U);
    EXPECT_TRUE(chain.is_valid());
    EXPECT_EQ(chain.pop(), &b);
    EXPECT_EQ(chain.pop(), &a);
    EXPECT_TRUE(chain.empty());
    EXPECT_TRUE(chain.is_valid());
}

TEST(slot_chain_test, is_empty_after_it_was_moved_from) {
    slot a(nullptr);
    slot_chain from;
    from.push(a);
    slot_chain to(std::move(from));
    EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): that is the promise
    EXPECT_EQ(from.size(), 0U);
    EXPECT_EQ(to.pop(), &a);
}

}  // namespace
