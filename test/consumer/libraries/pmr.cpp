// SPDX-License-Identifier: BSL-1.0
// The pool resources with a compiled library, whose users only see their declarations.

#include <pooled/compat/pmr.hpp>

#include <cstddef>
#include <memory_resource>
#include <string>
#include <vector>

namespace {

template <class Resource>
bool holds_strings() {
    std::pmr::monotonic_buffer_resource upstream;
    Resource pool({.max_blocks_per_chunk = 16, .largest_required_pool_block = 1024}, &upstream);
    std::pmr::vector<std::pmr::string> strings(&pool);
    for (std::size_t length = 0; length != 3000; ++length)
        strings.emplace_back(std::pmr::string(length, 'x'));
    bool const is_right = pool.upstream_resource() == &upstream &&
                          pool.options().max_blocks_per_chunk == 16 && pool.is_equal(pool) &&
                          strings.back().size() == 2999;
    strings = std::pmr::vector<std::pmr::string>(&pool);
    pool.release();
    return is_right;
}

}  // namespace

int main() {
    bool const is_right = holds_strings<pooled::compat::synchronized_pool_resource>() &&
                          holds_strings<pooled::compat::unsynchronized_pool_resource>();
    return is_right ? 0 : 1;
}
