// SPDX-License-Identifier: BSL-1.0
// A user's own shape: objects of exactly POOLED_BENCH_SHAPE_BYTES bytes, for which this is compiled; several sizes, with
// commas between, take turns. What is done with them is in support/patterns.hpp.
#pragma once

#include "contender/contender.hpp"
#include "support/patterns.hpp"
#include "support/payload.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace bench::shape {

// One size: the pointer itself. Several: a variant of theirs, the same for every contender.
template <std::size_t... Bytes>
struct packets {
    static constexpr std::size_t k_kinds = sizeof...(Bytes);
    static constexpr std::array<std::size_t, k_kinds> k_bytes{Bytes...};

    using value = packet<k_bytes[0]>;
    static value make_value() { return value(); }

    template <class C>
    using slot = std::conditional_t<k_kinds == 1, typename C::template pointer<value>,
                                    std::variant<typename C::template pointer<packet<Bytes>>...>>;

    template <class C>
    static slot<C> make(C& from, std::uint64_t number) {
        if constexpr (k_kinds == 1) {
            return from.template make<value>();
        } else {
            return make_one(from, number % k_kinds, std::make_index_sequence<k_kinds>());
        }
    }

    template <class Slot>
    static void touch(const Slot& one) {
        if constexpr (k_kinds == 1) {
            patterns::touch_object(std::to_address(one));
        } else {
            std::visit([](const auto& p) { patterns::touch_object(std::to_address(p)); }, one);
        }
    }

    template <class C>
    static void reserve(C& from, std::size_t count)
        requires requires { from.template reserve<value>(count); }
    {
        (from.template reserve<packet<Bytes>>(count / k_kinds + 1), ...);
    }

private:
    template <class C, std::size_t... Kind>
    static slot<C> make_one(C& from, std::uint64_t kind, std::index_sequence<Kind...>) {
        slot<C> made;
        ((kind == Kind ? void(made.template emplace<Kind>(from.template make<packet<k_bytes[Kind]>>()))
                       : void()),
         ...);
        return made;
    }
};

using objects = packets<POOLED_BENCH_SHAPE_BYTES>;

inline constexpr std::array<std::string_view, 6> k_patterns{"burst",   "churn", "mixed",
                                                            "handoff", "list",  "fill"};

// One pattern alone takes a third of the time to compile.
constexpr bool is_built(std::string_view pattern) {
#if defined(POOLED_BENCH_SHAPE_PATTERN)
    return pattern == POOLED_BENCH_SHAPE_PATTERN;
#else
    return !pattern.empty();
#endif
}

// A contender that is about some patterns says which; a hand-off needs one that any thread may free to.
template <class C>
constexpr bool takes(std::string_view pattern) {
    if constexpr (requires { C::takes(pattern); }) {
        if (!C::takes(pattern)) return false;
    }
    return is_built(pattern) && (C::k_thread_safe || pattern != "handoff");
}

template <class C>
std::vector<std::string_view> variants() {
    std::vector<std::string_view> found;
    for (const std::string_view pattern : k_patterns) {
        if (takes<C>(pattern)) found.push_back(pattern);
    }
    return found;
}

template <class C>
std::string_view why_not() {
    return variants<C>().empty() ? "it is not about the pattern that was asked for" : "";
}

template <contender C>
measurement run(const parameters& p) {
    start_and_join_one_thread();
    const auto wants = [&](std::string_view pattern) { return p.variant == pattern; };
    if constexpr (takes<C>("burst"))
        if (wants("burst")) return patterns::in_threads<patterns::burst, objects, C>(p);
    if constexpr (takes<C>("churn"))
        if (wants("churn")) return patterns::in_threads<patterns::replace, objects, C>(p);
    if constexpr (takes<C>("mixed"))
        if (wants("mixed")) return patterns::in_threads<patterns::mixed, objects, C>(p);
    if constexpr (takes<C>("handoff"))
        if (wants("handoff")) return patterns::hand_off<objects, C>(p);
    if constexpr (takes<C>("list"))
        if (wants("list")) return patterns::in_threads<patterns::list, objects, C>(p);
    if constexpr (takes<C>("fill"))
        if (wants("fill")) return patterns::in_threads<patterns::fill, objects, C>(p);
    throw std::invalid_argument("this contender has no part in the pattern " + p.variant);
}

}  // namespace bench::shape
