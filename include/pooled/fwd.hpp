// SPDX-License-Identifier: BSL-1.0
#pragma once

// Forward declarations of every public name.

#include "pooled/config.hpp"

#include <memory>

POOLED_BEGIN_BUILD_NAMESPACE
class exhausted;
POOLED_END_NAMESPACE

POOLED_BEGIN_NAMESPACE

struct pool_options;
struct pool_stats;
struct size_class_stats;
enum class teardown : unsigned char;

class POOLED_ABI_TAG pool;
class POOLED_ABI_TAG local_pool;

template <class T>
class POOLED_ABI_TAG allocator;
template <class T, class Pool = pool>
class POOLED_ABI_TAG pool_allocator;

template <class T>
struct POOLED_ABI_TAG deleter;
template <class T>
using unique_ptr = std::unique_ptr<T, deleter<T>>;

template <class T>
class POOLED_ABI_TAG rc_ptr;
template <class T>
class POOLED_ABI_TAG weak_rc_ptr;
template <class T>
class POOLED_ABI_TAG local_rc_ptr;
template <class T>
class POOLED_ABI_TAG weak_local_rc_ptr;

namespace detail {
// How a counted pointer counts, which selects its public class.
struct among_threads;
struct on_one_thread;
template <class T, class Counting>
using rc_ptr_of = std::conditional_t<std::is_same_v<Counting, among_threads>, rc_ptr<T>, local_rc_ptr<T>>;
}  // namespace detail

template <class T>
class POOLED_ABI_TAG enable_rc_from_this;
template <class T, class Element>
class POOLED_ABI_TAG with_tail;

class POOLED_ABI_TAG reclaim_scope;
class POOLED_ABI_TAG pending;

struct object_pool_options;
struct object_pool_stats;
template <class T>
struct default_lifecycle;
struct clear_on_release;
struct reset_on_release;
template <class T, class... Args>
struct function_lifecycle;
template <class T, class Lifecycle = default_lifecycle<T>>
class POOLED_ABI_TAG object_pool;
template <class T, class Lifecycle = default_lifecycle<T>>
class POOLED_ABI_TAG local_object_pool;

POOLED_END_NAMESPACE
