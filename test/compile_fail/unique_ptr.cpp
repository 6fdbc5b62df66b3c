// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with unique_ptr.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

// Elements of another size cannot be walked.
// expect unique_ptr_array_to_base_array: (no viable conversion|conversion from .* to non-scalar type|could not convert)
namespace unique_ptr_array_to_base_array {
struct base {
    virtual ~base() = default;
};
struct derived : base {
    int more = 1;
};
void test() {
    auto p = pooled::make_unique<derived[]>(2);
#ifdef MISTAKE_unique_ptr_array_to_base_array
    pooled::unique_ptr<base[]> q = std::move(p);
#endif
}
}  // namespace unique_ptr_array_to_base_array

// A pointer to const does not become one to non-const.
// expect unique_ptr_drops_const: (no viable conversion|conversion from .* to non-scalar type|could not convert)
void unique_ptr_drops_const() {
    auto p = pooled::make_unique<int const>(1);
#ifdef MISTAKE_unique_ptr_drops_const
    pooled::unique_ptr<int> q = std::move(p);
#endif
}

// Ownership is taken explicitly only.
// expect unique_ptr_from_raw_pointer_implicitly: (no viable conversion|conversion from .* to non-scalar type|could not convert)
void unique_ptr_from_raw_pointer_implicitly() {
    int* raw = nullptr;
#ifdef MISTAKE_unique_ptr_from_raw_pointer_implicitly
    pooled::unique_ptr<int> p = raw;
#endif
}

// Memory from new does not belong to a pool.
// expect unique_ptr_from_std_unique_ptr: (no viable conversion|conversion from .* to non-scalar type|could not convert)
void unique_ptr_from_std_unique_ptr() {
    auto p = std::make_unique<int>(1);
#ifdef MISTAKE_unique_ptr_from_std_unique_ptr
    pooled::unique_ptr<int> q = std::move(p);
#endif
}

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

// Unrelated types do not convert.
// expect unique_ptr_of_unrelated_type: (no viable conversion|conversion from .* to non-scalar type|could not convert)
void unique_ptr_of_unrelated_type() {
    auto p = pooled::make_unique<int>(1);
#ifdef MISTAKE_unique_ptr_of_unrelated_type
    pooled::unique_ptr<double> q = std::move(p);
#endif
}

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

// std::default_delete would give a pool's block to operator delete.
// expect unique_ptr_to_std_unique_ptr: (no viable conversion|conversion from .* to non-scalar type|could not convert)
void unique_ptr_to_std_unique_ptr() {
    auto p = pooled::make_unique<int>(1);
#ifdef MISTAKE_unique_ptr_to_std_unique_ptr
    std::unique_ptr<int> q = std::move(p);
#endif
}
