// SPDX-License-Identifier: BSL-1.0
#pragma once

// All that a command needs of one image.

#include "graph.hpp"

namespace poolheap {

struct session {
    session(std::unique_ptr<image> from, std::string const& source)
        : frozen(std::move(from)),
          blocks(read_heap(*frozen)),
          names(*frozen, blocks),
          references(*frozen, blocks, names),
          program(program_of(*frozen, source)) {}

    std::unique_ptr<image> frozen;
    heap blocks;
    image_naming names;
    graph references;
    std::string program;

private:
    // The first file that is mapped is the program.
    static std::string program_of(image const& from, std::string const& source) {
        for (mapping const& m : from.mappings())
            if (!m.path.empty() && m.path[0] == '/')
                return m.path.substr(m.path.rfind('/') + 1) + " (" + source + ')';
        return source;
    }
};

}  // namespace poolheap
