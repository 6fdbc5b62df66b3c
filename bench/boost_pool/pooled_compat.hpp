// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_compat`: the classes of the same names in compat/boost_pool.hpp.
#pragma once

#include <pooled/compat/boost_pool.hpp>

namespace bench::boost_pool {

struct pooled_compat_contender {
    using pool = pooled::compat::pool<>;
    template <class T>
    using object_pool = pooled::compat::object_pool<T>;
    template <class Tag, unsigned Bytes>
    using singleton_pool = pooled::compat::singleton_pool<Tag, Bytes>;
    template <class Tag, unsigned Bytes>
    using null_mutex =
        pooled::compat::singleton_pool<Tag, Bytes, pooled::compat::default_user_allocator_new_delete,
                                       pooled::compat::details::pool::null_mutex>;
    template <class T>
    using pool_allocator = pooled::compat::pool_allocator<T>;
    template <class T>
    using fast_pool_allocator = pooled::compat::fast_pool_allocator<T>;
};

}  // namespace bench::boost_pool
