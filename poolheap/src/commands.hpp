// SPDX-License-Identifier: BSL-1.0
#pragma once

// The commands of poolheap, after their arguments are read. Each throws error for what the user can mend.

#include "image.hpp"

namespace poolheap {

struct output_options {
    std::string output;  // empty: standard output
    std::string html;
    std::string folded;
    bool json = false;
};

struct run_options {
    std::vector<std::string> command;
    std::string preload;  // empty: libpooled-new.so beside this program
};

void census(std::string const& source, output_options const& out);
void leaks_command(std::string const& source, output_options const& out);
void holders_command(std::string const& source, std::string const& of, output_options const& out);
void path_command(std::string const& source, std::string const& at, output_options const& out);
void diff_command(std::string const& before, std::string const& after, output_options const& out);
// The status of the program that ran.
int run_command(run_options const& options, output_options const& out);
// The report of `run`: of an image of the program that was started as `source`.
void write_summary(std::unique_ptr<image> of, std::string const& source, output_options const& out);

}  // namespace poolheap
