// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the environment asks of a program on pooled::new_delete, besides heap_report.hpp: options of the default pool, a background thread,
// statistics at exit. Part of new_delete.cpp.

#include "pooled/default_pool.hpp"
#include "pooled/options.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/stats.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using namespace pooled;
using namespace pooled::detail;

// The standard error stream. Programs close it before this library's exit. And some close all files, whose numbers are then others'.
class kept_errors {
public:
    bool keep() noexcept {
        m_file = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 64);
        return ::fstat(m_file, &m_identity) == 0;
    }
    // -1: there is none.
    [[nodiscard]] int file() const noexcept {
        struct stat now{};
        bool const is_open =
            ::fstat(m_file, &now) == 0 && now.st_dev == m_identity.st_dev && now.st_ino == m_identity.st_ino;
        return is_open ? m_file : -1;
    }

private:
    int m_file = -1;
    struct stat m_identity{};
};

char const* g_stats_path = nullptr;  // where statistics go at exit; empty: to g_stats_errors, as a table
constinit kept_errors g_stats_errors;

[[nodiscard]] pool_options read_options() noexcept {
    pool_options options{.name = k_default_pool_name};
    constexpr char const* k_name = "POOLED_RELEASE_UNUSED_AFTER";
    char const* const value = platform::trusted_variable(k_name);
    if (value == nullptr) return options;
    std::size_t const digits = std::strspn(value, "0123456789");
    if (digits == 0 || digits > 9 || value[digits] != '\0')
        report_variable(
            k_name, value,
            "it must be a number of milliseconds of at most 9 digits; 0: never, the default is 250");
    else
        options.release_unused_after = std::chrono::milliseconds(std::atoi(value));
    return options;
}

void read_stats() noexcept {
    constexpr char const* k_name = "POOLED_STATS";
    char const* const value = platform::trusted_variable(k_name);
    if (value == nullptr || *value == '\0' || std::string_view(value) == "0") return;
    if (std::string_view(value) == "1") {
        if (g_stats_errors.keep()) g_stats_path = "";
    } else if (std::string_view(value).ends_with(".json")) {
        g_stats_path = value;
    } else {
        report_variable(k_name, value,
                        "1: a table on the standard error stream at exit; <path>.json: a file");
    }
}

// Never ends. Before the first round the process has started, and so has what the thread needs.
void* work_in_background(void*) noexcept {
    constexpr timespec k_pause{.tv_sec = 0, .tv_nsec = 250'000'000};
    for (;;) {
        static_cast<void>(::nanosleep(&k_pause, nullptr));
        g_registry.work_in_background();
    }
}

// With POOLED_BACKGROUND=1. A forked child has no such thread, and goes on as without.
void start_background() noexcept {
    if (!platform::read_switch(
            "POOLED_BACKGROUND", false,
            "1: a thread collapses huge pages and returns unused memory; 0 is the default"))
        return;
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);  // the program's signals are for its own threads
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, work_in_background, nullptr) == 0) ::pthread_detach(thread);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// False: the disk is full, for example.
bool write_all(int file, std::string_view text) noexcept {
    while (!text.empty()) {
        ssize_t const written = ::write(file, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

// %p in the path is the process, since a program's children have the variable, too.
[[gnu::destructor(101)]] void write_stats() {
    if (g_stats_path == nullptr) return;
    POOLED_TRY {
        // Not on the stack of the thread that called exit(), which may be small: 10 KiB. Never destroyed.
        alignas(pool_stats) static std::byte place[sizeof(pool_stats)];
        pool_stats const& stats = *new (place) pool_stats(default_pool().stats());
        std::string const process = std::to_string(::getpid());
        if (*g_stats_path == '\0') {
            int const errors = g_stats_errors.file();
            if (errors < 0) return;
            std::ostringstream text;
            text << "process " << process << ", " << stats << '\n';
            return static_cast<void>(write_all(errors, text.str()));
        }
        std::string path = g_stats_path;
        if (auto const at = path.find("%p"); at != std::string::npos) path.replace(at, 2, process);
        int const file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        bool const is_written = file >= 0 && write_all(file, stats.to_json() + "\n");
        if ((file >= 0 && ::close(file) != 0) || !is_written)
            report_variable("POOLED_STATS", g_stats_path, "the file cannot be written");
    }
    POOLED_CATCH(std::exception const&) {}
}

}  // namespace
