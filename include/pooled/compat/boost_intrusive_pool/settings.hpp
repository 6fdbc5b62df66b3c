// SPDX-License-Identifier: BSL-1.0
#pragma once

// The names of memorypool that a user may set or read. Set them before the first include, and the same way in every
// translation unit of a program.

#ifndef BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE
#define BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE 64  // items made up front
#endif

#ifndef BOOST_INTRUSIVE_POOL_INCREASE_STEP
#define BOOST_INTRUSIVE_POOL_INCREASE_STEP 64  // items made when the last free one is taken
#endif

#ifndef BOOST_INTRUSIVE_POOL_NO_MAX_SIZE
#define BOOST_INTRUSIVE_POOL_NO_MAX_SIZE 0  // no limit to how many items there are
#endif

// 1: every copy and drop of a handle looks whether the item's count makes sense.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_CHECKS
#ifdef NDEBUG
#define BOOST_INTRUSIVE_POOL_DEBUG_CHECKS 0
#else
#define BOOST_INTRUSIVE_POOL_DEBUG_CHECKS 1
#endif
#endif

// 1: a pool reports the second thread that takes an item from it or drops the last handle of one. It may be used by any
// number of threads; this is for programs that mean not to.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS
#define BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS 0
#endif

// More handles of one item than this are taken for a sign of damage.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT
#define BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT 1000000
#endif

namespace memorypool {

// What is called on an item whose last handle is gone, before it is free again.
enum recycle_method_e {
    RECYCLE_METHOD_NONE,              // nothing
    RECYCLE_METHOD_DESTROY_FUNCTION,  // the item's virtual destroy()
    RECYCLE_METHOD_CUSTOM_FUNCTION,   // the function that was given to the pool
};

}  // namespace memorypool
