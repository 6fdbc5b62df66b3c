// SPDX-License-Identifier: BSL-1.0
// Builds and drops document trees, as a JSON library does: nodes that are shared, children in vectors, names in strings.
//
// usage: document_tree [rounds]
#include "handles.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Node {
    explicit Node(std::string name) : m_name(std::move(name)) {}
    std::string m_name;
    double m_number = 0;
    std::vector<std::shared_ptr<Node>> m_children;
};

std::uint32_t g_random = 1;

std::uint32_t below(std::uint32_t n) {
    g_random = g_random * 1664525 + 1013904223;
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(g_random) * n) >> 32);
}

std::shared_ptr<Node> build(int depth) {
    // Every fourth name is too long for the string itself.
    auto node = make<Node>(below(4) == 0 ? "a name that needs memory of its own" : "short");
    node->m_number = below(1000);
    if (depth == 0) return node;
    const std::uint32_t children = 2 + below(5);
    for (std::uint32_t i = 0; i < children; ++i)
        node->m_children.push_back(build(depth - 1));
    return node;
}

double sum(const Node& node) {
    double found = node.m_number;
    for (const auto& child : node.m_children)
        found += sum(*child);
    return found;
}

}  // namespace

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
    double total = 0;
    for (int round = 0; round < rounds; ++round) {
        const std::shared_ptr<Node> root = build(7);
        total += sum(*root);
    }
    std::printf("%.0f\n", total);
}
