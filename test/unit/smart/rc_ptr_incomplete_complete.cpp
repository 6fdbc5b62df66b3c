// SPDX-License-Identifier: BSL-1.0
// The other half of rc_ptr_incomplete.cpp: here the class is complete.

#include "pooled/pooled.hpp"

#include "unit/smart/rc_ptr_incomplete.hpp"

#include <utility>

namespace test_incomplete {

namespace {
int g_alive = 0;
}

struct padding {
    long words[3] = {};
};
struct hidden_base {
    int value = 0;
};
struct hidden : padding, hidden_base {
    explicit hidden(int v) {
        value = v;
        ++g_alive;
    }
    hidden(hidden const&) = delete;
    hidden& operator=(hidden const&) = delete;
    ~hidden() { --g_alive; }
    pooled::rc_ptr<hidden> next;
};

int alive() noexcept { return g_alive; }
int value_of(pooled::rc_ptr<hidden> by_value) { return by_value->value; }
pooled::rc_ptr<hidden> make(int value) { return pooled::make_rc<hidden>(value); }
pooled::local_rc_ptr<hidden> make_local(int value) { return pooled::make_local_rc<hidden>(value); }
pooled::rc_ptr<hidden_base> to_base(pooled::rc_ptr<hidden> const& p) { return p; }
pooled::rc_ptr<hidden> from_base(pooled::rc_ptr<hidden_base> p) {
    return static_pointer_cast<hidden>(std::move(p));
}

}  // namespace test_incomplete
