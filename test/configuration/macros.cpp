// SPDX-License-Identifier: BSL-1.0
// Headers of systems and of other libraries define such macros before the library is included.
#define U 1
#define near
#define far
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) < (b) ? (b) : (a))
#define major(device) (device)
#define minor(device) (device)

#include <pooled/compat/boost_pool.hpp>
#include <pooled/compat/pmr.hpp>
#include <pooled/compat/recycle.hpp>
#include <pooled/pooled.hpp>
