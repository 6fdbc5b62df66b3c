// SPDX-License-Identifier: BSL-1.0
#pragma once

// Names of types as a user writes them: without default arguments of templates, inline namespaces, const and the spellings in which demanglers and
// compilers' debug information differ. Two names of one type become equal.

#include <string>
#include <string_view>

namespace poolheap {

[[nodiscard]] std::string pretty(std::string name);

// The argument of a template whose name begins with `prefix` (with the '<'), counted from 0; empty: there is none. "A<" of "A<B<C, D>, E>"
// has "B<C, D>" and "E".
[[nodiscard]] std::string_view template_argument(std::string_view name, std::string_view prefix,
                                                 unsigned index = 0);

}  // namespace poolheap
