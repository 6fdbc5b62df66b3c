// expect: a public one
// SPDX-License-Identifier: BSL-1.0
// As with std::enable_shared_from_this, a private base is not found; here it is refused instead of silently ignored.
#include "pooled/pooled.hpp"

class hidden :
#ifdef POOLED_CONTROL
    public
#else
    private
#endif
    pooled::enable_rc_from_this<hidden> {
};

int main() { static_cast<void>(pooled::make_rc<hidden>()); }
