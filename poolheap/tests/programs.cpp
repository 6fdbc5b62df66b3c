// SPDX-License-Identifier: BSL-1.0
#include "programs.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace poolheap_tests {
namespace fs = std::filesystem;
namespace {

struct scratch {
    fs::path path;
    scratch() {
        std::string name = (fs::temp_directory_path() / "poolheap-tests.XXXXXX").string();
        if (::mkdtemp(name.data()) != nullptr) path = name;
    }
    ~scratch() { fs::remove_all(path); }
};
fs::path const& scratch_folder() {
    static scratch const folder;
    return folder.path;
}

}  // namespace

std::vector<toolchain> toolchains() {
    std::vector<toolchain> all;
    for (std::string const level : {"-O0", "-O2"}) {
        all.push_back({"libstdc++ " + level, std::string(POOLHEAP_TEST_GXX) + " " + level});
        if (std::string const clang = POOLHEAP_TEST_CLANG; !clang.empty())
            all.push_back({"libc++ " + level, clang + " -stdlib=libc++ " + level});
    }
    return all;
}

toolchain default_toolchain() { return toolchains().front(); }

std::string compile(std::string const& source, toolchain const& with, std::string const& flags) {
    std::string const arguments = with.command + " -std=c++20 -pthread -I" POOLHEAP_INCLUDE " " + flags;
    std::string const path =
        (scratch_folder() / (source + "-" + std::to_string(std::hash<std::string>()(arguments)))).string();
    if (!fs::exists(path)) {
        std::string const command = arguments + " " POOLHEAP_TEST_PROGRAMS "/" + source + ".cpp -o " + path;
        EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
    return path;
}

std::string stripped(std::string const& program) {
    std::string path = program + "-stripped";
    EXPECT_EQ(std::system(("strip -o " + path + " " + program).c_str()), 0);
    return path;
}

running_program::running_program(std::string const& path, std::vector<std::string> const& environment) {
    static int number = 0;
    m_folder = (scratch_folder() / ("run" + std::to_string(++number))).string();
    fs::create_directory(m_folder);
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    m_pid = ::fork();
    if (m_pid == 0) {
        ::dup2(in[0], 0);
        ::dup2(out[1], 1);
        rlimit const unlimited{RLIM_INFINITY, RLIM_INFINITY};
        ::setrlimit(RLIMIT_CORE, &unlimited);
        if (::chdir(m_folder.c_str()) != 0) ::_exit(127);
        for (std::string const& e : environment)
            ::putenv(::strdup(e.c_str()));
        ::execl(path.c_str(), path.c_str(), static_cast<char*>(nullptr));
        ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    m_in = in[1];
    m_out = out[0];
    std::string line;
    for (char c = 0; ::read(m_out, &c, 1) == 1;) {
        if (c != '\n') {
            line += c;
            continue;
        }
        if (line == "ready") return;
        std::istringstream words(line);
        std::string name;
        poolheap::address at = 0;
        if (words >> name >> std::hex >> at) m_addresses[name] = at;
        line.clear();
    }
    ADD_FAILURE() << path << " ended before it was ready";
}

running_program::~running_program() {
    if (m_pid > 0) {
        ::kill(m_pid, SIGKILL);
        ::waitpid(m_pid, nullptr, 0);
    }
    ::close(m_in);
    ::close(m_out);
    fs::remove_all(m_folder);
}

poolheap::address running_program::at(std::string const& name) const {
    auto const found = m_addresses.find(name);
    EXPECT_NE(found, m_addresses.end()) << "the program did not print " << name;
    return found == m_addresses.end() ? 0 : found->second;
}

std::string running_program::core() {
    std::string const id = std::to_string(m_pid);
    std::string const command = "gcore -o " + m_folder + "/gcore " + id + " >/dev/null 2>&1";
    return std::system(command.c_str()) == 0 ? m_folder + "/gcore." + id : "";
}

std::string running_program::crash() {
    ::kill(m_pid, SIGSEGV);
    ::waitpid(m_pid, nullptr, 0);
    m_pid = -1;
    for (auto const& entry : fs::directory_iterator(m_folder))
        if (entry.path().filename().string().starts_with("core")) return entry.path().string();
    return {};
}

bool running_program::is_running() const {
    std::string state;
    if (FILE* const file = std::fopen(("/proc/" + std::to_string(m_pid) + "/stat").c_str(), "r")) {
        char text[256]{};
        static_cast<void>(std::fread(text, 1, sizeof(text) - 1, file));
        std::fclose(file);
        state = text;
        state = state.substr(state.rfind(')') + 2, 1);
    }
    return state == "R" || state == "S";
}

}  // namespace poolheap_tests
