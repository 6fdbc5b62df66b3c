// SPDX-License-Identifier: BSL-1.0
#pragma once

// What poolheap throws: the message is a sentence for the user, which says what is wrong and, where possible, what to do.

#include <stdexcept>

namespace poolheap {

class error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

}  // namespace poolheap
