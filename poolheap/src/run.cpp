// SPDX-License-Identifier: BSL-1.0
// `run`: starts a program under libpooled-new.so, and reports at its end and at each SIGUSR2 that arrives here.
//
//   SIGUSR2   the program forks (open_process): it stands still for that time; the copy is analysed while it goes on
//   its end   the kernel stops it before its memory is gone (PTRACE_O_TRACEEXIT); static destructors have run
//
// The program is traced by its first thread alone and for these events alone: nothing is slower while nothing is asked.
#include "commands.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace poolheap {

namespace {

volatile sig_atomic_t g_is_asked = 0;
volatile sig_atomic_t g_child = 0;

std::string library(std::string const& wanted) {
    namespace fs = std::filesystem;
    std::vector<fs::path> candidates{wanted};
    if (wanted.empty()) {
        fs::path const here = fs::read_symlink("/proc/self/exe").parent_path();
        // Installed, by vcpkg, or in a build directory.
        for (char const* const beside : {"../" POOLHEAP_LIBRARY_DIR, "../../lib", "", ".."})
            candidates.push_back(here / beside / "libpooled-new.so");
    }
    for (fs::path const& each : candidates)
        if (std::error_code e; fs::is_regular_file(each, e)) return fs::canonical(each);
    throw error(wanted.empty() ? "libpooled-new.so is not beside this program; name it with --preload FILE."
                               : "The library " + wanted + " is not there.");
}

int start(run_options const& options, std::string const& preload) {
    int ready[2], failed[2];
    if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(failed, O_CLOEXEC) != 0)
        throw error(std::string("No pipe can be had: ") + std::strerror(errno) + ".");
    int const child = fork();
    if (child < 0) throw error(std::string("The program cannot be started: ") + std::strerror(errno) + ".");
    if (child == 0) {
        char c;
        close(ready[1]);
        if (read(ready[0], &c, 1) != 1) _exit(127);
        std::vector<char*> arguments;
        for (std::string const& word : options.command)
            arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        char const* const others = std::getenv("LD_PRELOAD");
        setenv("LD_PRELOAD", others ? (preload + ':' + others).c_str() : preload.c_str(), 1);
        execvp(arguments[0], arguments.data());
        int const reason = errno;
        [[maybe_unused]] ssize_t const told = write(failed[1], &reason, sizeof reason);
        _exit(127);
    }
    close(ready[0]);
    close(failed[1]);
    if (ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT) != 0) {
        int const reason = errno;
        kill(child, SIGKILL);
        throw error(std::string("The program cannot be traced: ") + std::strerror(reason) + ".");
    }
    [[maybe_unused]] ssize_t const told = write(ready[1], "", 1);
    close(ready[1]);
    int reason = 0;
    bool const is_failed = read(failed[0], &reason, sizeof reason) == sizeof reason;
    close(failed[0]);
    if (is_failed) {
        ptrace(PTRACE_DETACH, child, nullptr, nullptr);
        kill(child, SIGKILL);
        throw error(options.command[0] + " cannot be started: " + std::strerror(reason) + ".");
    }
    return child;
}

// Its first thread is stopped by an event, or let go so that open_process may have it.
void report_copy(int child, run_options const& options, output_options const& out) {
    int status = 0;
    ptrace(PTRACE_INTERRUPT, child, nullptr, nullptr);
    if (waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status) || status >> 16 == PTRACE_EVENT_EXIT)
        return;
    ptrace(PTRACE_DETACH, child, nullptr, status >> 16 == 0 ? WSTOPSIG(status) : 0);
    std::unique_ptr<image> copy;
    try {
        copy = open_process(child);
    } catch (error const& e) {
        std::fprintf(stderr, "poolheap: %s\n", e.what());
    }
    // The program goes on; traced again, for its end.
    ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT);
    if (copy) write_summary(std::move(copy), options.command[0], out);
}

}  // namespace

int run_command(run_options const& options, output_options const& out) {
    std::string const preload = library(options.preload);
    int const child = start(options, preload);
    g_child = child;
    struct sigaction asked{};
    asked.sa_handler = [](int) { g_is_asked = 1; };
    sigaction(SIGUSR2, &asked, nullptr);
    // The terminal sends its signals to the program, too; what is sent to us alone goes on to it.
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTERM, [](int s) { kill(g_child, s); });
    signal(SIGHUP, [](int s) { kill(g_child, s); });
    while (true) {
        if (g_is_asked) {
            g_is_asked = 0;
            report_copy(child, options, out);
        }
        int status = 0;
        if (waitpid(child, &status, __WALL) != child) {
            if (errno == EINTR) continue;
            throw error(std::string("The program cannot be waited for: ") + std::strerror(errno) + ".");
        }
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
        int const event = status >> 16;
        if (event == PTRACE_EVENT_EXIT) {
            try {
                write_summary(open_frozen(child, {stopped_thread(child, child)}), options.command[0], out);
            } catch (error const& e) {
                std::fprintf(stderr, "poolheap: %s\n", e.what());
            }
            ptrace(PTRACE_CONT, child, nullptr, nullptr);
        } else if (event == PTRACE_EVENT_STOP) {
            int const signal = WSTOPSIG(status);
            bool const is_stopped =
                signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
            ptrace(is_stopped ? PTRACE_LISTEN : PTRACE_CONT, child, nullptr, nullptr);
        } else {
            ptrace(PTRACE_CONT, child, nullptr, event == 0 ? WSTOPSIG(status) : 0);
        }
    }
}

}  // namespace poolheap
