// SPDX-License-Identifier: BSL-1.0
// The command line of poolheap: docs/heap.md.
#include "pooled/version.hpp"

#include "commands.hpp"

#include <CLI/CLI.hpp>

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
    using namespace poolheap;
    output_options out;
    std::string source, of, after, preload;
    std::vector<std::string> words;
    int status = 0;
    auto const file = [](CLI::App* to, char const* name, std::string& path, char const* what) {
        to->add_option(name, path, what)->type_name("FILE");
    };
    auto const command = [&](char const* name, bool has_page, bool has_source, char const* what, auto run) {
        CLI::App* const sub = app.add_subcommand(name, what);
        sub->callback([&, run] {
            if (!attempt([&] { expect_writable(out), run(); })) status = 1;
        });
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
    CLI::App* sub = command("run", true, false,
                            "Run a program on the pool; report at its exit, and whenever SIGUSR2 arrives",
                            [&] { status = run_command(words, preload, out); });
    file(sub, "--preload", preload, "This libpooled-new.so instead of the one that is installed");
    sub->add_option("COMMAND", words, "The program and its arguments, behind --")->required();
    command("census", true, true, "Types: number, bytes, pool, kept by weak pointers alone",
            [&] { report_command(open_image(source), source, parts::census, out); });
    sub = command("holders", false, true, "Who refers to objects of a type, or to one object",
                  [&] { holders_command(source, of, out); });
    sub->add_option("TYPE|ADDRESS", of, "The name of a type or a part of it, or 0x...")->required();
    sub = command("path", false, true, "A shortest chain from a root to an object",
                  [&] { path_command(source, of, out); });
    sub->add_option("ADDRESS", of, "0x...")->required();
    command("leaks", true, true, "What nothing reaches: cycles with their members, and lost objects",
            [&] { report_command(open_image(source), source, parts::leaks, out); });
    sub = command("diff", false, false, "What grew between two reports or images, by type and by holder",
                  [&] { diff_command(source, after, out); });
    sub->add_option("OLD", source, "A JSON report, a process or a core file")->required();
    sub->add_option("NEW", after, "The same, later")->required();
    try {
        app.parse(argc, argv);
        return status;
    } catch (CLI::ParseError const& e) {
        std::string const word = argc > 1 ? argv[1] : "-";
        std::string hint = ".";
        for (CLI::App const* each : app.get_subcommands([](CLI::App*) { return true; })) {
            if (word[0] == '-' || word == each->get_name()) return app.exit(e) == 0 ? 0 : 2;
            // Commands differ in their first letters.
            if (word[0] == each->get_name()[0]) hint = "; did you mean \"" + each->get_name() + "\"?";
        }
        std::cerr << "poolheap: There is no command \"" << word << '"' << hint
                  << " poolheap --help lists them.\n";
        return 2;
    }
}
