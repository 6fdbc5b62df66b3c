// SPDX-License-Identifier: BSL-1.0
// The command line of poolheap: docs/heap.md.
#include "commands.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <new>

namespace {

constexpr char k_usage[] = R"(What does this program's heap hold, who holds it, and what is lost in a cycle?

SOURCE is the number of a process or the path of a core file. The program uses pooled, or runs under libpooled-new.so.
Answers go to standard output, errors to standard error.)";

}  // namespace

int main(int argc, char** argv) {
    CLI::App app(k_usage, "poolheap");
    app.require_subcommand(1);
    poolheap::output_options out;
    std::string source, of, after;
    poolheap::run_options run;
    auto const command = [&](char const* name, char const* does) {
        CLI::App* const sub = app.add_subcommand(name, does);
        sub->add_option("--output", out.output, "Write to this file instead of standard output")
            ->type_name("FILE");
        sub->add_flag("--json", out.json, "Write JSON; docs/heap.md describes it");
        return sub;
    };
    auto const of_heap = [&](char const* name, char const* does) {
        CLI::App* const sub = command(name, does);
        sub->add_option("--html", out.html, "Also write one page: what keeps the memory, drawn")
            ->type_name("FILE");
        sub->add_option("--folded", out.folded,
                        "Also write retained bytes as collapsed stacks, for flame graphs")
            ->type_name("FILE");
        return sub;
    };
    auto const with_source = [&](CLI::App* sub) {
        sub->add_option("SOURCE", source, "A process or a core file")->required()->type_name("PID|CORE");
        return sub;
    };
    CLI::App* const run_sub =
        of_heap("run", "Run a program on the pool; report at its exit, and whenever SIGUSR2 arrives");
    run_sub
        ->add_option("--preload", run.preload, "This libpooled-new.so instead of the one that is installed")
        ->type_name("FILE");
    run_sub->add_option("COMMAND", run.command, "The program and its arguments, behind --")->required();
    run_sub->prefix_command(false);
    CLI::App* const census_sub =
        with_source(of_heap("census", "Types: number, bytes, pool, kept by weak pointers alone"));
    CLI::App* const holders_sub =
        with_source(command("holders", "Who refers to objects of a type, or to one object"));
    holders_sub->add_option("TYPE|ADDRESS", of, "The name of a type or a part of it, or 0x...")->required();
    CLI::App* const path_sub = with_source(command("path", "A shortest chain from a root to an object"));
    path_sub->add_option("ADDRESS", of, "0x...")->required();
    CLI::App* const leaks_sub =
        with_source(of_heap("leaks", "What nothing reaches: cycles with their members, and lost objects"));
    CLI::App* const diff_sub =
        command("diff", "What grew between two reports or images, by type and by holder");
    diff_sub->add_option("OLD", source, "A JSON report, a process or a core file")->required();
    diff_sub->add_option("NEW", after, "The same, later")->required();
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& e) {
        return app.exit(e) == 0 ? 0 : 2;
    }
    try {
        if (*run_sub) return poolheap::run_command(run, out);
        if (*census_sub) poolheap::census(source, out);
        if (*holders_sub) poolheap::holders_command(source, of, out);
        if (*path_sub) poolheap::path_command(source, of, out);
        if (*leaks_sub) poolheap::leaks_command(source, out);
        if (*diff_sub) poolheap::diff_command(source, after, out);
    } catch (poolheap::error const& e) {
        std::fprintf(stderr, "poolheap: %s\n", e.what());
        return 1;
    } catch (std::bad_alloc const&) {
        std::fputs("poolheap: There is not enough memory for the analysis; it takes a quarter of the size of "
                   "the heap.\n",
                   stderr);
        return 1;
    }
    return 0;
}
