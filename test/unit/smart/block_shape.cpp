// SPDX-License-Identifier: BSL-1.0
// The block that reserve() provides is the one that std::allocate_shared asks for, whatever the type.

#include "pooled/smart/block_shape.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <thread>

namespace {

std::size_t g_bytes = 0;
std::size_t g_align = 0;

// Notes what it is asked for.
template <class T>
struct noting {
    using value_type = T;
    noting() = default;
    template <class U>
    noting(noting<U> const&) noexcept {}  // NOLINT: as allocators do
    [[nodiscard]] T* allocate(std::size_t n) {
        g_bytes = n * sizeof(T);
        g_align = alignof(T);
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* p, std::size_t n) noexcept { std::allocator<T>().deallocate(p, n); }
    friend bool operator==(noting, noting) noexcept { return true; }
};

struct empty {};
struct empty_final final {};
struct empty_aligned {
    alignas(64) struct {
    } nothing;
};
struct polymorphic {
    virtual ~polymorphic() = default;
    char c = 0;
};
template <std::size_t Bytes, std::size_t Align>
struct alignas(Align) sized {
    std::byte bytes[Bytes]{};
};

template <class T>
class shape_of : public testing::Test {};
using shapes =
    testing::Types<char, double, std::string, empty, empty_final, empty_aligned, polymorphic, sized<3, 1>,
                   sized<48, 16>, sized<100, 64>, sized<5000, 4096>, sized<100'000, 8>>;
TYPED_TEST_SUITE(shape_of, shapes);

TYPED_TEST(shape_of, a_control_block_is_what_allocate_shared_asks_for) {
    static_cast<void>(std::allocate_shared<TypeParam>(noting<TypeParam>()));
    for (int i = 0; i < 2; ++i) {
        auto const shape = pooled::detail::shared_block_shape<TypeParam>();
        EXPECT_EQ(shape.bytes, g_bytes);
        EXPECT_EQ(shape.align, g_align);
    }
}

TEST(shape_of_a_control_block, is_found_by_two_threads_at_once) {
    struct only_here {
        std::byte bytes[77];
    };
    std::size_t other = 0;
    std::thread thread([&] { other = pooled::detail::shared_block_shape<only_here>().bytes; });
    std::size_t const mine = pooled::detail::shared_block_shape<only_here>().bytes;
    thread.join();
    EXPECT_EQ(mine, other);
    EXPECT_GT(mine, 77U);
}

}  // namespace
