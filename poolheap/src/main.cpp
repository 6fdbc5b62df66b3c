// SPDX-License-Identifier: BSL-1.0
// The command line of poolheap: docs/heap.md.
#include "pooled/version.hpp"

#include "commands.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>

namespace {

constexpr char k_usage[] = R"(What does this program's heap hold, who holds it, and what is lost in a cycle?

SOURCE is the number of a process or the path of a core file. The program uses pooled, or runs under libpooled-new.so.
Answers go to standard output, errors to standard error.)";

}  // namespace

int main(int argc, char** argv) {
    CLI::App app(k_usage, "poolheap");
    app.require_subcommand(1);
    app.set_version_flag("--version", "poolheap " POOLED_VERSION_STRING);
    poolheap::output_options out;
    std::string source, of, after, preload;
    std::vector<std::string> words;
    auto const file = [](CLI::App* to, char const* name, std::string& path, char const* what) {
        to->add_option(name, path, what)->type_name("FILE");
    };
    auto const command = [&](char const* name, bool has_page, bool has_source, char const* what) {
        CLI::App* const sub = app.add_subcommand(name, what);
        file(sub, "--output", out.output,
             has_page && !has_source ? "Write to this file instead of standard error"
                                     : "Write to this file instead of standard output");
        sub->add_flag("--json", out.json, "Write JSON; docs/heap.md describes it");
        if (has_page) {
            file(sub, "--html", out.html, "Also write one page: what keeps the memory, drawn");
            file(sub, "--folded", out.folded, "Also write retained bytes as stacks, for flame graphs");
        }
        if (has_source)
            sub->add_option("SOURCE", source, "A process or a core file")->required()->type_name("PID|CORE");
        return sub;
    };
    CLI::App* const run = command(
        "run", true, false, "Run a program on the pool; report at its exit, and whenever SIGUSR2 arrives");
    file(run, "--preload", preload, "This libpooled-new.so instead of the one that is installed");
    run->add_option("COMMAND", words, "The program and its arguments, behind --")->required();
    CLI::App* const census =
        command("census", true, true, "Types: number, bytes, pool, kept by weak pointers alone");
    CLI::App* const holders =
        command("holders", false, true, "Who refers to objects of a type, or to one object");
    holders->add_option("TYPE|ADDRESS", of, "The name of a type or a part of it, or 0x...")->required();
    CLI::App* const path = command("path", false, true, "A shortest chain from a root to an object");
    path->add_option("ADDRESS", of, "0x...")->required();
    CLI::App* const leaks =
        command("leaks", true, true, "What nothing reaches: cycles with their members, and lost objects");
    CLI::App* const diff =
        command("diff", false, false, "What grew between two reports or images, by type and by holder");
    diff->add_option("OLD", source, "A JSON report, a process or a core file")->required();
    diff->add_option("NEW", after, "The same, later")->required();
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& e) {
        // Commands differ in their first letters.
        std::string const word = argc > 1 ? argv[1] : "-";
        auto const all = app.get_subcommands([](CLI::App*) { return true; });
        auto const near = std::find_if(all.begin(), all.end(),
                                       [&](CLI::App* each) { return each->get_name()[0] == word[0]; });
        bool const is_near = near != all.end();
        if (word[0] == '-' || (is_near && (*near)->get_name() == word)) return app.exit(e) == 0 ? 0 : 2;
        std::cerr << "poolheap: There is no command \"" << word << '"'
                  << (is_near ? "; did you mean \"" + (*near)->get_name() + "\"?" : ".")
                  << " poolheap --help lists them.\n";
        return 2;
    }
    using namespace poolheap;
    int status = 0;
    bool const is_done = attempt([&] {
        expect_writable(out);
        if (*run) status = run_command(words, preload, out);
        if (*census) report_command(open_image(source), source, parts::census, out);
        if (*holders) holders_command(source, of, out);
        if (*path) path_command(source, of, out);
        if (*leaks) report_command(open_image(source), source, parts::leaks, out);
        if (*diff) diff_command(source, after, out);
    });
    return is_done ? status : 1;
}
