// SPDX-License-Identifier: BSL-1.0
// The analysis on heaps made by hand: references, roots, names of buffers, lost groups, retained bytes.
#include "fake_heap.hpp"
#include "report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

namespace poolheap::test {
namespace {

std::vector<block_index> sorted_targets(graph const& g, block_index b) {
    std::vector<block_index> all;
    for (auto const [to, word] : g.edges(b))
        all.push_back(to);
    std::sort(all.begin(), all.end());
    return all;
}

TEST(BlockNumbers, StayAsTheyAreWhenAGreaterOneNeedsMoreBits) {
    auto const number = [](block_index b) { return b % 33 == 32 ? b * 4'000'000U : b; };
    block_numbers all(1000);
    for (block_index b = 0; b < 1000; ++b)
        all.set(b, number(b));
    for (block_index b = 0; b < 1000; ++b)
        ASSERT_EQ(all[b], number(b));
}

TEST(Graph, AnEdgeIsThereOnceHoweverManyWordsLeadToABlock) {
    fake_heap h;
    address const a = h.add("A", kind::shared), b = h.add("B", kind::shared);
    h.own(a, 16, b);
    h.own(a, 32, b);
    graph const g = h.build();
    EXPECT_EQ(sorted_targets(g, h.index_of(a)), std::vector{h.index_of(b)});
    EXPECT_FALSE(g.has_edges(h.index_of(b)));
}

TEST(Graph, AListThroughTheFirstAndLastWordsOfNeighboursIsReachable) {
    fake_heap h;
    constexpr std::uint32_t k_count = 10'000, k_bytes = fake_heap::k_bytes;
    address const first = h.add_row("node", kind::virtual_object, k_count);
    for (std::uint32_t i = 0; i + 1 < k_count; ++i)
        h.refer(first + i * k_bytes, i % 2 == 0 ? 0 : k_bytes - 8, first + (i + 1) * k_bytes);
    h.refer_from_global("g_list", 0, first);
    h.m_heap.blocks[k_count / 2 + 1] = false;  // free: what it leads to is lost
    graph const g = h.build();
    for (std::uint32_t i = 0; i < k_count; ++i)
        ASSERT_EQ(g.is_reachable(i), i <= k_count / 2) << i;
}

TEST(Graph, ABlockOfAThousandReferencesHasAllItsEdges) {
    fake_heap h;
    address const table = h.add("Table", kind::virtual_object, in_use, 8 * 1000);
    std::vector<block_index> expected;
    for (std::uint32_t i = 0; i < 1000; ++i) {
        address const each = h.add("Each", kind::shared);
        h.refer(table, 8 * i, each);
    }
    address const last = h.add("Last", kind::shared);
    h.own(last, 16, table);
    graph const g = h.build();
    EXPECT_EQ(sorted_targets(g, h.index_of(table)).size(), 1000u);
    EXPECT_EQ(sorted_targets(g, h.index_of(last)), std::vector{h.index_of(table)});
}

TEST(Graph, AReferenceIntoTheMiddleOfABlockReachesIt) {
    fake_heap h;
    address const a = h.add("A", kind::shared), b = h.add("B", kind::shared);
    h.refer_from_global("g_a", 0, a + 40);
    graph const g = h.build();
    EXPECT_TRUE(g.is_reachable(h.index_of(a)));
    EXPECT_FALSE(g.is_reachable(h.index_of(b)));
    ASSERT_EQ(g.root_references().size(), 1u);
    EXPECT_EQ(g.roots()[0].name, "global g_a");
}

TEST(Graph, TheEndOfAVectorIsNoReferenceToTheNextBlock) {
    fake_heap h;
    address const holder = h.add("Holder", kind::shared), elements = h.add("", kind::buffer);
    address const next = h.add("Next", kind::shared);
    h.refer(holder, 16, elements), h.refer(holder, 24, next), h.refer(holder, 32, next);  // full
    graph const full = h.build();
    EXPECT_EQ(sorted_targets(full, h.index_of(holder)), std::vector{h.index_of(elements)});
    h.refer(holder, 24, elements);  // empty, with room
    graph const empty = h.build();
    EXPECT_EQ(sorted_targets(empty, h.index_of(holder)), std::vector{h.index_of(elements)});
    h.refer(holder, 24, elements + 8);  // with room
    graph const partial = h.build();
    EXPECT_EQ(sorted_targets(partial, h.index_of(holder)), std::vector{h.index_of(elements)});
}

TEST(Graph, PointersToNeighboursAreReferences) {
    fake_heap h;
    address const table = h.add("Table", kind::virtual_object);
    address const a = h.add("A", kind::virtual_object), b = h.add("B", kind::virtual_object);
    h.refer(table, 16, a), h.refer(table, 24, b), h.refer(table, 32, b);
    graph const g = h.build();
    EXPECT_EQ(sorted_targets(g, h.index_of(table)).size(), 2u);
}

TEST(Graph, WordsBelowAStackPointerReachNothing) {
    constexpr address stack = 0x7ffe00000000;
    // Of the first thread, whose thread-local objects are elsewhere, and of another one with a shallow stack.
    for (address const thread_pointer : {address{0}, stack + 8 * 120}) {
        fake_heap h;
        address const stale = h.add("Stale", kind::shared), live = h.add("Live", kind::shared);
        std::vector<std::uint64_t> words(128, 0);
        words[10] = stale, words[100] = live;
        h.add_thread({7, "reader", {}, stack + 8 * 80, thread_pointer}, stack, words);
        graph const g = h.build();
        EXPECT_FALSE(g.is_reachable(h.index_of(stale)));
        EXPECT_TRUE(g.is_reachable(h.index_of(live)));
        EXPECT_EQ(g.roots()[0].name, "stack of thread 7 (reader)");
    }
}

TEST(Graph, WordsBelowAFibreOnMemoryOfMallocAreOtherObjects) {
    constexpr address memory = 0x7f8000000000;
    fake_heap h;
    address const held = h.add("Held", kind::shared), live = h.add("Live", kind::shared);
    std::vector<std::uint64_t> words(128, 0);
    words[10] = held, words[100] = live;
    h.add_thread({7, "", {}, memory + 8 * 80, 0x7ffff0000000}, memory, words, "");
    graph const g = h.build();
    EXPECT_TRUE(g.is_reachable(h.index_of(held)));
    EXPECT_TRUE(g.is_reachable(h.index_of(live)));
}

TEST(Graph, ARegisterIsARoot) {
    fake_heap h;
    address const a = h.add("A", kind::shared);
    h.add_thread({7, "", {1, a + 16}, 0x1000, 0}, 0x7ffe00000000, {0});
    graph const g = h.build();
    EXPECT_TRUE(g.is_reachable(h.index_of(a)));
}

TEST(Graph, AnIdleObjectAndAnUncertainBlockAreNotLost) {
    fake_heap h;
    h.add("Connection", kind::object, idle);
    h.add("Packet", kind::shared, uncertain);
    graph const g = h.build();
    EXPECT_EQ(find_leaks(g).objects, 0u);
}

TEST(Graph, ABufferIsNamedByTheMemberThatHoldsItAndBuffersInItLikewise) {
    fake_heap h;
    address const packet = h.add("Packet", kind::shared);
    address const data = h.add("", kind::buffer), more = h.add("", kind::buffer),
                  globals = h.add("", kind::buffer);
    h.refer(packet, 24, data);
    h.refer(data, 8, more);
    h.refer_from_global("g_table", 0, globals);
    h.name_member("Packet", 24, "data");
    graph const g = h.build();
    EXPECT_EQ(g.type_of(h.index_of(data)).name, "buffer held by Packet::data");
    EXPECT_EQ(g.type_of(h.index_of(more)).name, "buffer held by Packet::data");
    EXPECT_EQ(g.type_of(h.index_of(globals)).name, "buffer held by global g_table");
}

TEST(Graph, WithoutANameABufferIsNamedByTheOffsetInTheObject) {
    for (std::uint32_t const offset : {24, 56}) {
        fake_heap h;
        address const data = h.add("", kind::buffer), packet = h.add("Packet", kind::shared);
        h.refer(packet, offset, data);  // behind it: found by the walk after the scan
        graph const g = h.build();
        EXPECT_EQ(g.type_of(h.index_of(data)).name, "buffer held by Packet+" + std::to_string(offset - 16));
    }
}

TEST(Graph, ABufferInFrontOfItsHolderIsNamedByAnyOfItsWords) {
    // Its own holder names the first buffer after the scan, and the walk from there reads what edges do not say.
    for (std::uint32_t const offset : {8, 56, 2000}) {
        fake_heap h;
        address const more = h.add("", kind::buffer), data = h.add("", kind::buffer, in_use, 4096);
        h.refer(data, offset, more);
        h.refer_from_global("g_table", 0, data);
        graph const g = h.build();
        EXPECT_EQ(g.type_of(h.index_of(more)).name, "buffer held by global g_table") << offset;
    }
}

TEST(Edges, PackedEntriesReadBackAsTheyWere) {
    std::mt19937 random(47);
    constexpr block_index k_blocks = 100'000;
    edge_list edges(k_blocks);
    std::map<block_index, std::vector<std::pair<block_index, unsigned>>> expected;
    for (block_index source = 0; source < k_blocks; source += 1 + random() % 50)
        for (unsigned word = 0; word < random() % 20; ++word) {
            block_index const target = random() % k_blocks;
            edges.add(source, target, 8 * word);
            expected[source].emplace_back(target, std::min(word, edge::k_elsewhere));
        }
    edges.settle();
    for (block_index b = 0; b < k_blocks; ++b) {
        std::vector<std::pair<block_index, unsigned>> found;
        for (auto const [target, word] : edges[b])
            found.emplace_back(target, word);
        ASSERT_EQ(found, expected[b]) << b;
        ASSERT_EQ(edges.has(b), !found.empty()) << b;
        edges.fetch({&b, 1});
    }
}

TEST(Worklist, GivesEachBlockOnceHoweverManyThereAre) {
    constexpr block_index k_blocks = 300'000;
    worklist next;
    std::vector<int> times(k_blocks, 0);
    for (block_index b = k_blocks; b-- > 1;)
        next.push(b);
    for (auto some = next.take(); !some.empty(); some = next.take())
        for (block_index const b : some) {
            ++times[b];
            if (b == 200'000) next.push(0);
        }
    EXPECT_EQ(std::ranges::count(times, 1), k_blocks);
}

TEST(Graph, AShortestPathBeginsAtARoot) {
    fake_heap h;
    address const a = h.add("A", kind::shared), b = h.add("B", kind::shared), c = h.add("C", kind::shared);
    h.refer_from_global("g_a", 8, a);
    h.own(a, 16, b);
    h.own(b, 16, c);
    h.own(a, 32, c);
    graph const g = h.build();
    auto const path = g.path_to(h.index_of(c));
    EXPECT_EQ(path.blocks, (std::vector{h.index_of(a), h.index_of(c)}));
    EXPECT_EQ(path.begin.offset, 8u);
    EXPECT_FALSE(g.path_to(h.index_of(b)).blocks.empty());
}

// ---- lost groups

// A ring of so many objects of one type, each with one owner.
void add_ring(fake_heap& h, std::string const& type, std::size_t length) {
    std::vector<address> all;
    for (std::size_t i = 0; i < length; ++i) {
        all.push_back(h.add(type, kind::shared));
        h.count(all.back(), 1, 0);
    }
    for (std::size_t i = 0; i < length; ++i)
        h.own(all[i], 16, all[(i + 1) % length]);
}

TEST(Leaks, TwoHundredPairsAreOneGroupOfTwoHundredTimes) {
    fake_heap h;
    h.name_member("Session", 16, "conn");
    h.name_member("Connection", 32, "session");
    for (int i = 0; i < 200; ++i) {
        address const s = h.add("Session", kind::shared), c = h.add("Connection", kind::shared);
        h.own(s, 16, c);
        h.own(c, 32, s);
    }
    graph g = h.build();
    leaks const found = find_leaks(g);
    EXPECT_EQ(found.objects, 400u);
    ASSERT_EQ(found.groups.size(), 1u);
    EXPECT_EQ(found.groups[0].times, 200u);
    EXPECT_TRUE(found.groups[0].is_cycle);
    std::ostringstream text;
    print_leaks(text, make_report(g, {}));
    EXPECT_NE(text.str().find("Connection::session → Session::conn → Connection"), std::string::npos)
        << text.str();
}

TEST(Leaks, ARingOfEachLengthIsFoundWhole) {
    for (std::size_t const length : {1, 2, 3, 7, 100}) {
        fake_heap h;
        add_ring(h, "Node", length);
        leaks const found = find_leaks(h.build());
        ASSERT_EQ(found.groups.size(), 1u) << length;
        EXPECT_EQ(found.groups[0].length, length);
        EXPECT_EQ(found.groups[0].objects, length);
    }
}

TEST(Leaks, AReachableRingIsNotReported) {
    fake_heap h;
    add_ring(h, "Node", 3);
    h.refer_from_global("g_ring", 0, fake_heap::k_blocks + 16);
    EXPECT_EQ(find_leaks(h.build()).objects, 0u);
}

TEST(Leaks, WhatARingKeepsBelongsToIts) {
    fake_heap h;
    address const a = h.add("A", kind::shared), b = h.add("B", kind::shared), data = h.add("", kind::buffer);
    h.own(a, 16, b);
    h.own(b, 16, a);
    h.refer(b, 32, data);
    leaks const found = find_leaks(h.build());
    ASSERT_EQ(found.groups.size(), 1u);
    EXPECT_EQ(found.groups[0].objects, 3u);
    EXPECT_EQ(found.groups[0].length, 2u);
}

TEST(Leaks, ALostObjectThatRefersToItselfWeaklyIsNoCycle) {
    fake_heap h;
    address const a = h.add("Session", kind::shared);
    h.own(a, 16, a);  // std::enable_shared_from_this
    h.count(a, 1, 1);
    graph const g = h.build();
    leaks const found = find_leaks(g);
    ASSERT_EQ(found.groups.size(), 1u);
    EXPECT_FALSE(found.groups[0].is_cycle);
    EXPECT_EQ(found.objects, 1u);
}

TEST(Leaks, AnObjectThatOwnsItselfBesideItsWeakReferenceIsACycle) {
    fake_heap h;
    address const a = h.add("Session", kind::shared);
    h.own(a, 16, a);  // weak
    h.own(a, 32, a);  // by a callback
    h.count(a, 1, 1);
    h.name_member("Session", 32, "on_data");
    leaks const found = find_leaks(h.build());
    ASSERT_EQ(found.groups.size(), 1u);
    EXPECT_TRUE(found.groups[0].is_cycle);
    EXPECT_EQ(found.groups[0].cycle[0].member, "on_data");
}

TEST(Leaks, APlainPointerBackMakesNoCycle) {
    fake_heap h;
    address const a = h.add("Parent", kind::shared), b = h.add("Child", kind::shared);
    h.own(a, 16, b);
    h.refer(b, 32, a + 16);  // to the object, not to its counts
    leaks const found = find_leaks(h.build());
    ASSERT_EQ(found.groups.size(), 1u);
    EXPECT_FALSE(found.groups[0].is_cycle);
    EXPECT_EQ(found.groups[0].objects, 2u);
}

TEST(Leaks, CyclesThatBeginElsewhereAreOneGroup) {
    fake_heap h;
    for (int i = 0; i < 10; ++i) {
        address a, b;
        if (i % 2)
            a = h.add("A", kind::shared), b = h.add("B", kind::shared);
        else
            b = h.add("B", kind::shared), a = h.add("A", kind::shared);
        h.own(a, 16, b);
        h.own(b, 16, a);
    }
    EXPECT_EQ(find_leaks(h.build()).groups.size(), 1u);
}

// ---- retained bytes

TEST(Retained, WhatOneHolderKeepsCountsForItAndWhatTwoKeepForNeither) {
    fake_heap h;
    address const a = h.add("A", kind::shared), b = h.add("B", kind::shared);
    address const mine = h.add("Mine", kind::shared), ours = h.add("Ours", kind::shared);
    h.refer_from_global("g", 0, a);
    h.refer_from_global("g", 8, b);
    h.own(a, 16, mine);
    h.own(a, 32, ours);
    h.own(b, 16, ours);
    graph const g = h.build();
    type_tree const tree = find_retained(g, find_leaks(g));
    EXPECT_EQ(tree.by_type.at("A"), 128u);
    EXPECT_EQ(tree.by_type.at("B"), 64u);
    EXPECT_EQ(tree.parts[0].retained, 256u);
}

TEST(Retained, WhatIsLostHasAPartAlsoIfItLeadsNowhere) {
    fake_heap h;
    h.add("Lost", kind::shared);
    h.refer_from_global("g", 0, h.add("A", kind::shared));
    graph const g = h.build();
    type_tree const tree = find_retained(g, find_leaks(g));
    EXPECT_EQ(tree.parts[0].retained, 128u);
    EXPECT_EQ(tree.by_type.at("Lost"), 64u);
    auto const lost = std::ranges::find(tree.parts, "lost: nothing reaches it", &type_tree::part::name);
    ASSERT_NE(lost, tree.parts.end());
    EXPECT_EQ(lost->retained, 64u);
}

TEST(Retained, AListIsOnePartHoweverLong) {
    fake_heap h;
    address before = h.add("Node", kind::shared);
    h.refer_from_global("g_list", 0, before);
    for (int i = 1; i < 1000; ++i) {
        address const next = h.add("Node", kind::shared);
        h.own(before, 16, next);
        h.refer(next, 40, before);
        before = next;
    }
    graph const g = h.build();
    type_tree const tree = find_retained(g, {});
    EXPECT_LE(tree.parts.size(), 4u);
    EXPECT_EQ(tree.by_type.at("Node"), 64'000u);
}

TEST(Retained, ATreeOfOneHolderEachBelongsToItAlsoIfWhatIsLostLeadsIntoIt) {
    fake_heap h;
    address const first = h.add("Node", kind::shared), second = h.add("Node", kind::shared),
                  leaf = h.add("Leaf", kind::shared), other = h.add("Leaf", kind::shared);
    address const lost = h.add("Lost", kind::shared), part = h.add("Part", kind::shared);
    h.refer_from_global("g_list", 0, first);
    h.own(first, 16, second);
    h.own(second, 16, leaf);
    h.own(second, 32, other);
    h.own(lost, 16, part);
    h.own(part, 16, second);
    graph const g = h.build();
    type_tree const tree = find_retained(g, find_leaks(g));
    EXPECT_EQ(tree.by_type.at("Node"), 256u);
    EXPECT_EQ(tree.by_type.at("Leaf"), 128u);
    EXPECT_EQ(tree.by_type.at("Lost"), 128u);
    EXPECT_EQ(tree.parts[0].retained, 384u);
}

// In depth, most blocks are met first on a path through most types, of which they lose one after the other.
TEST(Retained, TypesThatLeadToEachOtherInManyLayersKeepWhatTheDefinitionSays) {
    constexpr std::uint32_t layers = 300, each = 700;
    std::mt19937 random(47);
    fake_heap h;
    std::vector<address> first;
    for (std::uint32_t i = 0; i < layers; ++i)
        first.push_back(h.add_row("T" + std::to_string(i), kind::shared, each));
    auto const at = [&](std::size_t layer, std::size_t i) { return first[layer] + i * fake_heap::k_bytes; };
    h.refer_from_global("g", 0, first[0]);
    for (std::size_t layer = 0; layer < layers; ++layer)
        for (std::size_t i = 0; i < each; ++i) {
            if (layer == 0 && i + 1 < each) h.refer(at(0, i), 16, at(0, i + 1));
            if (layer + 1 < layers) h.refer(at(layer, i), 24, at(layer + 1, i));
            for (std::uint32_t const offset : {32U, 40U})
                h.refer(at(layer, i), offset,
                        at(std::min<std::size_t>(layer + random() % 4, layers - 1), random() % each));
        }
    graph const g = h.build();
    type_tree const tree = find_retained(g, find_leaks(g));
    for (std::string const name : {"T0", "T1", "T150", "T299"}) {
        std::vector<bool> without(g.size());
        std::size_t bytes = 0;
        for (block_index b = 0; b < g.size(); ++b)
            without[b] = g.type_of(b).name == name;
        std::vector<bool> const others = g.reached(without);
        for (block_index b = 0; b < g.size(); ++b)
            bytes += without[b] || !others[b] ? g[b].bytes : 0;
        EXPECT_EQ(tree.by_type.at(name), bytes) << name;
    }
}

// The definition: a type or root keeps what nothing reaches without it. The lost blocks, too, are asked for, each of a root of its own.
TEST(Retained, RandomGraphsAreKeptByTheTypesOfTheDefinition) {
    std::mt19937 random(47);
    for (int round = 0; round < 300; ++round) {
        fake_heap h;
        std::size_t const n = 2 + random() % 14, types = 1 + random() % n, globals = 1 + random() % 3;
        std::vector<address> all;
        for (std::size_t i = 0; i < n; ++i)
            all.push_back(h.add("T" + std::to_string(random() % types), kind::shared));
        for (std::size_t i = 0; i < globals; ++i)
            h.refer_from_global("g" + std::to_string(i), 0, all[random() % n]);
        for (std::size_t i = 0; i < n + random() % n; ++i)
            h.refer(all[random() % n], 16 + 8 * static_cast<std::uint32_t>(random() % 6), all[random() % n]);
        graph const g = h.build();
        leaks const lost = find_leaks(g);
        type_tree const tree = find_retained(g, lost);
        // Bytes of what only paths through a block or root that is `out` reach.
        auto const kept_by = [&](auto&& is_out, std::string_view out_root = "") {
            std::size_t bytes = 0;
            std::vector<bool> is_reached(n, false);
            std::vector<block_index> next;
            auto const reach = [&](block_index b) {
                if (!is_out(b) && !is_reached[b]) is_reached[b] = true, next.push_back(b);
            };
            for (root_reference const& r : g.root_references())
                if (g.roots()[r.from].name != out_root) reach(r.target);
            for (block_index const b : lost.heads)
                if (out_root != "lost: nothing reaches it") reach(b);
            while (!next.empty()) {
                block_index const b = next.back();
                next.pop_back();
                for (auto const [to, word] : g.edges(b))
                    if (g.is_reachable(b) || !g.is_reachable(to)) reach(to);
            }
            for (block_index b = 0; b < n; ++b)
                bytes += is_reached[b] ? 0 : g[b].bytes;
            return bytes;
        };
        for (auto const& [name, bytes] : tree.by_type)
            EXPECT_EQ(bytes, kept_by([&](block_index b) { return g.type_of(b).name == name; })) << round;
        // Each block is in one part, and is kept by all that lead there.
        std::map<std::string, std::size_t> of_parts, of_blocks;
        for (auto const& p : tree.parts) {
            of_parts[p.name] += p.bytes;
            if (p.parent == 0 && (p.name[0] == 'g' || p.name[0] == 'l')) {
                EXPECT_EQ(p.retained, kept_by([](block_index) { return false; }, p.name)) << round;
            }
            std::size_t least = p.retained;
            for (std::size_t i = p.parent; tree.parts[i].name[0] == 'T'; i = tree.parts[i].parent)
                least = std::min(least, tree.by_type.at(tree.parts[i].name));
            EXPECT_EQ(least, p.retained) << round;
        }
        for (block_index b = 0; b < n; ++b)
            of_blocks[g.type_of(b).name] += g[b].bytes;
        std::erase_if(of_parts, [](auto const& each) { return each.second == 0; });
        EXPECT_EQ(of_parts, of_blocks) << round;
        EXPECT_EQ(tree.parts[0].retained, n * fake_heap::k_bytes) << round;
    }
}

// ---- holders

TEST(Holders, ABufferBetweenIsPassedAndTheMemberThatHoldsItIsNamed) {
    fake_heap h;
    h.name_member("Queue", 24, "items");
    address const queue = h.add("Queue", kind::shared), items = h.add("", kind::buffer);
    h.refer_from_global("g_queue", 0, queue);
    h.refer(queue, 24, items);
    for (std::uint32_t i = 0; i < 4; ++i)
        h.own(items, 16 * i, h.add("Packet", kind::shared));
    graph g = h.build();
    std::vector<bool> packets(g.size());
    for (block_index b = 0; b < g.size(); ++b)
        packets[b] = g.type_of(b).name == "Packet";
    json const rows = find_holders(g, packets);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0]["type"], "Queue");
    EXPECT_EQ(rows[0]["member"], "items");
    EXPECT_EQ(rows[0]["offset"], 8u);
    EXPECT_EQ(rows[0]["references"], 4u);
}

// ---- reports

report example() {
    fake_heap h;
    for (int i = 0; i < 3; ++i) {
        address const s = h.add("Session<\"é\">", kind::shared), c = h.add("Connection", kind::shared);
        h.own(s, 16, c);
        h.own(c, 32, s);
        h.count(s, 0, 1);
    }
    h.refer_from_global("g", 0, h.add("Table", kind::virtual_object));
    graph g = h.build();
    report r = make_report(g, {true, true, true});
    r.all["program"] = "server";
    r.all["notes"] = {"A note."};
    return r;
}

TEST(Report, JsonHasTheDocumentedKeysAndReadsBackAsItWas) {
    report const r = example();
    std::string const path = testing::TempDir() + "poolheap-report.json";
    {
        std::ofstream file(path);
        write_json(file, r.all);
    }
    auto const all = nlohmann::json::parse(std::ifstream(path));
    for (char const* key : {"type", "kind", "pool", "objects", "bytes", "weak_only"})
        EXPECT_TRUE(all["types"][0].contains(key)) << key;
    for (char const* key : {"objects", "bytes", "groups"})
        EXPECT_TRUE(all["leaks"].contains(key)) << key;
    for (char const* key : {"times", "bytes", "cycle"})
        EXPECT_TRUE(all["leaks"]["groups"][0].contains(key)) << key;
    for (char const* key : {"type", "offset", "member"})
        EXPECT_TRUE(all["leaks"]["groups"][0]["cycle"][0].contains(key)) << key;
    for (char const* key : {"type", "offset", "member", "root", "references"})
        EXPECT_TRUE(all["holders"][0].contains(key)) << key;
    std::ifstream file(path);
    EXPECT_EQ(read_json(file, path), r.all);
}

TEST(Report, AFileThatIsNoReportIsRefusedInASentence) {
    for (
        char const* text :
        {"", "{", "[]", "{}", "{\"poolheap\": 99}", "{\"poolheap\": 1, \"types\": 7}", "{\"poolheap\":1}",
         R"({"poolheap":1,"objects":1,"bytes":1,"types":[]})",
         R"({"poolheap":1,"types":[{"type":"T","objects":"x","bytes":1}],"holders":[]})",
         R"({"poolheap":1,"types":[],"holders":[{"type":"","root":"r","member":"","of":"T","references":1}]})"}) {
        std::istringstream file(text);
        EXPECT_THROW((void)read_json(file, "report.json"), error) << text;
    }
}

TEST(Report, TextFitsEightyColumns) {
    report r = example();
    for (int i = 0; i < 50; ++i)
        r.all["types"].push_back({{"type", std::string(200, 'x')},
                                  {"kind", "shared"},
                                  {"pool", "a pool with a very long name"},
                                  {"objects", 1u << 30},
                                  {"bytes", std::size_t{1} << 50},
                                  {"weak_only", 3},
                                  {"retained", 0}});
    r.all["leaks"]["groups"][0]["cycle"][0]["type"] = std::string(100, 'y');
    r.all["holders"][0]["type"] = std::string(100, 'z');
    std::ostringstream text;
    print_census(text, r);
    print_leaks(text, r);
    print_notes(text, r);
    print_holders(text, r);
    print_growth(text, find_growth(example().all, r.all));
    std::istringstream lines(text.str());
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(columns(line), 80u) << line;
    EXPECT_NE(text.str().find("rows more"), std::string::npos);
}

TEST(Report, ANameOfManyCharactersTakesAFewLines) {
    report r = example();
    std::string name = "list<";
    for (int i = 0; i < 10'000; ++i)
        name += "item, ";
    name += "end>";
    r.all["leaks"]["groups"][0]["cycle"][0]["type"] = name;
    r.all["holders"][0]["type"] = name;
    std::ostringstream text;
    print_leaks(text, r);
    print_holders(text, r);
    EXPECT_LE(text.str().size(), 3'000u);
    EXPECT_NE(text.str().find("end>"), std::string::npos);
}

TEST(Report, DiffNamesFirstWhatGrewMost) {
    report const before = example();
    report after = before;
    auto const grow = [&](json& figure, int by) { figure = figure.get<int>() + by; };
    grow(after.all["types"][1]["objects"], 10);
    grow(after.all["types"][1]["bytes"], 640);
    grow(after.all["types"][0]["bytes"], 64);
    std::ostringstream text;
    print_growth(text, find_growth(before.all, after.all));
    std::string const all = text.str();
    EXPECT_LT(all.find("+640 B"), all.find("+64 B")) << all;
}

TEST(Report, ThePageNeedsNoNetworkAndEscapesNames) {
    std::ostringstream page;
    write_html(page, example());
    EXPECT_EQ(page.str().find("http://"), std::string::npos);
    EXPECT_EQ(page.str().find("https://"), std::string::npos);
    EXPECT_EQ(page.str().find("<script"), std::string::npos);
    EXPECT_NE(page.str().find("Session&lt;&quot;é&quot;&gt;"), std::string::npos);
    EXPECT_NE(page.str().find("<pre>7 objects, 448 B, of 3 types"), std::string::npos) << page.str();
}

TEST(Report, FoldedStacksSumUpToTheHeap) {
    report const r = example();
    std::ostringstream stacks;
    write_folded(stacks, r);
    std::istringstream lines(stacks.str());
    std::size_t sum = 0;
    for (std::string line; std::getline(lines, line);)
        sum += std::stoul(line.substr(line.rfind(' ')));
    EXPECT_EQ(sum, r.all["bytes"]);
    EXPECT_NE(stacks.str().find("global g;Table 64"), std::string::npos) << stacks.str();
}

}  // namespace
}  // namespace poolheap::test
