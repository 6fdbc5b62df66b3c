// SPDX-License-Identifier: BSL-1.0
// A library that is opened and closed: it allocates when it is loaded, and its blocks outlive it.
#include <cstddef>
#include <string>
#include <vector>

namespace {
std::vector<std::string> g_strings(10, std::string(100, 'l'));
}

extern "C" {
std::string* make_string(std::size_t length) { return new std::string(length, 'x'); }
void drop_string(std::string* s) { delete s; }
}
