// SPDX-License-Identifier: BSL-1.0
#pragma once

// Every public name of the library, declared.

#include <cstddef>
#include <memory>

namespace pooled {

struct pool_options;
struct pool_stats;
struct size_class_stats;
class exhausted;
enum class teardown : unsigned char;

class pool;
class local_pool;

template <class T>
class allocator;
template <class T, class Pool = pool>
class pool_allocator;

template <class T>
struct deleter;
template <class T>
using unique_ptr = std::unique_ptr<T, deleter<T>>;

}  // namespace pooled
