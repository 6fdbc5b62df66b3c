// SPDX-License-Identifier: BSL-1.0
#pragma once

// The commands of poolheap, after their arguments are read. Each throws error for what the user can mend.

#include "image.hpp"

#include <functional>

namespace poolheap {

struct output_options {
    std::string output;  // empty: standard output
    std::string html;
    std::string folded;
    bool json = false;
};

// Throws for a file that cannot be written, before anything that takes time. Opens none: it may be a pipe.
void expect_writable(output_options const& out);

// False: it threw, and what went wrong was written to standard error.
bool attempt(std::function<void()> const& command);

// `run` has both parts, with a title.
enum class parts { census, leaks, both };
void report_command(std::unique_ptr<image> of, std::string const& source, parts which,
                    output_options const& out);
void holders_command(std::string const& source, std::string const& of, output_options const& out);
void path_command(std::string const& source, std::string const& at, output_options const& out);
void diff_command(std::string const& before, std::string const& after, output_options const& out);
// The status of the program that ran. `preload`: empty: libpooled-new.so beside this program.
int run_command(std::vector<std::string> const& command, std::string const& preload,
                output_options const& out);

}  // namespace poolheap
