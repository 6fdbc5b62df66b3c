// SPDX-License-Identifier: BSL-1.0
#pragma once

// A class that rc_ptr_incomplete.cpp never sees complete; rc_ptr_incomplete_complete.cpp defines it.

#include "pooled/fwd.hpp"
#include "pooled/rc_ptr.hpp"

namespace test_incomplete {

struct hidden;
struct hidden_base;

[[nodiscard]] int alive() noexcept;
[[nodiscard]] int value_of(pooled::rc_ptr<hidden> by_value);
[[nodiscard]] pooled::rc_ptr<hidden> make(int value);
[[nodiscard]] pooled::local_rc_ptr<hidden> make_local(int value);
[[nodiscard]] pooled::rc_ptr<hidden_base> to_base(pooled::rc_ptr<hidden> const& p);
[[nodiscard]] pooled::rc_ptr<hidden> from_base(pooled::rc_ptr<hidden_base> p);

}  // namespace test_incomplete
