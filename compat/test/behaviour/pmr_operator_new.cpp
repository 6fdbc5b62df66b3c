// SPDX-License-Identifier: BSL-1.0
// A pool resource calls the program's operator new for nothing but its upstream, as the standard libraries' resources do. Replaces it
// in its own program.

#include "pooled/compat/pmr.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <memory_resource>
#include <new>

namespace {

std::size_t g_news = 0;

}  // namespace

// Not inlined: GCC would see free() for what it knows to be of operator new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++g_news;
    if (void* const p = std::malloc(bytes)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

template <class Resource>
class operator_new : public testing::Test {};
using resources =
    testing::Types<pooled::compat::synchronized_pool_resource, pooled::compat::unsynchronized_pool_resource>;
TYPED_TEST_SUITE(operator_new, resources);

TYPED_TEST(operator_new, is_not_called_by_a_pool_resource_with_another_upstream) {
    std::size_t const news = g_news;
    {
        alignas(16) static std::byte memory[256 * 1024];
        std::pmr::monotonic_buffer_resource buffer(memory, sizeof memory, std::pmr::null_memory_resource());
        TypeParam resource(&buffer);
        void* const p = resource.allocate(50);
        resource.deallocate(p, 50);
        resource.release();
    }
    std::size_t const after = g_news;
    EXPECT_EQ(after, news);
}

}  // namespace
