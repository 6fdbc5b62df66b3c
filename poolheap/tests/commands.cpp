// SPDX-License-Identifier: BSL-1.0
// What a user types, of a server under the preload: the commands' own output.
#include "commands.hpp"

#include "programs.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace poolheap::test {
namespace {

using poolheap_tests::running_program;

std::unique_ptr<running_program> server(std::vector<std::string> environment) {
    environment.push_back("LD_PRELOAD=" POOLHEAP_TEST_PRELOAD);
    return std::make_unique<running_program>(
        poolheap_tests::compile("server", poolheap_tests::default_toolchain(), "-g -O1 -pthread"),
        environment);
}

// Calls command(output_options) and returns what it wrote.
std::string output_of(bool json, auto&& command) {
    std::string const path =
        std::filesystem::temp_directory_path() / ("poolheap-commands-" + std::to_string(::getpid()));
    command(output_options{.output = path, .html = {}, .folded = {}, .json = json});
    std::ifstream file(path);
    std::string const text{std::istreambuf_iterator<char>(file), {}};
    std::filesystem::remove(path);
    return text;
}

// Ten seconds at most, and some on a busy machine.
bool await(auto&& is_so) {
    for (int i = 0; i < 10'000; ++i, ::usleep(1000))
        if (is_so()) return true;
    return false;
}

TEST(Diff, OfAServerThatLosesOneSessionInAThousandNamesThatTypeFirst) {
    auto const before = server({"SESSIONS=1000", "CONNECTED=50", "PACKETS=10"});
    auto const after = server({"SESSIONS=41000", "CONNECTED=50", "PACKETS=11"});
    auto const diff = nlohmann::json::parse(output_of(true, [&](output_options const& out) {
        diff_command(std::to_string(before->pid()), std::to_string(after->pid()), out);
    }));
    EXPECT_EQ(diff["types"][0]["type"], "app::session") << diff.dump(1);
    EXPECT_EQ(diff["types"][0]["objects"], 40);
}

// As a shell hands over what `diff <(poolheap census --json …) NEW` names.
TEST(Diff, ReadsAReportFromAPipeThatHasAWriter) {
    std::string report = R"({"poolheap":1,"holders":[],"types":[{"type":"T","objects":1,"bytes":10}]})";
    int ends[2][2];
    std::string paths[2];
    for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(::pipe(ends[i]), 0);
        ASSERT_EQ(::write(ends[i][1], report.data(), report.size()), static_cast<ssize_t>(report.size()));
        ::close(ends[i][1]);
        paths[i] = "/dev/fd/" + std::to_string(ends[i][0]);
        report.replace(report.size() - 5, 2, "58");
    }
    auto const diff = nlohmann::json::parse(
        output_of(true, [&](output_options const& out) { diff_command(paths[0], paths[1], out); }));
    for (auto const& each : ends)
        ::close(each[0]);
    EXPECT_EQ(diff["types"][0]["bytes"], 48) << diff.dump(1);
}

TEST(Path, LeadsFromAGlobalThroughTheContainerToTheObject) {
    auto const one = server({"CONNECTED=50"});
    std::string const address = hexadecimal(one->at("session"));
    auto const path = nlohmann::json::parse(output_of(true, [&](output_options const& out) {
        path_command(std::to_string(one->pid()), address, out);
    }))["path"];
    ASSERT_GE(path.size(), 3U);
    EXPECT_EQ(path[0]["root"], "global app::g_connected") << path.dump(1);
    EXPECT_EQ(path[path.size() - 2]["member"], "second");
    EXPECT_EQ(path.back()["type"], "app::session");
}

std::string address_of(running_program const& program, std::string const& name) {
    return hexadecimal(program.at(name));
}

TEST(Path, OfMoreThanTwentyStepsShowsTheFirstAndTheLastTen) {
    auto const one = server({"JOBS=30"});
    std::istringstream text(output_of(false, [&](output_options const& out) {
        path_command(std::to_string(one->pid()), address_of(*one, "job0"), out);
    }));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);)
        lines.push_back(line);
    ASSERT_EQ(lines.size(), 21U) << text.str();
    EXPECT_EQ(lines[0], "global app::g_jobs");
    // The root, then the jobs from the newest one on.
    for (int i = 1; i < 10; ++i)
        EXPECT_NE(lines[i].find(address_of(*one, "job" + std::to_string(30 - i)) + ','), std::string::npos)
            << lines[i];
    EXPECT_EQ(lines[10], "  … and 11 objects more");
    for (int i = 11; i <= 20; ++i)
        EXPECT_NE(lines[i].find(address_of(*one, "job" + std::to_string(20 - i)) + ','), std::string::npos)
            << lines[i];
}

TEST(Holders, SayWhatWouldBeFreedWithAnObject) {
    auto const one = server({"JOBS=30", "PACKETS=10"});
    auto const ask = [&](bool json, std::string const& of) {
        return output_of(
            json, [&](output_options const& out) { holders_command(std::to_string(one->pid()), of, out); });
    };
    for (auto const& [name, kept] : {std::pair("job29", 30U), {"job10", 11U}, {"job0", 1U}}) {
        auto const all = nlohmann::json::parse(ask(true, address_of(*one, name)));
        auto const jobs =
            std::ranges::find(all["types"], "app::job", [](auto const& t) { return t["type"]; });
        ASSERT_NE(jobs, all["types"].end()) << all.dump(1);
        EXPECT_EQ((*jobs)["objects"], 30U);
        EXPECT_EQ(all["retained"].get<unsigned>() * 30, (*jobs)["bytes"].get<unsigned>() * kept) << name;
    }
    EXPECT_NE(ask(false, address_of(*one, "job29")).find("; retained "), std::string::npos);
    EXPECT_EQ(ask(false, "packet").find("; retained "), std::string::npos);
}

// The last pair may be on the stack still.
TEST(Leaks, NameArraysThatHoldEachOtherAndHoldersSaysThatTheyAreLost) {
    auto const one = server({"SHELVES=50"});
    std::string const id = std::to_string(one->pid());
    auto const all = nlohmann::json::parse(output_of(true, [&](output_options const& out) {
        report_command(open_process(one->pid()), "server", parts::leaks, out);
    }));
    auto const& groups = all["leaks"]["groups"];
    ASSERT_EQ(groups.size(), 1U) << groups.dump(1);
    EXPECT_GE(groups[0]["times"], 49U);
    EXPECT_EQ(groups[0]["length"], 2U);
    EXPECT_EQ(groups[0]["cycle"][0]["type"], "app::shelf[]");
    EXPECT_EQ(groups[0]["cycle"][0]["member"], "[].next");
    std::string const text =
        output_of(false, [&](output_options const& out) { holders_command(id, "shelf", out); });
    EXPECT_TRUE(text.starts_with("app::shelf[]: 100 objects, ")) << text;
    EXPECT_NE(text.find("Nothing reaches "), std::string::npos) << text;
    EXPECT_NE(text.find("  app::shelf[][].next\n"), std::string::npos) << text;
    std::string const held =
        output_of(false, [&](output_options const& out) { holders_command(id, "app::packet_queue", out); });
    EXPECT_EQ(held.find("Nothing reaches "), std::string::npos) << held;
}

TEST(Commands, AMisspeltOneIsNamedAndTheNearestOneSuggested) {
    auto const say = [](std::string const& words) {
        std::string const file = testing::TempDir() + "poolheap-misspelt-" + std::to_string(::getpid());
        int const status = std::system((POOLHEAP_TEST_PROGRAM " " + words + " 2>" + file).c_str());
        std::string text;
        std::getline(std::ifstream(file), text);
        std::filesystem::remove(file);
        EXPECT_EQ(WEXITSTATUS(status), 2) << words;
        return text;
    };
    EXPECT_EQ(
        say("cencus 1"),
        "poolheap: There is no command \"cencus\"; did you mean \"census\"? poolheap --help lists them.");
    EXPECT_EQ(say("xyz"), "poolheap: There is no command \"xyz\". poolheap --help lists them.");
    EXPECT_EQ(say("census").find("no command"), std::string::npos);
}

TEST(Holders, OfPacketsThatAStuckConsumerLeavesNameTheQueuesMember) {
    auto const one = server({"PACKETS=1000"});
    std::string const text = output_of(false, [&](output_options const& out) {
        holders_command(std::to_string(one->pid()), "packet", out);
    });
    EXPECT_NE(text.find("app::packet: 1,000 objects"), std::string::npos) << text;
    EXPECT_NE(text.find("     1,000  app::packet_queue::waiting, in "), std::string::npos) << text;
}

TEST(Outputs, AreWritableOrRefusedBeforeAnythingIsDone) {
    namespace fs = std::filesystem;
    std::string const folder = fs::temp_directory_path() / ("poolheap-outputs-" + std::to_string(::getpid()));
    ASSERT_TRUE(fs::create_directory(folder));
    auto const says = [](std::string const& path) -> std::string {
        try {
            expect_writable({.output = {}, .html = path, .folded = {}, .json = false});
        } catch (error const& e) {
            return e.what();
        }
        return "";
    };
    EXPECT_EQ(says(""), "");
    EXPECT_EQ(says(folder + "/new"), "");
    EXPECT_FALSE(fs::exists(folder + "/new")) << "nothing is opened";
    EXPECT_EQ(says("new"), "") << "in the working directory";
    EXPECT_EQ(says(folder), folder + " cannot be written: Is a directory.");
    std::string const name(300, 'x'), loop = folder + "/loop";
    std::filesystem::create_symlink("loop", loop);
    EXPECT_EQ(says(name), name + " cannot be written: File name too long.");
    EXPECT_EQ(says(loop), loop + " cannot be written: Too many levels of symbolic links.");
    EXPECT_EQ(says(folder + "/no/new"), folder + "/no/new cannot be written: No such file or directory.");
    ASSERT_EQ(::mkfifo((folder + "/pipe").c_str(), 0600), 0);
    EXPECT_EQ(says(folder + "/pipe"), "") << "without a reader";
    fs::remove_all(folder);
}

// A file that may not grow is as one on a full disk.
TEST(Outputs, AnOldReportStaysUntilTheNewOneIsWhole) {
    namespace fs = std::filesystem;
    std::string const folder = fs::temp_directory_path() / ("poolheap-whole-" + std::to_string(::getpid()));
    ASSERT_TRUE(fs::create_directory(folder));
    auto const one = server({"CONNECTED=5"});
    auto const old_file = folder + "/old", link = folder + "/link";
    fs::create_symlink("old", link);
    auto const text_of = [](std::string const& path) {
        std::ifstream file(path);
        return std::string{std::istreambuf_iterator<char>(file), {}};
    };
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    auto const handler = ::signal(SIGXFSZ, SIG_IGN);
    for (std::string const& path : {old_file, link})
        for (auto const& [member, json] : {std::pair(&output_options::output, false),
                                           {&output_options::output, true},
                                           {&output_options::html, false},
                                           {&output_options::folded, false}}) {
            output_options out{.output = "/dev/null", .html = {}, .folded = {}, .json = json};
            out.*member = path;
            auto const write = [&] {
                report_command(open_process(one->pid()), "server", parts::census, out);
            };
            std::ofstream(old_file) << "old";
            ASSERT_EQ(::chmod(old_file.c_str(), 0604), 0);
            rlimit const small{16, before.rlim_max};
            ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
            EXPECT_THROW(write(), error);
            ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
            EXPECT_EQ(text_of(old_file), "old");
            write();
            EXPECT_GT(text_of(old_file).size(), 16U);
            EXPECT_TRUE(fs::is_symlink(link));
            struct stat now{};
            EXPECT_EQ(::stat(old_file.c_str(), &now), 0);
            EXPECT_EQ(now.st_mode & 07777, 0604U);
            EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2) << "no part of a file is left";
        }
    ::signal(SIGXFSZ, handler);
    EXPECT_THROW(
        diff_command(old_file, old_file, {.output = "/dev/full", .html = {}, .folded = {}, .json = true}),
        error);
    EXPECT_TRUE(fs::is_character_file("/dev/full"));
    // The shell has the file open: it is written to, not replaced.
    std::string const census = "exec 3<" + old_file +
                               "; " POOLHEAP_TEST_PROGRAM " census --output /dev/stdout " +
                               std::to_string(one->pid());
    for (std::string const& to : {" > " + old_file + "; cat <&3 > " + link, " | cat > " + link}) {
        std::ofstream(old_file) << "old";
        EXPECT_EQ(std::system((census + to + '2').c_str()), 0);
        EXPECT_NE(text_of(link + '2').find("app::session"), std::string::npos) << to;
    }
    fs::remove_all(folder);
}

TEST(Run, AsksThatArriveDuringTheReportAtExitLoseNothing) {
    std::string const path =
        std::filesystem::temp_directory_path() / ("poolheap-run-" + std::to_string(::getpid()));
    int const child = ::fork();
    if (child == 0)
        ::_exit(run_command({"/bin/sh", "-c", "exit 7"}, POOLHEAP_TEST_PRELOAD,
                            {.output = path, .html = {}, .folded = {}, .json = false}));
    int status = 0;
    // A program that has ended is not waited for twice.
    while (::waitpid(child, &status, WNOHANG) == 0) {
        std::string const id = std::to_string(child);
        int program = 0;
        std::ifstream("/proc/" + id + "/task/" + id + "/children") >> program;
        std::string state;
        std::ifstream("/proc/" + std::to_string(program) + "/stat") >> state >> state >> state;
        if (state == "t") ::kill(child, SIGUSR2);
        ::usleep(500);
    }
    std::filesystem::remove(path);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 7);
}

// It may end while its threads are being stopped for a report.
TEST(Run, AProgramThatIsEndedWhileReportsAreAskedForKeepsItsStatus) {
    std::string const program = poolheap_tests::compile("threads", poolheap_tests::default_toolchain(), "-g");
    for (int i = 0; i < 10; ++i) {
        int const child = ::fork();
        if (child == 0) {
            ::dup2(::open("/dev/null", O_WRONLY), 1);
            ::dup2(1, 2);
            ::_exit(run_command({program}, POOLHEAP_TEST_PRELOAD,
                                {.output = "/dev/null", .html = {}, .folded = {}, .json = false}));
        }
        ::usleep(100'000);
        int status = 0;
        for (int n = 0; ::waitpid(child, &status, WNOHANG) == 0; ++n) {
            ::kill(child, n == i ? SIGTERM : SIGUSR2);
            ::usleep(1000);
        }
        ASSERT_TRUE(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
    }
}

TEST(Run, TheReportNamesTheProgramThatWasExecutedLast) {
    auto const report_of = [&](std::string const& script) {
        return output_of(false, [&](output_options const& out) {
            EXPECT_EQ(run_command({"/bin/sh", "-c", script}, POOLHEAP_TEST_PRELOAD, out), 0);
        });
    };
    EXPECT_TRUE(report_of("exec sleep 0").starts_with("poolheap: sleep\n"));
    EXPECT_TRUE(report_of("exit 0").starts_with("poolheap: sh\n"));
}

TEST(Run, EndsWithItsProgramAlsoIfItWasStartedWithoutSignalsOfChildren) {
    int const child = ::fork();
    if (child == 0) {
        ::signal(SIGCHLD, SIG_IGN);
        ::_exit(run_command({"/bin/sh", "-c", "exit 7"}, POOLHEAP_TEST_PRELOAD,
                            {.output = "/dev/null", .html = {}, .folded = {}, .json = false}));
    }
    int status = 0;
    EXPECT_TRUE(await([&] { return ::waitpid(child, &status, WNOHANG) == child; }));
    EXPECT_EQ(WEXITSTATUS(status), 7);
    ::kill(child, SIGKILL);
}

TEST(Run, TheProgramGetsItsSignalsWhileACopyIsAnalysed) {
    namespace fs = std::filesystem;
    std::string const path = fs::temp_directory_path() / ("poolheap-signals-" + std::to_string(::getpid()));
    std::string const page = path + ".page", got = path + ".got", ready = path + ".ready",
                      ends = path + ".end";
    ASSERT_EQ(::mkfifo(page.c_str(), 0600), 0);
    // The page is longer: until it is read, the report is not written to its end.
    int const reader = ::open(page.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(::fcntl(reader, F_SETPIPE_SZ, 4096), 0);
    int const child = ::fork();
    if (child == 0) {
        std::string const script = "trap 'touch " + got + "' USR1; touch " + ready + "; while [ ! -e " +
                                   ends + " ]; do sleep 0.01; done; exit 7";
        ::_exit(run_command({"/bin/sh", "-c", script}, POOLHEAP_TEST_PRELOAD,
                            {.output = path, .html = page, .folded = {}, .json = false}));
    }
    std::string const children =
        "/proc/" + std::to_string(child) + "/task/" + std::to_string(child) + "/children";
    int program = 0;
    ASSERT_TRUE(await([&] { return bool(std::ifstream(children) >> program); }));
    EXPECT_TRUE(await([&] { return fs::exists(ready); }));
    ::kill(child, SIGUSR2);
    pollfd is_written{reader, POLLIN, 0};
    EXPECT_EQ(::poll(&is_written, 1, 10'000), 1);
    ::kill(program, SIGUSR1);
    EXPECT_TRUE(await([&] { return fs::exists(got); }));
    std::ofstream{ends};
    int status = 0;
    char some[4096];
    EXPECT_TRUE(await([&] {
        while (::read(reader, some, sizeof some) > 0) {}
        return ::waitpid(child, &status, WNOHANG) == child;
    }));
    ::close(reader);
    ::kill(child, SIGKILL);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    for (std::string const& each : {path, page, got, ready, ends})
        fs::remove(each);
}

TEST(Run, AThreadThatDoesNotStopInTimeGoesOnAfterwards) {
    namespace fs = std::filesystem;
    std::string const path = fs::temp_directory_path() / ("poolheap-vfork-" + std::to_string(::getpid()));
    std::string const ends = path + ".end", began = path + ".begin", errors = path + ".errors";
    std::string const program = poolheap_tests::compile("vfork", poolheap_tests::default_toolchain());
    int const child = ::fork();
    if (child == 0) {
        ::dup2(::creat(errors.c_str(), 0600), 2);
        ::_exit(run_command({program, ends, began}, POOLHEAP_TEST_PRELOAD,
                            {.output = path, .html = {}, .folded = {}, .json = false}));
    }
    ASSERT_TRUE(await([&] { return fs::exists(began); }));
    ::kill(child, SIGUSR2);
    std::string said;
    EXPECT_TRUE(await([&] { return std::getline(std::ifstream(errors), said) && said.ends_with("file."); }));
    EXPECT_NE(said.find(" does not stop: "), std::string::npos) << said;
    std::ofstream{ends};
    int status = 0;
    EXPECT_TRUE(await([&] { return ::waitpid(child, &status, WNOHANG) == child; }));
    ::kill(child, SIGKILL);  // and with it, what it traces goes on
    EXPECT_EQ(WEXITSTATUS(status), 7);
    for (std::string const& each : {path, ends, began, errors})
        fs::remove(each);
}

TEST(Holders, AContainerIsOneLine) {
    auto const one = server({"CONNECTED=500"});
    std::string const text = output_of(false, [&](output_options const& out) {
        holders_command(std::to_string(one->pid()), "session", out);
    });
    EXPECT_NE(text.find("       500  global app::g_connected, in map node of"), std::string::npos) << text;
    EXPECT_EQ(text.find("g_connected"), text.rfind("g_connected")) << text;
    // The map's own pointers to its root, first and last node.
    auto const all = nlohmann::json::parse(output_of(true, [&](output_options const& out) {
        report_command(open_process(one->pid()), "server", parts::census, out);
    }));
    std::size_t rows = 0;
    for (auto const& row : all["holders"])
        if (row["root"] == "global app::g_connected" && std::string(row["of"]).starts_with("map node")) {
            ++rows;
            EXPECT_EQ(row["references"], 3);
        }
    EXPECT_EQ(rows, 1U);
}

}  // namespace
}  // namespace poolheap::test
