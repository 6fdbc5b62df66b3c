// SPDX-License-Identifier: BSL-1.0
// Where the job has its own pointers from: a program edits them with the library's.
#pragma once

#include <memory>

namespace bench {

using std::make_shared;
using std::shared_ptr;

// How the library's interfaces take one.
template <class T>
using passed = shared_ptr<T>;

}  // namespace bench
