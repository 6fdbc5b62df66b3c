// SPDX-License-Identifier: BSL-1.0
// The standard's names on counted pointers: a program that uses the standard's, compiled with either.

#include "pooled/as_std.hpp"

#include "pooled/rc_ptr.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>

namespace {

// What a program writes, but for the two lines.
#define POOLED_TEST_PROGRAM                                                    \
    struct shape {                                                             \
        virtual ~shape() = default;                                            \
        [[nodiscard]] virtual int sides() const { return 0; }                  \
    };                                                                         \
    struct square : shape, enable_shared_from_this<square> {                   \
        explicit square(int a) : size(a) {}                                    \
        [[nodiscard]] int sides() const override { return 4; }                 \
        int size;                                                              \
    };                                                                         \
    inline int use() {                                                         \
        shared_ptr<square> const one = make_shared<square>(3);                 \
        shared_ptr<shape> const as_shape = one;                                \
        weak_ptr<shape> const weak = as_shape;                                 \
        int result = dynamic_pointer_cast<square>(as_shape)->size;             \
        result += static_pointer_cast<square>(weak.lock())->sides() * 10;      \
        result += static_cast<int>(one->shared_from_this().use_count()) * 100; \
        result += one->weak_from_this().expired() ? 0 : 1000;                  \
        result += make_shared<int[]>(3, 5)[2] * 10'000;                        \
        result += static_cast<int>(make_shared<int[4]>(6)[3]) * 100'000;       \
        try {                                                                  \
            square alone(1);                                                   \
            static_cast<void>(alone.shared_from_this());                       \
        } catch (bad_weak_ptr const&) {                                        \
            result += 1'000'000;                                               \
        }                                                                      \
        return result;                                                         \
    }

namespace with_std {
using namespace std;
POOLED_TEST_PROGRAM
}  // namespace with_std

namespace with_pooled {
using namespace pooled::as_std;
POOLED_TEST_PROGRAM
}  // namespace with_pooled

TEST(as_std, gives_a_program_of_the_standards_pointers_the_same_results) {
    EXPECT_EQ(with_std::use(), 1'651'343);
    EXPECT_EQ(with_pooled::use(), with_std::use());
    static_assert(std::is_same_v<pooled::as_std::shared_ptr<int>, pooled::rc_ptr<int>>);
    static_assert(std::is_same_v<pooled::as_std::weak_ptr<int>, pooled::weak_rc_ptr<int>>);
}

}  // namespace
