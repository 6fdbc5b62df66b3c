// expect: Lifecycle::on_release must be callable with a T&
// SPDX-License-Identifier: BSL-1.0
// A member with the right name and a wrong signature is a mistake, not an absent member.
#include "pooled/pooled.hpp"

struct wrong {
#ifndef POOLED_CONTROL
    void on_release(int*) const {}
#else
    void on_release(int&) const {}
#endif
};

int main() {
    pooled::object_pool<int, wrong> pool;
    auto const a = pool.acquire();
}
