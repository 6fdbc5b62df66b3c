// SPDX-License-Identifier: BSL-1.0
// `run`: starts a program under libpooled-new.so, and reports at its end and at each SIGUSR2 that arrives here.
//
//   SIGUSR2   the program forks (open_process): it stands still for that time; a thread of ours analyses the copy while it goes on
//   its end   the kernel stops it before its memory is gone (PTRACE_O_TRACEEXIT); static destructors have run
//
// The program is traced by its first thread alone and for these events alone: nothing is slower while nothing is asked.
#include "commands.hpp"

#include <cstring>
#include <filesystem>
#include <future>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace poolheap {

namespace {

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

// The child waits for a byte until it is traced, and answers with what is wrong; executing the program closes its end. `signals`: those
// that are blocked in the program.
int start(std::vector<std::string> const& command, std::string const& preload, sigset_t const& signals) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("No socket can be had");
    int const child = fork();
    if (child < 0) fail("The program cannot be started");
    int reason = 0;
    if (child == 0) {
        close(ends[0]);
        if (read(ends[1], &reason, 1) != 1) _exit(127);
        sigprocmask(SIG_SETMASK, &signals, nullptr);
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
    bool const is_traced = ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC) == 0;
    if (!is_traced) reason = errno;
    if (is_traced && write(ends[0], "", 1) == 1)
        while (read(ends[0], &reason, sizeof reason) < 0 && errno == EINTR) {}
    close(ends[0]);
    if (reason == 0) return child;
    ptrace(PTRACE_DETACH, child, nullptr, nullptr);
    kill(child, SIGKILL);
    errno = reason;
    fail(is_traced ? command[0] + " cannot be started" : "The program cannot be traced");
}

// Of a link in /proc; empty: the process has ended.
std::string program_file(std::string const& exe) {
    std::error_code e;
    return std::filesystem::read_symlink(exe, e);
}

}  // namespace

int run_command(std::vector<std::string> const& command, std::string const& preload,
                output_options const& out) {
    // These are waited for. Before the program may run: who starts poolheap may ask as soon as it does.
    sigset_t awaited, before;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGUSR2);
    sigaddset(&awaited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &awaited, &before);
    int const child = start(command, library(preload), before);
    g_child = child;
    signal(SIGCHLD, SIG_DFL);  // where it is ignored, no stop of the program is told
    // The terminal sends its signals to the program, too; what is sent to us alone goes on to it.
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTERM, [](int s) { kill(g_child, s); });
    signal(SIGHUP, [](int s) { kill(g_child, s); });
    // What cannot be done is said to be so; the program goes on in any case.
    std::string const exe = "/proc/" + std::to_string(child) + "/exe";
    std::string first;
    // Under the name that the user gave, unless the program has executed another one.
    auto const report = [&](std::unique_ptr<image> of) {
        std::string const now = program_file(exe);
        if (of != nullptr)
            report_command(std::move(of), now == first || now.empty() ? command[0] : now, parts::both, out);
    };
    std::future<void>
        analysis;  // of a copy, in a thread, while each event of the program is answered at once
    for (bool is_asked = false;;) {
        int status = 0;
        int const who = waitpid(-1, &status, __WALL | WNOHANG);
        if (who < 0) fail("The program cannot be waited for");
        if (who == 0) {
            if (sigwaitinfo(&awaited, nullptr) != SIGUSR2) continue;
            is_asked = true;
            ptrace(PTRACE_INTERRUPT, child, nullptr, nullptr);
            continue;
        }
        int const event = status >> 16, stop = WSTOPSIG(status), signal = event == 0 ? stop : 0;
        if (who != child) {
            // A thread that did not stop in time for a copy, and now has.
            ptrace(PTRACE_DETACH, who, nullptr, signal);
            continue;
        }
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
        if (event == PTRACE_EVENT_EXEC && first.empty()) first = program_file(exe);
        if (event == PTRACE_EVENT_EXIT) {
            if (analysis.valid()) analysis.wait();
            attempt([&] { report(open_frozen(child, {stopped_thread(child)})); });
        } else if (std::exchange(is_asked, false)) {
            if (analysis.valid()) analysis.wait();
            // With the signal that it was about to get; open_process stops all threads.
            ptrace(PTRACE_DETACH, child, nullptr, signal);
            std::unique_ptr<image> found;
            attempt([&] { found = open_process(child); });
            // What is no copy goes on by this thread alone.
            bool const is_copy = found != nullptr && found->stopped_seconds() != 0;
            auto analyse = [&report, of = std::move(found)]() mutable {
                attempt([&] { report(std::move(of)); });
            };
            if (is_copy)
                attempt([&] { analysis = std::async(std::launch::async, std::move(analyse)); });
            else
                analyse();
            ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT);
            continue;
        }
        // Also of a first thread that did not stop in time.
        if (event == PTRACE_EVENT_STOP) ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACEEXIT);
        bool const is_stopped = event == PTRACE_EVENT_STOP &&
                                (stop == SIGSTOP || stop == SIGTSTP || stop == SIGTTIN || stop == SIGTTOU);
        ptrace(is_stopped ? PTRACE_LISTEN : PTRACE_CONT, child, nullptr, signal);
    }
}

}  // namespace poolheap
