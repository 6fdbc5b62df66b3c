// SPDX-License-Identifier: BSL-1.0
#pragma once

// Programs that the tests look into: compiled from tests/programs by the compilers that are installed, run until they say "ready", and
// ended with the object that started them. A program prints "name 0x1234" for each address that its test asks about.

#include "image.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace poolheap_tests {

struct toolchain {
    std::string name;  // for messages of tests: "libc++ -O2"
    std::string command;
};
// GCC with libstdc++, Clang with libc++; without and with optimisation.
[[nodiscard]] std::vector<toolchain> toolchains();
[[nodiscard]] toolchain default_toolchain();

// The path of a program; compiled when it is first asked for. Fails the test if it does not compile.
[[nodiscard]] std::string compile(std::string const& source, toolchain const& with,
                                  std::string const& flags = "");

// A copy without symbols.
[[nodiscard]] std::string stripped(std::string const& program);

class running_program {
public:
    // `environment`: as "NAME=value".
    explicit running_program(std::string const& path, std::vector<std::string> const& environment = {});
    ~running_program();
    running_program(running_program const&) = delete;
    running_program& operator=(running_program const&) = delete;

    [[nodiscard]] int pid() const { return m_pid; }
    [[nodiscard]] poolheap::address at(std::string const& name) const;
    [[nodiscard]] std::map<std::string, poolheap::address> const& addresses() const { return m_addresses; }
    // A core file by gdb's gcore, removed with this object; empty where there is no gdb.
    [[nodiscard]] std::string core();
    // Goes on until the program has crashed; the kernel's core file, or empty where the system writes none.
    [[nodiscard]] std::string crash();
    [[nodiscard]] bool is_running() const;

private:
    int m_pid = -1;
    int m_in = -1;
    int m_out = -1;
    std::string m_folder;
    std::map<std::string, poolheap::address> m_addresses;
};

}  // namespace poolheap_tests
