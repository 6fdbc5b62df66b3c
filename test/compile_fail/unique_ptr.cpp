// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with unique_ptr.
#include "pooled/pooled.hpp"

#include <utility>

// A destructor that is not known cannot be called.
// expect unique_ptr_of_incomplete_type: (T must be complete where the pointer is destroyed|incomplete type)
namespace unique_ptr_of_incomplete_type {
struct incomplete;
void test() {
    static_cast<void>(pooled::make_unique<int>(1));
#ifdef MISTAKE_unique_ptr_of_incomplete_type
    incomplete* raw = nullptr;
    pooled::unique_ptr<incomplete> p(raw);
#endif
}
}  // namespace unique_ptr_of_incomplete_type

// The derived part would not be destroyed.
// expect unique_ptr_to_base_without_virtual_destructor: a base without a virtual destructor cannot own an object of a derived class
namespace unique_ptr_to_base_without_virtual_destructor {
struct base {
    int value = 1;
};
struct derived : base {};
void test() {
    pooled::unique_ptr<derived> p = pooled::make_unique<derived>();
#ifdef MISTAKE_unique_ptr_to_base_without_virtual_destructor
    pooled::unique_ptr<base> q = std::move(p);
#endif
}
}  // namespace unique_ptr_to_base_without_virtual_destructor
