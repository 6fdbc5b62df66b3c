// SPDX-License-Identifier: BSL-1.0
// E1: 1,000 linked lists for each of five node sizes; lists are dropped whole and replaced by new nodes.
// After L. Barth, "Efficiently allocating lots of std::shared_ptr".
//
// text        an iteration drops list i mod 1,000 of every size and pushes 1,000 nodes of each size, interleaved
// text_moved  the same, but the head is moved into the new node: the old head is not touched
// code        what the published program does: an iteration drops the same, but pushes 1,000 nodes of one size, in turn;
//             five times as many iterations; the lists shrink to about 200 nodes
//
// A push is as published: `node->next = head; head = node`. The copy counts the old head's owners up and down, so it costs
// a miss of the cache where the old head is no longer in it. Pointers that cannot be copied are moved in every variant.
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace bench::e1_list_churn {

inline constexpr std::size_t k_sizes = 5;
inline constexpr std::size_t k_lists = 1000;
inline constexpr std::uint64_t k_nodes_per_push = 1000;
inline constexpr std::uint64_t k_ramp_up_nodes = 1'000'000;  // of each size: lists of mean length 1,000
// The length at which the lists of `code` settle: an iteration drops five lists and adds 1,000 nodes. A full run spends
// 0.4 % of its iterations on the way there from 1,000; a short run would measure nothing else, so it begins there.
inline constexpr std::uint64_t k_code_nodes = 200'000;
inline constexpr std::uint64_t k_text_iterations = 50'000;
inline constexpr std::uint64_t k_code_iterations = 250'000;

template <std::size_t S>
struct node_data {
    std::array<unsigned char, 16 * S> bytes;  // never written: neither did the published program
};
template <>
struct node_data<0> {};

// 16-byte link for every kind of pointer: nodes of 16, 32, 48, 64 and 80 bytes, as published, for raw pointers too.
template <class C, std::size_t S>
struct node {
    node() {}  // user-provided: nobody zeroes the data
    node(const node&) = delete;
    node& operator=(const node&) = delete;

    alignas(16) typename C::template pointer<node> next{};
    [[no_unique_address]] node_data<S> data;
};

enum class push_by { copy, move };

template <class C, push_by By, class Sizes = std::make_index_sequence<k_sizes>>
class lists;

// All lists of one contender, and the two operations of the experiment.
template <class C, push_by By, std::size_t... S>
class lists<C, By, std::index_sequence<S...>> {
public:
    explicit lists(C& from) : m_contender(from) {}
    lists(const lists&) = delete;
    lists& operator=(const lists&) = delete;
    ~lists() {
        for (std::size_t list = 0; list < k_lists; ++list)
            drop_all_sizes(list);
    }

    template <std::size_t Size>
    void push(std::size_t list) {
        static_assert(sizeof(node<C, Size>) == 16 * (Size + 1));
        auto& first = std::get<Size>(m_heads)[list];
        auto fresh = m_contender.template make<node<C, Size>>();
        if constexpr (By == push_by::copy && std::copyable<head<Size>>) {
            fresh->next = first;
            first = fresh;
        } else {
            fresh->next = std::move(first);
            first = std::move(fresh);
        }
    }

    // One node of each size, smallest first; takes k_sizes choices.
    void push_all_sizes(const std::uint16_t* choices) { (push<S>(choices[S]), ...); }

    void drop_all_sizes(std::size_t list) { (drop(std::get<S>(m_heads)[list]), ...); }

    // 1,000 nodes of a size known only at run time.
    void push_one_size(std::size_t size, const std::uint16_t* choices) {
        ((size == S ? push_thousand<S>(choices) : void()), ...);
    }

private:
    template <std::size_t Size>
    using head = typename C::template pointer<node<C, Size>>;

    template <std::size_t Size>
    void push_thousand(const std::uint16_t* choices) {
        for (std::uint64_t i = 0; i < k_nodes_per_push; ++i)
            push<Size>(choices[i]);
    }

    template <class Head>
    void drop(Head& first) {
        if constexpr (C::k_counted) {
            first.reset();  // drops the whole list, recursively
        } else {
            while (first) {
                Head next = first->next;
                m_contender.drop(first);
                first = next;
            }
        }
    }

    C& m_contender;
    std::tuple<std::array<head<S>, k_lists>...> m_heads{};
};

inline std::vector<std::uint16_t> random_lists(std::uint64_t count, random_source& random) {
    std::vector<std::uint16_t> choices(count);
    for (std::uint16_t& list : choices)
        list = static_cast<std::uint16_t>(random.below(k_lists));
    return choices;
}

template <contender C, push_by By>
measurement churn(const parameters& p) {
    const bool text = p.variant != "code";
    const std::uint64_t iterations = scaled(text ? k_text_iterations : k_code_iterations, p.scale);
    const std::uint64_t full_ramp_up = text || p.scale >= 1 ? k_ramp_up_nodes : k_code_nodes;
    const std::uint64_t ramp_up = is_tiny(p.scale) ? scaled(k_ramp_up_nodes, p.scale) : full_ramp_up;
    const std::uint64_t choices_per_iteration = text ? k_sizes * k_nodes_per_push : k_nodes_per_push;

    random_source random;
    const std::vector<std::uint16_t> first = random_lists(ramp_up * k_sizes, random);
    const std::vector<std::uint16_t> later = random_lists(iterations * choices_per_iteration, random);
    start_and_join_one_thread();

    auto from = std::make_unique<C>();
    auto all = std::make_unique<lists<C, By>>(*from);
    for (std::uint64_t i = 0; i < ramp_up; ++i)
        all->push_all_sizes(&first[i * k_sizes]);

    const stopwatch watch;
    const std::uint16_t* choices = later.data();
    for (std::uint64_t i = 0; i < iterations; ++i, choices += choices_per_iteration) {
        {
            [[maybe_unused]] const auto scope = together(*from);
            all->drop_all_sizes(i % k_lists);
        }
        if (text) {
            for (std::uint64_t n = 0; n < k_nodes_per_push; ++n)
                all->push_all_sizes(choices + n * k_sizes);
        } else {
            all->push_one_size(i % k_sizes, choices);
        }
    }
    const double seconds = watch.seconds();

    if (p.last_in_process) {
        // Freeing five million nodes takes as long as a quick measurement and measures nothing.
        (void)all.release();
        (void)from.release();
    }
    return {seconds, iterations * choices_per_iteration, {}};
}

template <contender C>
measurement run(const parameters& p) {
    return p.variant == "text_moved" ? churn<C, push_by::move>(p) : churn<C, push_by::copy>(p);
}

}  // namespace bench::e1_list_churn
