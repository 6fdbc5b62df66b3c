// SPDX-License-Identifier: BSL-1.0
// `run`: starts a program under libpooled-new.so, and reports at its end and at each SIGUSR2 that arrives here.
//
//   SIGUSR2   the program forks (open_process): it stands still for that time; the copy is analysed while it goes on
//   its end   the kernel stops it before its memory is gone (PTRACE_O_TRACEEXIT); static destructors have run
//
// The program is traced by its first thread alone and for these events alone: nothing is slower while nothing is asked.
#include "commands.hpp"

#include <cstring>
#include <exception>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace poolheap {

namespace {

volatile sig_atomic_t g_is_asked = 0;
volatile sig_atomic_t g_child = 0;

[[noreturn]] void fail(std::string const& what) { throw error(what + ": " + std::strerror(errno) + "."); }

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

// The child waits for a byte until it is traced, and answers with what is wrong; executing the program closes its end.
int start(std::vector<std::string> const& command, std::string const& preload) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("No socket can be had");
    int const child = fork();
    if (child < 0) fail("The program cannot be started");
    int reason = 0;
    if (child == 0) {
        close(ends[0]);
        if (read(ends[1], &reason, 1) != 1) _exit(127);
        std::vector<char*> arguments;
        for (std::string const& word : command)
            arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        char const* const others = std::getenv("LD_PRELOAD");
        setenv("LD_PRELOAD", others ? (preload + ':' + others).c_str() : preload.c_str(), 1);
        execvp(arguments[0], arguments.data());
        [[maybe_unused]] ssize_t const told = write(ends[1], &errno, sizeof errno);
        _exit(127);
    }
    close(ends[1]);
    bool const is_traced = ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT) == 0;
    if (!is_traced) reason = errno;
    bool is_failed = is_traced && write(ends[0], "", 1) == 1;
    ssize_t told = -1;
    while (is_failed && (told = read(ends[0], &reason, sizeof reason)) < 0 && errno == EINTR) {}
    is_failed = told == sizeof reason;
    close(ends[0]);
    if (is_traced && !is_failed) return child;
    ptrace(PTRACE_DETACH, child, nullptr, nullptr);
    kill(child, SIGKILL);
    errno = reason;
    fail(is_traced ? command[0] + " cannot be started" : "The program cannot be traced");
}

// What cannot be said is said to be so; the program goes on in any case.
void write_report(auto&& open, std::string const& source, output_options const& out) {
    try {
        report_command(open(), source, parts::both, out);
    } catch (error const& e) {
        std::fprintf(stderr, "poolheap: %s\n", e.what());
    }
}

// Its first thread is stopped by an event, or let go so that open_process may have it.
// What it waited for instead is left to the caller.
std::optional<int> report_copy(int child, std::string const& source, output_options const& out) {
    int status = 0;
    ptrace(PTRACE_INTERRUPT, child, nullptr, nullptr);
    if (waitpid(child, &status, __WALL) != child) return {};
    if (!WIFSTOPPED(status) || status >> 16 == PTRACE_EVENT_EXIT) return status;
    ptrace(PTRACE_DETACH, child, nullptr, status >> 16 == 0 ? WSTOPSIG(status) : 0);
    write_report(
        [&] {
            std::unique_ptr<image> copy;
            std::exception_ptr problem;
            try {
                copy = open_process(child);
            } catch (error const&) {
                problem = std::current_exception();
            }
            // The program goes on; traced again, for its end.
            ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT);
            if (problem) std::rethrow_exception(problem);
            return copy;
        },
        source, out);
    return {};
}

}  // namespace

int run_command(std::vector<std::string> const& command, std::string const& preload,
                output_options const& out) {
    // Before the program may run: who starts poolheap may ask as soon as it does.
    struct sigaction asked{};
    asked.sa_handler = [](int) { g_is_asked = 1; };
    sigaction(SIGUSR2, &asked, nullptr);
    int const child = start(command, library(preload));
    g_child = child;
    // The terminal sends its signals to the program, too; what is sent to us alone goes on to it.
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTERM, [](int s) { kill(g_child, s); });
    signal(SIGHUP, [](int s) { kill(g_child, s); });
    while (true) {
        std::optional<int> const known =
            std::exchange(g_is_asked, 0) ? report_copy(child, command[0], out) : std::nullopt;
        int status = known.value_or(0);
        int const who = known ? child : waitpid(-1, &status, __WALL);
        if (who < 0) {
            if (errno == EINTR) continue;
            fail("The program cannot be waited for");
        }
        if (who != child) {
            // A thread that did not stop in time for a copy, and now has.
            ptrace(PTRACE_DETACH, who, nullptr, status >> 16 == 0 ? WSTOPSIG(status) : 0);
            continue;
        }
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
        int const event = status >> 16, signal = WSTOPSIG(status);
        if (event == PTRACE_EVENT_EXIT)
            write_report([&] { return open_frozen(child, {stopped_thread(child)}); }, command[0], out);
        // Also of a first thread that did not stop in time.
        if (event == PTRACE_EVENT_STOP) ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACEEXIT);
        bool const is_stopped = event == PTRACE_EVENT_STOP && (signal == SIGSTOP || signal == SIGTSTP ||
                                                               signal == SIGTTIN || signal == SIGTTOU);
        ptrace(is_stopped ? PTRACE_LISTEN : PTRACE_CONT, child, nullptr, event == 0 ? signal : 0);
    }
}

}  // namespace poolheap
