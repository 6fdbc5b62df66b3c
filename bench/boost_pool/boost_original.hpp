// SPDX-License-Identifier: BSL-1.0
// Contender `boost_original`: Boost.Pool's own classes.
#pragma once

#include <boost/pool/object_pool.hpp>
#include <boost/pool/pool.hpp>
#include <boost/pool/pool_alloc.hpp>
#include <boost/pool/singleton_pool.hpp>

namespace bench::boost_pool {

struct boost_original_contender {
    using pool = boost::pool<>;
    template <class T>
    using object_pool = boost::object_pool<T>;
    template <class Tag, unsigned Bytes>
    using singleton_pool = boost::singleton_pool<Tag, Bytes>;
    template <class Tag, unsigned Bytes>
    using null_mutex = boost::singleton_pool<Tag, Bytes, boost::default_user_allocator_new_delete,
                                             boost::details::pool::null_mutex>;
    template <class T>
    using pool_allocator = boost::pool_allocator<T>;
    template <class T>
    using fast_pool_allocator = boost::fast_pool_allocator<T>;
};

}  // namespace bench::boost_pool
