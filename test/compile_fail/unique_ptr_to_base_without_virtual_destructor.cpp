// expect: a base without a virtual destructor cannot own an object of a derived class
// SPDX-License-Identifier: BSL-1.0
// The derived part would not be destroyed.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

struct base {
    int value = 1;
};
struct derived : base {};

int main() {
    pooled::unique_ptr<derived> p = pooled::make_unique<derived>();
#ifndef POOLED_CONTROL
    pooled::unique_ptr<base> q = std::move(p);
#endif
}
