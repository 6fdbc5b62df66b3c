// SPDX-License-Identifier: BSL-1.0
#pragma once

// Local variables of the functions that a thread is in, as far as debug information says where on the stack they are. libdwfl unwinds.

#include "symbols.hpp"

namespace poolheap {

struct local : symbol {  // "run(): parsed"
    Dwarf_Die variable{};
};

// O(frames × compilation units).
[[nodiscard]] std::vector<local> find_locals(symbols const& names, image const& from, thread const& of);

}  // namespace poolheap
