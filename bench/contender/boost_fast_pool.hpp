// SPDX-License-Identifier: BSL-1.0
// Contender `boost_fast_pool`: allocate_shared on boost::fast_pool_allocator, with its default mutex.
#pragma once

#include "contender/contender.hpp"

#include <boost/pool/pool_alloc.hpp>

namespace bench {

template <class T>
using boost_fast_pool_allocator = boost::fast_pool_allocator<T>;

struct boost_fast_pool_contender : allocate_shared_contender<boost_fast_pool_allocator> {};

}  // namespace bench
