// SPDX-License-Identifier: BSL-1.0

// Compiled with -fno-rtti: the objects of live_report.cpp's test of types without type information.

#include "pooled/pooled.hpp"

#include <memory>
#include <sstream>
#include <string>

namespace untyped {

struct ticket {
    int number = 0;
};
struct seat {
    virtual ~seat() = default;
    int row = 0;
};
struct counted {
    std::string name;
};

std::string report() {
    pooled::pool pool{{.name = "untyped"}};
    auto const shared = pool.make_shared<ticket>();
    auto const virtual_one = pool.make_unique<seat>();
    auto const rc = pool.make_rc<counted>();
    std::ostringstream out;
    pool.live_report(out);
    return out.str();
}

}  // namespace untyped
