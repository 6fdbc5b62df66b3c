// SPDX-License-Identifier: BSL-1.0
// malloc and the library's own pointers have one pool.

#include <pooled/pooled.hpp>

#include <cstdlib>

int main() {
    void* const by_malloc = std::malloc(100);
    auto const by_pool = pooled::make_shared<int>(2);
    pooled::pool const& pool = pooled::default_pool();
    bool const is_same = pool.owns(by_malloc) && pool.owns(by_pool.get());
    std::free(by_malloc);
    return is_same ? 0 : 1;
}
