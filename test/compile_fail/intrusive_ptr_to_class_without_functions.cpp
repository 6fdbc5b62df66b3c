// expect: derive it from pooled::enable_intrusive_ptr
// SPDX-License-Identifier: BSL-1.0
// boost::intrusive_ptr finds its functions by the class; those of pooled are found only if the class enables them.
#include "pooled/compat/boost_intrusive_ptr.hpp"

struct Session
#ifdef POOLED_CONTROL
    : pooled::enable_intrusive_ptr
#endif
{
};

int main() { auto p = pooled::make_intrusive<Session>(); }
