// SPDX-License-Identifier: BSL-1.0
// Contender `tbb_scalable`: allocate_shared on oneTBB's scalable_allocator.
#pragma once

#include "contender/contender.hpp"

#include <tbb/scalable_allocator.h>

namespace bench {

template <class T>
using tbb_scalable_allocator = tbb::scalable_allocator<T>;

struct tbb_scalable_contender : allocate_shared_contender<tbb_scalable_allocator> {};

}  // namespace bench
