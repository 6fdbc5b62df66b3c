// SPDX-License-Identifier: BSL-1.0
#pragma once

// Boost.Pool's public names in namespace pooled::compat, for programs written for it: change one include and one namespace.
// Boost itself is not needed.
//
//   std::list<int, pooled::compat::fast_pool_allocator<int>> numbers;
//   pooled::compat::object_pool<Order> orders;
//   using Buffers = pooled::compat::singleton_pool<struct BufferTag, 4096>;
//
//   header                            what it has                                                threads
//   boost_pool/user_allocator.hpp     default_user_allocator_new_delete, …_malloc_free           any
//   boost_pool/pool.hpp               pool                                                       one at a time
//   boost_pool/object_pool.hpp        object_pool                                                one at a time
//   boost_pool/singleton_pool.hpp     singleton_pool, details::pool::null_mutex, default_mutex   any
//   boost_pool/pool_alloc.hpp         pool_allocator, fast_pool_allocator, their tags            any
//   boost_pool/simple_segregated_storage.hpp                                                     one at a time
//
// Nothing here is [[nodiscard]]: programs written for Boost must compile as they are. docs/migration.md lists the differences.
// The interface is that of Boost.Pool, by Stephen Cleary and its later maintainers.

#include "pooled/compat/boost_pool/object_pool.hpp"
#include "pooled/compat/boost_pool/pool.hpp"
#include "pooled/compat/boost_pool/pool_alloc.hpp"
#include "pooled/compat/boost_pool/simple_segregated_storage.hpp"
#include "pooled/compat/boost_pool/singleton_pool.hpp"
#include "pooled/compat/boost_pool/user_allocator.hpp"
