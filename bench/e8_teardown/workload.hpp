// SPDX-License-Identifier: BSL-1.0
// E8: the drop of the one pointer that keeps a whole structure alive.
//
// list            n nodes, each owns the next; neighbours in the list are neighbours in memory
// list_scattered  the same, linked in random order
// tree            a random binary search tree of n keys
// wide            one node owns n others through a vector, each of those one more
//
// Building is not timed. A contender that defers destruction is timed until all is destroyed; the time until the drop
// returns is reported, too. The stack is deep enough for those that recurse.
#pragma once

#include "contender/contender.hpp"
#include "support/deep_stack.hpp"
#include "support/measure.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace bench::e8_teardown {

inline constexpr std::uint64_t k_nodes = 10'000'000;  // in all, over the rounds

template <class C>
struct link {
    typename C::template pointer<link> next{};
    std::uint64_t payload[2];  // never written
};

template <class C>
struct branch {
    explicit branch(std::uint64_t k) : key(k) {}
    typename C::template pointer<branch> left{};
    typename C::template pointer<branch> right{};
    std::uint64_t key;
};

template <class C>
struct leaf_owner {
    typename C::template pointer<link<C>> leaf{};
};
template <class C>
struct hub {
    std::vector<typename C::template pointer<leaf_owner<C>>> children;
};

template <class C>
auto make_list(C& from, std::size_t n) {
    auto first = from.template make<link<C>>();
    for (std::size_t i = 1; i < n; ++i) {
        auto node = from.template make<link<C>>();
        node->next = std::move(first);
        first = std::move(node);
    }
    return first;
}

template <class C>
auto make_scattered_list(C& from, std::size_t n, random_source& random) {
    std::vector<typename C::template pointer<link<C>>> nodes(n);
    for (auto& node : nodes)
        node = from.template make<link<C>>();
    for (std::size_t i = n - 1; i != 0; --i)
        std::swap(nodes[i], nodes[random.below(static_cast<std::uint32_t>(i + 1))]);
    for (std::size_t i = 1; i < n; ++i)
        nodes[i]->next = std::move(nodes[i - 1]);
    return std::move(nodes.back());
}

template <class C>
auto make_tree(C& from, std::size_t n, random_source& random) {
    auto root = from.template make<branch<C>>(random.next());
    for (std::size_t i = 1; i < n; ++i) {
        const std::uint64_t key = random.next();
        auto* place = &root;
        while (*place)
            place = key < (*place)->key ? &(*place)->left : &(*place)->right;
        *place = from.template make<branch<C>>(key);
    }
    return root;
}

template <class C>
auto make_wide(C& from, std::size_t n) {
    auto root = from.template make<hub<C>>();
    root->children.reserve(n / 2);
    for (std::size_t i = 0; i < n / 2; ++i) {
        auto child = from.template make<leaf_owner<C>>();
        child->leaf = from.template make<link<C>>();
        root->children.push_back(std::move(child));
    }
    return root;
}

template <contender C, class Make>
measurement drop_rounds(C& from, std::size_t live, std::uint64_t nodes, Make&& make) {
    const std::uint64_t rounds = std::max<std::uint64_t>(nodes / live, 1);
    double seconds = 0;
    double returned = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        auto root = make();
        const stopwatch watch;
        {
            [[maybe_unused]] const auto scope = together(from);
            from.drop(root);
        }
        returned += watch.seconds();
        if constexpr (requires { from.drain(); }) from.drain();
        seconds += watch.seconds();
    }
    return {seconds, rounds * live, {{"drop_returned_us", returned * 1e6 / static_cast<double>(rounds)}}};
}

template <contender C>
measurement run(const parameters& p) {
    measurement result;
    start_and_join_one_thread();
    on_deep_stack([&] {
        random_source random;
        C from;
        const std::size_t n =
            std::max<std::size_t>(is_tiny(p.scale) ? std::min<std::size_t>(p.live, 1000) : p.live, 2);
        const std::uint64_t nodes = scaled(k_nodes, p.scale);
        if (p.variant == "list")
            result = drop_rounds(from, n, nodes, [&] { return make_list(from, n); });
        else if (p.variant == "list_scattered")
            result = drop_rounds(from, n, nodes, [&] { return make_scattered_list(from, n, random); });
        else if (p.variant == "tree")
            result = drop_rounds(from, n, nodes, [&] { return make_tree(from, n, random); });
        else
            result = drop_rounds(from, n, nodes, [&] { return make_wide(from, n); });
    });
    return result;
}

}  // namespace bench::e8_teardown
