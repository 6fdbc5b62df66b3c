// SPDX-License-Identifier: BSL-1.0
#pragma once

// POOLED_HEAP_REPORT=<path>: at exit, poolheap writes what the program's heap holds, as JSON. Part of new_delete.cpp.
//
//   exit ─▶ fork ─▶ a copy that stands still ◀─ reads ─ poolheap census COPY --json --output PATH
//     └──── waits for poolheap, and ends the copy
//
// Nothing is created while the variable is not set. The copy runs none of the program's code but its fork handlers.

#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"

#include "environment.hpp"

#if defined(__linux__)
#include <spawn.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

constexpr char const* k_heap_report = "POOLED_HEAP_REPORT";
char const* g_heap_report_path = nullptr;
#if defined(__linux__)
constinit kept_errors g_heap_report_errors;
#endif

// Once `environ` is set.
void read_heap_report() noexcept {
    char const* const path = pooled::detail::platform::trusted_variable(k_heap_report);
    if (path == nullptr || *path == '\0') return;
#if defined(__linux__)
    g_heap_report_path = path;
    static_cast<void>(g_heap_report_errors.keep());
#else
    pooled::detail::report_variable(k_heap_report, path, "it is for Linux alone");
#endif
}

#if defined(__linux__)

// By this name poolheap knows that the process stands still; poolheap/src/process_image.cpp has the same one.
constexpr char const* k_frozen_name = "pooled-frozen";

// A copy of this process that does nothing, and ends with it. -1: there is none.
[[nodiscard]] pid_t freeze_copy() noexcept {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) return -1;
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all,
                      &before);  // the copy takes no signal, above all none that the program handles
    pid_t const parent = ::getpid();
    pid_t const copy = ::fork();
    if (copy == 0) {
        ::prctl(PR_SET_NAME, k_frozen_name);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // poolheap is no ancestor
        static_cast<void>(::write(ready[1], "", 1) == 1);
        while (::getppid() == parent)
            ::sleep(3600);
        ::_exit(0);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::close(ready[1]);
    char is_ready = 0;
    static_cast<void>(copy > 0 && ::read(ready[0], &is_ready, 1) == 1);
    ::close(ready[0]);
    return copy;
}

// A folder may be executable, too: a build has one of the name poolheap beside this library.
[[nodiscard]] bool is_program(char const* file) noexcept {
    struct stat found{};
    return ::stat(file, &found) == 0 && S_ISREG(found.st_mode) && ::access(file, X_OK) == 0;
}

// The file of POOLED_POOLHEAP; else one beside this library or in the folder bin beside its folder; else a name for PATH.
[[nodiscard]] std::string find_poolheap() {
    if (char const* const named = pooled::detail::platform::trusted_variable("POOLED_POOLHEAP")) return named;
    Dl_info here{};
    std::string folder;
    if (::dladdr(&g_heap_report_path, &here) != 0 && here.dli_fname != nullptr) folder = here.dli_fname;
    if (auto const slash = folder.rfind('/'); slash != std::string::npos)
        for (char const* const place : {"poolheap", "../bin/poolheap", "../poolheap/poolheap"})
            if (std::string const file = folder.substr(0, slash + 1) + place; is_program(file.c_str()))
                return file;
    return "poolheap";
}

// Without what would have poolheap run on a pool and report on itself.
[[nodiscard]] std::vector<char*> environment_of_poolheap() {
    std::vector<char*> all;
    for (char** one = environ; *one != nullptr; ++one) {
        std::string_view const name(*one, std::strcspn(*one, "="));
        if (name != "LD_PRELOAD" && !name.starts_with("POOLED_")) all.push_back(*one);
    }
    all.push_back(nullptr);
    return all;
}

// %p in the path is the process.
[[gnu::destructor(101)]] void write_heap_report() {
    if (g_heap_report_path == nullptr) return;
    // First: what is allocated here may lie in blocks that still hold addresses of lost objects.
    ::signal(SIGCHLD, SIG_DFL);  // where it is ignored, nobody can wait for one of two children
    int const errors = g_heap_report_errors.file();
    pid_t const copy = freeze_copy();
    if (copy < 0) {
        ::dprintf(errors, "pooled: POOLED_HEAP_REPORT: this process cannot be copied: %s\n",
                  std::strerror(errno));
        return;
    }
    POOLED_TRY {
        std::string path = g_heap_report_path;
        if (auto const at = path.find("%p"); at != std::string::npos)
            path.replace(at, 2, std::to_string(::getpid()));
        std::string program = find_poolheap();
        std::vector<char*> environment = environment_of_poolheap();
        std::string words[]{program, "census", std::to_string(copy), "--json", "--output", path};
        std::vector<char*> arguments;
        for (std::string& word : words)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);
        pid_t poolheap = -1;
        posix_spawn_file_actions_t files;
        ::posix_spawn_file_actions_init(&files);
        if (errors >= 0) ::posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
        int const error =
            ::posix_spawnp(&poolheap, program.c_str(), &files, nullptr, arguments.data(), environment.data());
        ::posix_spawn_file_actions_destroy(&files);
        int status = 0;
        if (error == 0)
            while (::waitpid(poolheap, &status, 0) < 0 && errno == EINTR) {}
        if (error != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127))
            ::dprintf(errors,
                      "pooled: POOLED_HEAP_REPORT: %s cannot be started (%s), so there is no report: install "
                      "poolheap, or name it by POOLED_POOLHEAP=<path>\n",
                      program.c_str(), std::strerror(error != 0 ? error : ENOENT));
    }
    POOLED_CATCH(std::exception const&) {}
    ::kill(copy, SIGKILL);
    while (::waitpid(copy, nullptr, 0) < 0 && errno == EINTR) {}
}

#endif

}  // namespace
