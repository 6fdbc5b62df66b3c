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
#include "support/resident_memory.hpp"

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
    resident_vector<typename C::template pointer<leaf_owner<C>>> children;
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
    resident_vector<typename C::template pointer<link<C>>> nodes(n);
    for (auto& node : nodes)
        node = from.template make<link<C>>();
    for (std::size_t i = n - 1; i != 0; --i)
        std::swap(nodes[i], nodes[random.below(static_cast<std::uint32_t>(i + 1))]);
    for (std::size_t i = 1; i < n; ++i)
        nodes[i]->next = std::move(nodes[i - 1]);
    return std::move(nodes.back());
}

// The tree that inserting the keys one by one gives, with its nodes made in that order: the Cartesian tree of (key, time of
// insertion). Two million descents would take ten times as long as the drop that is timed.
template <class C>
auto make_tree(C& from, std::size_t n, random_source& random) {
    resident_vector<typename C::template pointer<branch<C>>> nodes(n);
    resident_vector<std::pair<std::uint64_t, std::size_t>> by_key(n);
    for (std::size_t i = 0; i < n; ++i) {
        by_key[i] = {random.next(), i};
        nodes[i] = from.template make<branch<C>>(by_key[i].first);
    }
    std::sort(by_key.begin(), by_key.end());
    std::vector<std::size_t> path;  // from the root to the right; each node's right child is the next
    const auto take_later_than = [&](std::size_t time) {
        typename C::template pointer<branch<C>> taken{};
        for (; !path.empty() && path.back() > time; path.pop_back()) {
            nodes[path.back()]->right = std::move(taken);
            taken = std::move(nodes[path.back()]);
        }
        return taken;
    };
    for (const auto& [key, time] : by_key) {
        nodes[time]->left = take_later_than(time);
        path.push_back(time);
    }
    nodes[0]->right = take_later_than(0);
    return std::move(nodes[0]);
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
