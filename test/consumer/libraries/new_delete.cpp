// SPDX-License-Identifier: BSL-1.0
// operator new and the library's own pointers have one pool.

#include <pooled/pooled.hpp>

#include <memory>

int main() {
    auto const by_new = std::make_shared<int>(1);
    auto const by_pool = pooled::make_shared<int>(2);
    pooled::pool const& pool = pooled::default_pool();
    return pool.owns(by_new.get()) && pool.owns(by_pool.get()) ? 0 : 1;
}
