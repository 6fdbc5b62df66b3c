// SPDX-License-Identifier: BSL-1.0
// The interface of a pattern of one's own, which `poolbench try --pattern FILE` measures. `poolbench try --new-pattern FILE`
// writes a file to begin with. The file defines, in the global namespace,
//
//   template <poolbench::shared_source Source>      // or poolbench::source, when no pointer is copied
//   class pattern {
//   public:
//       static constexpr const char* k_operation = "one request";   // what run(1) does
//       explicit pattern(Source& source);                           // set-up, not timed
//       void run(std::uint64_t operations);                         // once untimed with a tenth, then timed
//   };
//
//   source.template make<T>(arguments...)           creates a T; returns Source::template pointer<T>
//   typename Source::template pointer<T>            a smart pointer: std::shared_ptr, pooled::rc_ptr, std::unique_ptr, ...
//
// The source outlives the pattern. run() is called on one thread, and may start and join threads of its own: any of them may
// create and drop. The destructor of the pattern is not timed.
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"

#include <concepts>

namespace poolbench {

// Creates owning pointers, which can be moved; only some sources' pointers can be copied.
template <class S>
concept source = bench::contender<S> && S::k_thread_safe;

// Creates pointers that can be copied.
template <class S>
concept shared_source = source<S> && std::copyable<typename S::template pointer<int>>;

// For the compiler, the object is read here, so it cannot omit its construction.
using bench::keep_alive;

}  // namespace poolbench
