// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with the make_ functions.
#include "pooled/pooled.hpp"

// An array needs its length, unless its type contains it.
// expect make_rc_of_array_without_length: (no matching function|constraints not satisfied)
void make_rc_of_array_without_length() {
    static_cast<void>(pooled::make_rc<int[3]>());
    static_cast<void>(pooled::make_rc<int[]>(3));
#ifdef MISTAKE_make_rc_of_array_without_length
    static_cast<void>(pooled::make_rc<int[]>());
#endif
}

// The arguments of an array are its length and one value to copy.
// expect make_shared_of_array_with_constructor_arguments: no matching function for call to .make_shared
void make_shared_of_array_with_constructor_arguments() {
    static_cast<void>(pooled::make_shared<int[]>(4, 1));
#ifdef MISTAKE_make_shared_of_array_with_constructor_arguments
    static_cast<void>(pooled::make_shared<int[]>(4, 1, 2));
#endif
}

// An array needs its length.
// expect make_shared_of_array_without_length: no matching function for call to .make_shared
void make_shared_of_array_without_length() {
    static_cast<void>(pooled::make_shared<int[]>(4));
#ifdef MISTAKE_make_shared_of_array_without_length
    static_cast<void>(pooled::make_shared<int[]>());
#endif
}

// The constructor must exist. What refuses it names the type.
// expect make_shared_with_wrong_arguments: is_made_of[^\n]*needs_int(.|\n)*static assertion failed: pooled: T has no accessible|static assertion failed due to[^\n]*pooled: T has no accessible(.|\n)*is_made_of<make_shared_with_wrong_arguments::needs_int>
namespace make_shared_with_wrong_arguments {
struct needs_int {
    explicit needs_int(int) {}
};
void test() {
    static_cast<void>(pooled::make_shared<needs_int>(1));
#ifdef MISTAKE_make_shared_with_wrong_arguments
    static_cast<void>(pooled::make_shared<needs_int>());
#endif
}
}  // namespace make_shared_with_wrong_arguments

// Elements are value-initialised.
// expect make_unique_of_array_with_values: (no matching function for call to .make_unique|no matching function)
void make_unique_of_array_with_values() {
    static_cast<void>(pooled::make_unique<int[]>(4));
#ifdef MISTAKE_make_unique_of_array_with_values
    static_cast<void>(pooled::make_unique<int[]>(4, 1, 2));
#endif
}

// As with std: for an array of known size there is std::array.
// expect make_unique_of_bounded_array: no matching function for call to .make_unique
void make_unique_of_bounded_array() {
    static_cast<void>(pooled::make_unique<int[]>(4));
#ifdef MISTAKE_make_unique_of_bounded_array
    static_cast<void>(pooled::make_unique<int[4]>());
#endif
}
