// SPDX-License-Identifier: BSL-1.0
// Contender `boost_fast_pool_unlocked`: boost::fast_pool_allocator without its mutex; one thread only.
#pragma once

#include "contender/contender.hpp"

#include <boost/pool/pool_alloc.hpp>

namespace bench {

template <class T>
using boost_fast_pool_unlocked_allocator =
    boost::fast_pool_allocator<T, boost::default_user_allocator_new_delete, boost::details::pool::null_mutex>;

struct boost_fast_pool_unlocked_contender : allocate_shared_contender<boost_fast_pool_unlocked_allocator> {
    static constexpr bool k_thread_safe = false;
};

}  // namespace bench
