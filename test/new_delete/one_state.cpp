// SPDX-License-Identifier: BSL-1.0
// usage: one_state PART. What the pool of operator new is to the program's own: the same where they share one state; otherwise each has
// its own, which its threads' caches serve, and blocks that are freed find their way.
#include <pooled/pooled.hpp>

#include <memory>
#include <string_view>

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    bool const is_shared = std::string_view(argv[1]) != "own_state";
    pooled::pool const& pool = pooled::default_pool();
    auto const by_new = std::make_shared<int>(1);
    auto const by_pool = pooled::make_shared<int>(2);
    if (!pool.owns(by_pool.get()) || pool.owns(by_new.get()) != is_shared) return 1;
    // Of this copy: no call goes to another one.
    if (pooled::detail::g_registry.is_foreign(pooled::detail::g_registry.default_core())) return 1;
    ::operator delete(pooled::pool_allocator<char>(pooled::default_pool()).allocate(100));
    return 0;
}
