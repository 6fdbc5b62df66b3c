// SPDX-License-Identifier: BSL-1.0
// E11: does an allocator age? A list of --live nodes is built, walked and dropped when the process is fresh, and again
// after five random replacements for each of as many live nodes, all of which are then freed in random order. Every block
// is free again by then; what differs is the order in which the allocator has them.
//
// Fresh walk and drop are those of the process's first list. Its build also pays for the pages that the system hands out,
// which would hide how the allocator ages, and is reported separately (first_build_ns): the fresh build is that of the
// second list.
//
// Nodes are dropped in a loop, whatever the contender: a list's own destructor would recurse.
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench::e11_aging {

inline constexpr std::uint64_t k_replacements_each = 5;  // of each live node
inline constexpr std::uint32_t k_survivor_in = 16;

template <class C>
struct node {
    node() { payload[0] = 1; }

    typename C::template pointer<node> next{};
    unsigned char payload[48];  // but for the first byte never written
};

struct times {
    double build = 0;
    double walk = 0;
    double drop = 0;

    double all() const { return build + walk + drop; }
};

template <class C>
auto build(C& from, std::size_t n) {
    auto head = from.template make<node<C>>();
    for (std::size_t i = 1; i < n; ++i) {
        auto one = from.template make<node<C>>();
        one->next = std::move(head);
        head = std::move(one);
    }
    return head;
}

template <class Head>
std::size_t walk(const Head& head) {
    std::size_t sum = 0;
    for (const auto* at = std::to_address(head); at; at = std::to_address(at->next))
        sum += at->payload[0];
    return sum;
}

template <class C, class Head>
void drop_list(C& from, Head& head) {
    while (head) {
        Head rest = std::move(head->next);
        from.drop(head);
        head = std::move(rest);
    }
}

template <class C>
times time_list(C& from, std::size_t n) {
    times found;
    const stopwatch building;
    auto head = build(from, n);
    keep_alive(std::to_address(head));
    found.build = building.seconds();

    const stopwatch walking;
    const std::size_t sum = walk(head);
    found.walk = walking.seconds();
    if (sum != n) throw std::runtime_error("the list has other contents than were put there");

    const stopwatch dropping;
    drop_list(from, head);
    found.drop = dropping.seconds();
    return found;
}

// The first `survivors` of the nodes, whose order is random by then, are still in use afterwards.
template <class C, class Nodes>
void use_heavily(C& from, Nodes& nodes, std::uint64_t replacements, std::size_t survivors) {
    random_source random;
    const auto live = static_cast<std::uint32_t>(nodes.size());
    for (auto& one : nodes)
        one = from.template make<node<C>>();
    for (std::uint64_t i = 0; i < replacements; ++i) {
        auto& one = nodes[random.below(live)];
        auto fresh = from.template make<node<C>>();
        from.drop(one);
        one = std::move(fresh);
    }
    for (std::uint32_t left = live; left > 1; --left)
        std::swap(nodes[left - 1], nodes[random.below(left)]);
    for (std::size_t i = survivors; i < nodes.size(); ++i)
        from.drop(nodes[i]);
    // glibc sorts its small free blocks when it is asked for more than 1 KiB, as every program does now and then; the time
    // that this takes is not counted against it.
    auto larger = std::make_unique<unsigned char[]>(4096);
    keep_alive(larger.get());
}

template <contender C>
measurement run(const parameters& p) {
    const std::size_t n = is_tiny(p.scale) ? std::min<std::size_t>(p.live, 1000) : p.live;
    start_and_join_one_thread();
    auto from = std::make_unique<C>();
    // Before anything is timed: the memory of what follows must not depend on where this lies.
    std::vector<typename C::template pointer<node<C>>> nodes(n);

    times fresh = time_list(*from, n);
    const double first_build = std::exchange(fresh.build, time_list(*from, n).build);
    const std::size_t survivors = p.variant == "survivors" ? n / k_survivor_in : 0;
    use_heavily(*from, nodes, scaled(k_replacements_each * n, p.scale), survivors);
    const times aged = time_list(*from, n);
    for (std::size_t i = 0; i < survivors; ++i)
        from->drop(nodes[i]);

    measurement found{aged.all(), n, {{"aged_over_fresh", aged.all() / fresh.all()}}};
    const auto tell = [&](const std::string& name, double seconds_fresh, double seconds_aged) {
        const double ns_each = 1e9 / static_cast<double>(n);
        found.extra.emplace_back("fresh_" + name + "_ns", seconds_fresh * ns_each);
        found.extra.emplace_back("aged_" + name + "_ns", seconds_aged * ns_each);
        found.extra.emplace_back(name + "_aged_over_fresh", seconds_aged / seconds_fresh);
    };
    tell("build", fresh.build, aged.build);
    tell("walk", fresh.walk, aged.walk);
    tell("drop", fresh.drop, aged.drop);
    found.extra.emplace_back("first_build_ns", first_build * 1e9 / static_cast<double>(n));
    return found;
}

}  // namespace bench::e11_aging
