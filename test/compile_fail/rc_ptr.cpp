// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with rc_ptr and enable_rc_from_this.
#include "pooled/pooled.hpp"

// As with std::enable_shared_from_this, a private base is not found; here it is refused instead of silently ignored.
// expect rc_from_this_in_private: a public one
namespace rc_from_this_in_private {
class hidden :
#ifndef MISTAKE_rc_from_this_in_private
    public
#else
    private
#endif
    pooled::enable_rc_from_this<hidden> {
};
void test() { static_cast<void>(pooled::make_rc<hidden>()); }
}  // namespace rc_from_this_in_private

// rc_from_this() could not choose between the two.
// expect rc_from_this_twice: just one of them among its bases
namespace rc_from_this_twice {
struct base : pooled::enable_rc_from_this<base> {};
struct derived : base {};
struct twice : base, pooled::enable_rc_from_this<twice> {};
void test() {
    static_cast<void>(pooled::make_rc<derived>());
#ifdef MISTAKE_rc_from_this_twice
    static_cast<void>(pooled::make_rc<twice>());
#endif
}
}  // namespace rc_from_this_twice

// Pointers to unrelated classes are not compared.
// expect rc_ptr_compared_with_unrelated: (comparison (between|of)|distinct pointer types|no match for|lacks a cast)
namespace rc_ptr_compared_with_unrelated {
struct a {};
struct b {};
void test() {
    auto p = pooled::make_rc<a>();
    auto q = pooled::make_rc<b>();
#ifdef MISTAKE_rc_ptr_compared_with_unrelated
    return p == q ? 1 : 0;
#endif
}
}  // namespace rc_ptr_compared_with_unrelated

// A message shows the name that a user wrote.
// expect rc_ptr_messages_name_it: (‘rc_ptr<|'rc_ptr<|pooled::rc_ptr<|::rc_ptr<)(double>|double)
void rc_ptr_messages_name_it() {
    pooled::rc_ptr<int> p = pooled::make_rc<int>(1);
#ifdef MISTAKE_rc_ptr_messages_name_it
    pooled::rc_ptr<double> q = p;
#endif
}

// The casts are those of the language.
// expect rc_ptr_to_another_class_by_static_cast: (static_cast|not related|invalid)
namespace rc_ptr_to_another_class_by_static_cast {
struct a {};
struct b {};
void test() {
    auto p = pooled::make_rc<a>();
#ifdef MISTAKE_rc_ptr_to_another_class_by_static_cast
    auto q = pooled::static_pointer_cast<b>(p);
#endif
}
}  // namespace rc_ptr_to_another_class_by_static_cast

// As with std::shared_ptr: an array's elements are reached by [], not by *.
// expect rc_ptr_to_array_is_indexed: (no match for .operator\*.|invalid operands|constraints not satisfied|indirection requires pointer)
void rc_ptr_to_array_is_indexed() {
    auto const p = pooled::make_rc<int[]>(3);
    static_cast<void>(p[0]);
#ifdef MISTAKE_rc_ptr_to_array_is_indexed
    static_cast<void>(*p);
#endif
}

// As with plain pointers, a base must be accessible.
// expect rc_ptr_to_private_base: (no viable conversion|conversion from .* to non-scalar type|could not convert)
namespace rc_ptr_to_private_base {
struct base {};
class derived : base {};
void test() {
    auto p = pooled::make_rc<derived>();
#ifdef MISTAKE_rc_ptr_to_private_base
    pooled::rc_ptr<base> q = p;
#endif
}
}  // namespace rc_ptr_to_private_base

// rc_ptr<void> keeps an object alive and has its address, but not its type.
// expect rc_ptr_to_void_is_not_dereferenced: (no match for|indirection|constraints not satisfied|invalid operands)
void rc_ptr_to_void_is_not_dereferenced() {
    pooled::rc_ptr<void> p = pooled::make_rc<int>(3);
#ifdef MISTAKE_rc_ptr_to_void_is_not_dereferenced
    static_cast<void>(*p);
#endif
}

// The arguments are those of a constructor.
// expect rc_ptr_with_wrong_arguments: T has no accessible constructor that takes these arguments
namespace rc_ptr_with_wrong_arguments {
struct takes_two {
    takes_two(int, int) {}
};
void test() {
    auto p = pooled::make_rc<takes_two>(1, 2);
#ifdef MISTAKE_rc_ptr_with_wrong_arguments
    auto q = pooled::make_rc<takes_two>("text");
#endif
}
}  // namespace rc_ptr_with_wrong_arguments

// The counts lie in front of the object, in a pool's block.
// expect rc_ptr_of_new: make_rc<T>\(arguments\), not rc_ptr<T>\(new T\)
void rc_ptr_of_new() {
    pooled::rc_ptr<int> const p = pooled::make_rc<int>(1);
    pooled::rc_ptr<int> const empty{nullptr};
#ifdef MISTAKE_rc_ptr_of_new
    pooled::rc_ptr<int> const q{new int(1)};
#endif
}
