// SPDX-License-Identifier: BSL-1.0
#pragma once

// The programs and libraries of an image, and their symbols: of functions, of globals and of thread-local variables. libdwfl of elfutils
// finds them and the debug information, also in separate files (by build-id or .gnu_debuglink). Files of another build than the image's
// are not used. Read when first asked for; O(log symbols).

#include "image.hpp"

#include <elfutils/libdwfl.h>

namespace poolheap {

struct symbol {
    std::string name;  // demangled
    address begin = 0;
    std::uint64_t bytes = 0;
};

struct module : loaded_file {
    std::string path;  // as the image names it
    Dwfl_Module* dwfl = nullptr;

    // Without directories.
    [[nodiscard]] std::string name() const { return path.substr(path.rfind('/') + 1); }
};

// The name itself if it is no mangled one.
[[nodiscard]] std::string demangle(std::string const& name);

class symbols {
public:
    explicit symbols(image const& from);
    ~symbols();
    symbols(symbols const&) = delete;
    symbols& operator=(symbols const&) = delete;

    [[nodiscard]] std::span<module const> modules() const;
    [[nodiscard]] module const* module_of(address at) const;
    [[nodiscard]] Dwfl* dwfl() const;
    // The function or object that contains the address.
    [[nodiscard]] std::optional<symbol> find(address at) const;
    // The thread-local object at an address in a thread's static block, that of the program itself.
    [[nodiscard]] std::optional<symbol> find_thread_local(thread const& of, address at) const;

private:
    struct state;
    std::unique_ptr<state> m_state;
};

}  // namespace poolheap
