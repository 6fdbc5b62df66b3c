// SPDX-License-Identifier: BSL-1.0
#pragma once

// For tests that hold for Boost.Pool itself and for our header: the same names on both sides. Without Boost they run only
// on ours.
//
//   template <class Side> class any_side : public testing::Test {};
//   TYPED_TEST_SUITE(any_side, test::pool_sides, test::pool_side_names);

#include "pooled/compat/boost_pool.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <type_traits>

#if __has_include(<boost/pool/pool_alloc.hpp>)
#include <boost/pool/object_pool.hpp>
#include <boost/pool/pool_alloc.hpp>
#include <boost/pool/simple_segregated_storage.hpp>
#include <boost/pool/singleton_pool.hpp>
#include <boost/version.hpp>
#define POOLED_TEST_HAS_BOOST_POOL 1
#endif

namespace test {

#define POOLED_TEST_POOL_SIDE(name, origin)                                                                  \
    struct name {                                                                                            \
        using default_user_allocator_new_delete = origin::default_user_allocator_new_delete;                 \
        using default_user_allocator_malloc_free = origin::default_user_allocator_malloc_free;               \
        using null_mutex = origin::details::pool::null_mutex;                                                \
        using default_mutex = origin::details::pool::default_mutex;                                          \
        template <class Mutex>                                                                               \
        using guard = origin::details::pool::guard<Mutex>;                                                   \
        using pool_allocator_tag = origin::pool_allocator_tag;                                               \
        using fast_pool_allocator_tag = origin::fast_pool_allocator_tag;                                     \
        template <class T, class UserAllocator = default_user_allocator_new_delete,                          \
                  class Mutex = default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>                 \
        using pool_allocator = origin::pool_allocator<T, UserAllocator, Mutex, NextSize, MaxSize>;           \
        template <class T, class UserAllocator = default_user_allocator_new_delete,                          \
                  class Mutex = default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>                 \
        using fast_pool_allocator = origin::fast_pool_allocator<T, UserAllocator, Mutex, NextSize, MaxSize>; \
        template <class Tag, unsigned RequestedSize,                                                         \
                  class UserAllocator = default_user_allocator_new_delete, class Mutex = default_mutex,      \
                  unsigned NextSize = 32, unsigned MaxSize = 0>                                              \
        using singleton_pool =                                                                               \
            origin::singleton_pool<Tag, RequestedSize, UserAllocator, Mutex, NextSize, MaxSize>;             \
        template <class T, class UserAllocator = default_user_allocator_new_delete>                          \
        using object_pool = origin::object_pool<T, UserAllocator>;                                           \
        template <class SizeType>                                                                            \
        using simple_segregated_storage = origin::simple_segregated_storage<SizeType>;                       \
        template <class UserAllocator = default_user_allocator_new_delete>                                   \
        using pool = origin::pool<UserAllocator>;                                                            \
    }

POOLED_TEST_POOL_SIDE(ours, ::pooled::compat);
#ifdef POOLED_TEST_HAS_BOOST_POOL
POOLED_TEST_POOL_SIDE(boosts, ::boost);
using pool_sides = testing::Types<ours, boosts>;
// Whether the rows of Boost's own classes that show how these check sizes and what a user allocator refuses must be skipped: Boost
// 1.74 checks neither, and writes to address 0; 1.81 does.
template <class Side>
inline constexpr bool k_checks_nothing = std::is_same_v<Side, boosts> && BOOST_VERSION < 108100;
#else
using pool_sides = testing::Types<ours>;
template <class Side>
inline constexpr bool k_checks_nothing = false;
#endif

struct pool_side_names {
    template <class Side>
    static std::string GetName(int) {
        return std::is_same_v<Side, ours> ? "ours" : "boosts";
    }
};

// A UserAllocator that records what is in use, separately for each Tag; nothing may be in use when the record begins.
template <class Tag>
struct booked_user_allocator {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    struct books {
        std::map<char*, std::size_t> out;
        std::size_t calls = 0;
        std::size_t largest = 0;
        std::size_t smallest = static_cast<std::size_t>(-1);
        std::size_t most_bytes = static_cast<std::size_t>(-1);  // that it gives at once
        std::size_t errors = 0;
    };
    static books& open() {
        static books b;
        return b;
    }

    static char* malloc(size_type bytes) {
        books& b = open();
        ++b.calls;
        if (bytes > b.most_bytes) return nullptr;
        b.largest = bytes > b.largest ? bytes : b.largest;
        b.smallest = bytes < b.smallest ? bytes : b.smallest;
        auto* const p = static_cast<char*>(std::malloc(bytes));
        if (p != nullptr) b.out[p] = bytes;
        return p;
    }
    static void free(char* p) {
        if (open().out.erase(p) != 1) ++open().errors;
        std::free(p);
    }
};

}  // namespace test
