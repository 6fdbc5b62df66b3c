// SPDX-License-Identifier: BSL-1.0
// The standard patterns on a type of the user's own. `poolbench try` writes own_settings.hpp, which includes the user's
// header and defines the type and the constructor's arguments:
//
//   using poolbench_own_type = my::Packet;
//   #define POOLBENCH_OWN_ARGUMENTS 1500
#pragma once

#include "own_settings.hpp"
#include "support/patterns.hpp"

namespace bench::own_type {

struct shape {
    using value = ::poolbench_own_type;
    static value make_value() { return value(POOLBENCH_OWN_ARGUMENTS); }

    template <class C>
    using slot = typename C::template pointer<value>;
    template <class C>
    static slot<C> make(C& from, std::uint64_t) {
        return from.template make<value>(POOLBENCH_OWN_ARGUMENTS);
    }
    template <class Slot>
    static void touch(const Slot& one) {
        patterns::touch_object(std::to_address(one));
    }
};

template <contender C>
measurement run(const parameters& p) {
    start_and_join_one_thread();
    if (p.variant == "create_drop") return patterns::in_threads<patterns::create_drop, shape, C>(p);
    if (p.variant == "burst") return patterns::in_threads<patterns::burst, shape, C>(p);
    if (p.variant == "replace") return patterns::in_threads<patterns::replace, shape, C>(p);
    if (p.variant == "list") return patterns::in_threads<patterns::list, shape, C>(p);
    return patterns::hand_off<shape, C>(p);
}

}  // namespace bench::own_type
