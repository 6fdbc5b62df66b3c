// SPDX-License-Identifier: BSL-1.0
// The package is found, compiles and works.
#include <pooled/pooled.hpp>

#include <cstdio>
#include <memory>

int main() {
    pooled::pool pool{{.name = "package"}};
    auto const answer = pool.make_shared<int>(42);
#if EXPECTS_NEW_DELETE
    if (!pooled::default_pool().owns(std::make_unique<int>(42).get())) return 1;
#endif
    std::printf("pooled %s: %d\n", pooled::version_string, *answer);
    return pool.stats().in_use != 0 && *answer == 42 ? 0 : 1;
}
