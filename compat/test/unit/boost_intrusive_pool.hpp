// SPDX-License-Identifier: BSL-1.0
#pragma once

// The common part of the tests of memorypool: an item that counts its lives and the calls on it, and the number of blocks in
// use of the default pool, which provides the items' memory.

#include "pooled/compat/boost_intrusive_pool.hpp"
#include "pooled/pooled.hpp"

#include "support/lives.hpp"

#include <boost/intrusive_ptr.hpp>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace test {

class intrusive_item : public memorypool::boost_intrusive_pool_item, public counted<8> {
public:
    void init(int a, int b = 0) { value = a + b; }
    void destroy() override { ++destroy_calls; }

    int value = 0;
    int destroy_calls = 0;
};

using intrusive_pool = memorypool::boost_intrusive_pool<intrusive_item>;
using intrusive_handle = boost::intrusive_ptr<intrusive_item>;

// `count` handles.
template <class Pool>
[[nodiscard]] std::vector<typename Pool::item_ptr> take(Pool& pool, std::size_t count) {
    std::vector<typename Pool::item_ptr> handles;
    for (std::size_t i = 0; i < count; ++i)
        handles.push_back(pool.allocate());
    return handles;
}

[[nodiscard]] inline std::uint64_t blocks_in_use() { return pooled::default_pool().stats().in_use; }

// A log that each item made by default counts in, and no memory left behind.
class intrusive_pool_test : public testing::Test {
protected:
    ~intrusive_pool_test() override {
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(blocks_in_use(), blocks) << "memory was left behind";
    }
    std::uint64_t blocks = blocks_in_use();
    life_log log;
    life_log::scope scope{log};
};

}  // namespace test
