// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "naming.hpp"
#include "programs.hpp"
#include "symbols.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace poolheap_tests {

using namespace poolheap;

// The heap that recorded_new.hpp prints.
inline heap recorded_heap(running_program const& program) {
    heap h;
    h.pools.emplace_back("default");
    for (auto const& [name, begin] : program.addresses())
        if (name.starts_with("block-")) {
            h.slabs.push_back({begin, program.at("bytes-" + name.substr(6)),
                               static_cast<block_index>(h.blocks.size()), 1, 0});
            h.blocks.push_back(true);
            h.pool_memory.emplace_back(begin, h.slabs.back().end());
        }
    h.index();
    return h;
}

// A running program with its heap, recorded or pooled's, and its types.
struct recorded {
    running_program program;
    std::unique_ptr<image> from = open_image(std::to_string(program.pid()));
    heap blocks = program.addresses().contains("block-0") ? recorded_heap(program) : read_heap(*from);
    symbols symbols_of{*from};
    std::unique_ptr<naming> types = names_of(*from, blocks);
    std::vector<type_id_t> ids;

    explicit recorded(std::string const& path) : program(path) {
        block_numbers const all = types->name_all();
        for (block_index b = 0; b < all.size(); ++b)
            ids.push_back(static_cast<type_id_t>(all[b]));
    }
    type const& type_at(std::string const& name) {
        heap::hit const b = blocks.find(program.at(name));
        EXPECT_NE(b.index, k_no_block) << name;
        return (*types)[b.index == k_no_block ? k_buffer : ids[b.index]];
    }
    std::optional<counts> counts_at(std::string const& name) {
        heap::hit const b = blocks.find(program.at(name));
        std::uint64_t words[16]{};
        static_cast<void>(from->read(b.begin, std::as_writable_bytes(std::span(words))));
        return types->counts_of(ids[b.index], words);
    }
};

}  // namespace poolheap_tests
