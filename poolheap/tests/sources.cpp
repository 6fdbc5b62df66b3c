// SPDX-License-Identifier: BSL-1.0
// Processes, frozen children and core files as images, and their symbols.
#include "elf.hpp"
#include "image.hpp"
#include "programs.hpp"
#include "symbols.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace poolheap;
using namespace poolheap_tests;
namespace fs = std::filesystem;

std::string threads_program(std::string const& flags = "-g") {
    return compile("threads", default_toolchain(), flags);
}

void expect_the_threads_program(image const& from, running_program const& program, bool has_names = true) {
    EXPECT_EQ(from.get<int>(program.at("g_number")), 4711);
    EXPECT_EQ(from.text(program.at("g_text")), "a constant in the file");
    address const sparse = program.at("sparse");
    EXPECT_EQ(from.text(sparse + (128u << 20)), "in the middle");
    EXPECT_EQ(from.text(sparse + (256u << 20) - 4096), "at the end");
    EXPECT_EQ(from.get<std::uint64_t>(sparse + (50u << 20)), 0u);
    std::vector<std::byte> across(3 * 4096, std::byte{1});
    EXPECT_EQ(from.read(sparse + (128u << 20) - 4096, across), across.size());
    EXPECT_EQ(across[0], std::byte{0});
    EXPECT_EQ(across[4096], std::byte{'i'});
    EXPECT_EQ(from.get<int>(16), std::nullopt);

    ASSERT_EQ(from.threads().size(), 5u);
    for (thread const& t : from.threads()) {
        EXPECT_GT(t.registers.size(), 16u);
        mapping const* const stack = from.find_mapping(t.stack_pointer);
        ASSERT_NE(stack, nullptr);
        EXPECT_TRUE(stack->writable);
        EXPECT_EQ(from.get<address>(t.thread_pointer), t.thread_pointer);  // as the ABI of x86-64 says
    }
    if (has_names) {
        EXPECT_EQ(1, std::ranges::count(from.threads(), "worker-3", &thread::name));
    }

    symbols const names(from);
    ASSERT_FALSE(names.modules().empty());
    EXPECT_EQ(names.find(program.at("g_number"))->name, "g_number");
    EXPECT_EQ(names.find(program.at("g_number") + 2)->begin, program.at("g_number"));
    EXPECT_EQ(names.find(program.at("run"))->name, "server::worker::run(int)");
    EXPECT_FALSE(names.find(16));
}

TEST(Process, IsCopiedWithItsThreadsAndGoesOn) {
    running_program program(threads_program());
    auto const from = open_image(std::to_string(program.pid()));
    EXPECT_TRUE(program.is_running());
    EXPECT_LT(from->stopped_seconds(), 5);
    EXPECT_GT(from->stopped_seconds(), 0);
    expect_the_threads_program(*from, program);
}

// In a child of ours, to which the program is not related, as to a user's poolheap: 0 if all is as it says.
int look_at_a_stranger(running_program const& program) {
    auto const children_of = [](int pid) {
        std::string const id = std::to_string(pid);
        std::string line;
        std::getline(std::ifstream("/proc/" + id + "/task/" + id + "/children"), line);
        return line;
    };
    auto from = open_image(std::to_string(program.pid()));
    if (!from->remarks().empty() || from->threads().size() != 5) return 1;
    if (!program.is_running() || !children_of(program.pid()).empty()) return 2;
    if (from->get<int>(program.at("g_number")) != 4711) return 3;
    from.reset();
    return children_of(program.pid()).empty() && children_of(::getpid()).empty() ? 0 : 4;
}

TEST(Process, ThatIsNoChildIsCopiedAndNoProcessOfItIsLeft) {
    running_program program(threads_program());
    int const child = ::fork();
    if (child == 0) ::_exit(look_at_a_stranger(program));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Process, ThatIsStoppedStaysStopped) {
    running_program program(threads_program());
    ::kill(program.pid(), SIGSTOP);
    ::usleep(20'000);
    EXPECT_FALSE(program.is_running());
    auto const from = open_image(std::to_string(program.pid()));
    EXPECT_EQ(from->threads().size(), 5u);
    ::usleep(20'000);
    EXPECT_FALSE(program.is_running());
    ::kill(program.pid(), SIGCONT);
    ::usleep(20'000);
    EXPECT_TRUE(program.is_running());
}

TEST(Process, ThatStandsStillIsReadWhereItLies) {
    running_program program(threads_program());
    ::kill(program.pid(), SIGSTOP);
    auto const from = open_frozen(program.pid());
    EXPECT_EQ(from->stopped_seconds(), 0);
    expect_the_threads_program(*from, program);
}

TEST(Process, IsReadRightInAnyOrderAlsoNextToHoles) {
    running_program program(threads_program());
    ::kill(program.pid(), SIGSTOP);
    auto const from = open_frozen(program.pid());
    std::vector<address> places;
    for (mapping const& m : from->mappings())
        for (address at = m.begin; m.readable && at < m.end && at < m.begin + (2 << 20); at += 64 << 10)
            places.push_back(at);
    std::vector<std::optional<address>> expected;
    for (address const at : places)
        expected.push_back(open_frozen(program.pid(), {thread()})->get<address>(at));
    // The last words of mappings: around them is what cannot be read.
    for (std::size_t i = 0; i < places.size(); ++i) {
        EXPECT_EQ(from->get<address>(places[i]), expected[i]);
        for (mapping const& m : from->mappings())
            static_cast<void>(from->get<address>(m.end - 8));
        EXPECT_EQ(from->get<address>(places[i]), expected[i]);
    }
}

TEST(Process, WhoseMainThreadHasEndedIsCopiedByAnotherThread) {
    running_program program(threads_program(), {"MAIN_ENDS=1"});
    ::usleep(20'000);
    auto const from = open_image(std::to_string(program.pid()));
    EXPECT_TRUE(from->remarks().empty());
    EXPECT_EQ(from->threads().size(), 4u);
    EXPECT_EQ(from->get<int>(program.at("g_number")), 4711);
}

// For a moment, a thread of it has registers that are not its own.
TEST(Process, GoesOnWhenSignalsInterruptWhoCopiesIt) {
    running_program program(threads_program());
    struct sigaction handler{}, before{};
    handler.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &handler, &before);
    itimerval timer{{0, 50}, {0, 50}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
    for (int i = 0; i < 20; ++i)
        EXPECT_TRUE(open_image(std::to_string(program.pid()))->remarks().empty());
    timer = {};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
    ::sigaction(SIGALRM, &before, nullptr);
    EXPECT_TRUE(program.is_running());
}

// It waits for a signal again and again.
TEST(Process, Of32BitsIsLeftAsItIs) {
    struct {
        Elf32_Ehdr file{};
        Elf32_Phdr part{};
        unsigned char code[9]{0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7};
    } program;
    constexpr Elf32_Addr k_begin = 0x8048000;
    std::memcpy(program.file.e_ident, "\177ELF\1\1\1", 7);
    program.file.e_type = ET_EXEC, program.file.e_machine = EM_386, program.file.e_version = 1;
    program.file.e_entry = k_begin + offsetof(decltype(program), code);
    program.file.e_phoff = sizeof program.file, program.file.e_ehsize = sizeof program.file;
    program.file.e_phentsize = sizeof program.part, program.file.e_phnum = 1;
    program.part = {PT_LOAD, 0, k_begin, k_begin, sizeof program, sizeof program, PF_R | PF_X, 4096};
    std::string const path = fs::temp_directory_path() / ("poolheap-32-" + std::to_string(::getpid()));
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<char const*>(&program), sizeof program);
    fs::permissions(path, fs::perms::owner_all);
    int const child = ::fork();
    if (child == 0) {
        ::execl(path.c_str(), path.c_str(), nullptr);
        ::_exit(1);
    }
    ::usleep(20'000);
    int status = 0;
    bool const is_running = ::waitpid(child, &status, WNOHANG) == 0;
    if (is_running) {
        EXPECT_FALSE(open_image(std::to_string(child))->remarks().empty());
        ::usleep(20'000);
        EXPECT_EQ(::waitpid(child, &status, WNOHANG), 0) << status;
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
    }
    fs::remove(path);
    if (!is_running) GTEST_SKIP() << "the system runs no programs of 32 bits";
}

TEST(Process, WithAnotherRootDirectoryHasItsNames) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root has chroot";
    std::string const program = threads_program("-g -static");
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    int const child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], 1);
        if (::chroot(fs::path(program).parent_path().c_str()) != 0) ::_exit(1);
        ::execl(("/" + fs::path(program).filename().string()).c_str(), "program", nullptr);
        ::_exit(1);
    }
    ::close(ends[1]);
    std::string said(4096, '\0');
    ASSERT_GT(::read(ends[0], said.data(), said.size()), 0);
    address const number = std::stoull(said.substr(said.find(' ') + 1), nullptr, 16);
    auto const from = open_image(std::to_string(child));
    EXPECT_EQ(symbols(*from).find(number)->name, "g_number");
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
}

TEST(Process, ThatDoesNotExistIsRefusedInASentence) {
    try {
        static_cast<void>(open_image("99999999"));
        FAIL();
    } catch (error const& e) {
        EXPECT_STREQ(e.what(), "There is no process 99999999.");
    }
    EXPECT_THROW(static_cast<void>(open_frozen(99999999)), error);
    EXPECT_THROW(static_cast<void>(open_image(std::to_string(::getpid()))), error);
}

TEST(CoreFile, OfGcoreAnswersAsTheProcess) {
    running_program program(threads_program());
    std::string const core = program.core();
    if (core.empty()) GTEST_SKIP() << "there is no gcore";
    auto const from = open_image(core);
    expect_the_threads_program(*from, program, false);
    EXPECT_TRUE(from->remarks().empty());
}

TEST(CoreFile, OfACrashAnswersAsTheProcess) {
    running_program program(threads_program());
    std::string const core = program.crash();
    if (core.empty()) GTEST_SKIP() << "the system writes no core files to the working directory";
    auto const from = open_image(core);
    expect_the_threads_program(*from, program, false);
    EXPECT_TRUE(from->remarks().empty());
}

TEST(CoreFile, WhoseProgramWasBuiltAnewSaysSo) {
    fs::path const copy = fs::temp_directory_path() / ("poolheap-rebuilt-" + std::to_string(::getpid()));
    fs::copy_file(threads_program(), copy);
    running_program program(copy.string());
    std::string const core = program.core();
    fs::remove(copy);
    if (core.empty()) GTEST_SKIP() << "there is no gcore";
    fs::copy_file(threads_program("-g -O1"), copy);
    auto const from = open_image(core);
    EXPECT_EQ(from->get<int>(program.at("g_number")), 4711);
    symbols const names(*from);
    EXPECT_FALSE(names.find(program.at("g_number")));
    std::string code(64, ' ');
    EXPECT_EQ(from->read(program.at("run"), std::as_writable_bytes(std::span(code))), 0u);
    ASSERT_EQ(from->remarks().size(), 1u);
    EXPECT_NE(from->remarks()[0].find("is another build"), std::string::npos) << from->remarks()[0];
    fs::remove(copy);
}

std::string message_for(std::string const& content) {
    fs::path const path = fs::temp_directory_path() / ("poolheap-core-" + std::to_string(::getpid()));
    std::ofstream(path, std::ios::binary) << content;
    std::string message;
    try {
        static_cast<void>(open_image(path.string()));
    } catch (error const& e) {
        message = e.what();
    }
    fs::remove(path);
    return message.starts_with(path.string()) ? message.substr(path.string().size()) : message;
}

std::string content_of(std::string const& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

TEST(CoreFile, ThatIsNoneIsRefusedInASentence) {
    EXPECT_EQ(message_for(""),
              " is empty, or no regular file. Give the number of a process, or a core file.");
    EXPECT_EQ(message_for("#!/bin/sh\n"), " is no ELF file. Give the number of a process, or a core file.");
    EXPECT_EQ(message_for("\177ELF"),
              " is truncated: it ends within the ELF header. Give the number of a process, or a core file.");
    EXPECT_EQ(message_for(content_of("/proc/self/exe")),
              " is a program or library, no core file. Give the number of a process, or a core file.");
    EXPECT_THROW(static_cast<void>(open_image("/does/not/exist")), error);
    EXPECT_THROW(static_cast<void>(open_image("/dev/zero")), error);
    EXPECT_THROW(static_cast<void>(open_image("/tmp")), error);
}

TEST(CoreFile, WithMoreMappingsThanItsHeaderCanCountHasThemAll) {
    constexpr std::uint32_t k_mappings = 70'000;
    auto const bytes_of = [](auto const& part) {
        return std::string(reinterpret_cast<char const*>(&part), sizeof part);
    };
    Elf64_Nhdr const note{5, 200, NT_PRSTATUS};
    std::string const thread = bytes_of(note) + std::string("CORE\0\0\0\0", 8) + std::string(200, '\0');
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_CORE;
    header.e_machine = EM_X86_64;
    header.e_phnum = PN_XNUM;  // the first section has the number
    header.e_shoff = sizeof header;
    header.e_phoff = sizeof header + sizeof(Elf64_Shdr);
    Elf64_Shdr section{};
    section.sh_info = k_mappings + 1;
    std::string content = bytes_of(header) + bytes_of(section);
    Elf64_Phdr segment{};
    segment.p_type = PT_NOTE;
    segment.p_offset = header.e_phoff + (k_mappings + 1) * sizeof segment;
    segment.p_filesz = 2 * thread.size();
    content += bytes_of(segment);
    segment = {.p_type = PT_LOAD,
               .p_flags = PF_R,
               .p_offset = 0,
               .p_vaddr = 0,
               .p_paddr = 0,
               .p_filesz = 4096,
               .p_memsz = 4096,
               .p_align = 4096};
    for (std::uint32_t i = 1; i <= k_mappings; ++i) {
        segment.p_vaddr = i * 8192;
        content += bytes_of(segment);
    }
    fs::path const path = fs::temp_directory_path() / ("poolheap-core-" + std::to_string(::getpid()));
    std::ofstream(path, std::ios::binary) << content + thread + thread;
    auto const from = open_image(path.string());
    fs::remove(path);
    EXPECT_EQ(from->mappings().size(), k_mappings);
    EXPECT_EQ(from->threads().size(), 2u);
    EXPECT_EQ(from->get<std::uint32_t>(k_mappings * 8192 + 4), header.e_ident[4] | ELFDATA2LSB << 8);
    // A thread less than its header says: gcore writes them at the end.
    EXPECT_EQ(message_for(content + thread), " is truncated: its threads are missing. Was the disk full, or "
                                             "the limit of core files (ulimit -c) too low?");
}

// Reads all that a reader of images reads.
void read_everything(std::string const& core) {
    auto const from = open_image(core);
    std::vector<std::byte> page(4096);
    for (mapping const& m : from->mappings()) {
        static_cast<void>(from->read(m.begin, page));
        static_cast<void>(from->read(m.end - 16, page));
    }
    symbols const names(*from);
    for (module const& m : names.modules())
        static_cast<void>(names.find(m.begin + 0x2000));
}

TEST(CoreFile, ThatIsDamagedIsReadOrRefusedButNeverCrashes) {
    running_program program(threads_program());
    std::string const core = program.crash();
    if (core.empty()) GTEST_SKIP() << "the system writes no core files to the working directory";
    std::string content = content_of(core);
    // Headers and notes come first: the reader believes them.
    content.resize(std::min<std::size_t>(content.size(), 1 << 16));
    fs::path const path = core + "-damaged";
    std::mt19937 random(4711);
    std::size_t refused = 0;
    auto const try_it = [&](std::string const& damaged) {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
        try {
            read_everything(path.string());
        } catch (error const& e) {
            EXPECT_GT(std::string(e.what()).size(), 20u);
            ++refused;
        }
    };
    for (std::size_t bytes = 0; bytes < 4096; bytes += 131)
        try_it(content.substr(0, bytes));
    EXPECT_GT(refused, 10u);
    for (int i = 0; i < 200; ++i) {
        std::string damaged = content;
        std::size_t const within = i % 3 == 0 ? 64 : i % 3 == 1 ? 4096 : damaged.size();
        for (unsigned n = random() % 8 + 1; n > 0; --n) {
            std::size_t const at = random() % within;
            static constexpr unsigned char k_nasty[]{0, 1, 0x7f, 0x80, 0xff};
            damaged[at] = static_cast<char>(random() % 2 == 0 ? k_nasty[random() % 5] : random());
        }
        try_it(damaged);
    }
}

}  // namespace
