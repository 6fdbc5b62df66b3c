// SPDX-License-Identifier: BSL-1.0

// A process as an image. Its threads stop (ptrace: seize and interrupt each, until none is new; read registers) while one of them executes
// two forks, and go on:
//
//   program ─fork─▶ first copy ─fork─▶ second copy     frozen before its first instruction, read in place, ended with the image
//
// The first copy ends at once and is waited for by the program's own thread, so no process is left that the program does not know, and no
// signal tells it of one; the second one then is a child of init. A child of ours (`run`) is copied once: the copy is our child.
// Where that cannot be, since a filter of system calls or the machine is in the way, the program stands still as long as the image lives.

#include "image.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace poolheap {
namespace {

using clock = std::chrono::steady_clock;
#if defined(__x86_64__)
constexpr std::uint16_t k_machine = EM_X86_64;
constexpr unsigned k_regsets[]{NT_PRSTATUS, NT_X86_XSTATE};
#elif defined(__aarch64__)
constexpr std::uint16_t k_machine = EM_AARCH64;
constexpr unsigned k_regsets[]{NT_PRSTATUS, NT_ARM_TLS, NT_FPREGSET};
#else
constexpr std::uint16_t k_machine = EM_RISCV;
constexpr unsigned k_regsets[]{NT_PRSTATUS, NT_FPREGSET};
#endif

std::string proc(int pid, char const* what) { return "/proc/" + std::to_string(pid) + "/" + what; }

// Of the first line that begins with the name; "": the first line.
std::string field(std::string const& file, std::string_view name) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(name))
            return line.substr(std::min(line.size(), line.find_first_not_of(" \t", name.size())));
    return {};
}

[[noreturn]] void refuse(int pid, int reason) {
    std::string const who = "Process " + std::to_string(pid);
    std::string const tracer = field(proc(pid, "status"), "TracerPid:");
    if (field(proc(pid, "status"), "State:").starts_with('Z')) throw error(who + " has ended.");
    if (reason == ESRCH || tracer.empty()) throw error("There is no process " + std::to_string(pid) + ".");
    if (tracer != "0" && tracer != std::to_string(::getpid()))
        throw error(who + " is being traced by process " + tracer + ", a debugger perhaps: end that first.");
    if (reason == EPERM || reason == EACCES)
        throw error(who +
                    " may not be looked into. Run poolheap as the same user or as root; where "
                    "/proc/sys/kernel/yama/ptrace_scope is 1, a process may look into its children alone.");
    throw error(who + " cannot be looked into: " + std::strerror(reason) + ".");
}

std::vector<mapping> read_mappings(int pid) {
    std::vector<mapping> all;
    std::ifstream in(proc(pid, "maps"));
    for (std::string line; std::getline(in, line);) {
        mapping m;
        char dash;
        std::string access, device, inode;
        std::istringstream words(line);
        words >> std::hex >> m.begin >> dash >> m.end >> access >> m.offset >> device >> inode;
        if (!words) continue;
        m.readable = access[0] == 'r', m.writable = access[1] == 'w', m.executable = access[2] == 'x';
        std::getline(words >> std::ws, m.path);
        all.push_back(std::move(m));
    }
    return all;
}

std::size_t read_process(int pid, address from, std::span<std::byte> to) {
    std::size_t done = 0;
    while (done < to.size()) {
        iovec local{to.data() + done, to.size() - done};
        iovec remote{reinterpret_cast<void*>(from + done), to.size() - done};
        ssize_t const got = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (got <= 0) break;
        done += static_cast<std::size_t>(got);
    }
    return done;
}

}  // namespace

thread stopped_thread(int id) {
    thread t;
    t.id = id;
    std::byte content[16384];
    for (unsigned const regset : k_regsets) {
        iovec to{content, sizeof content};
        if (::ptrace(PTRACE_GETREGSET, id, regset, &to) == 0)
            t.add_registers(k_machine, regset, {content, to.iov_len});
    }
    return t;
}

namespace {

// All threads of a process, stopped.
class stopped_threads {
public:
    explicit stopped_threads(int pid) : m_pid(pid) {
        // A thread that runs may start another one, so until a look finds none. All stop at once, and are waited for afterwards.
        for (std::vector<int> found{0}; !found.empty();) {
            found.clear();
            std::error_code e;
            for (auto const& one : std::filesystem::directory_iterator(proc(pid, "task"), e))
                if (int const id = std::atoi(one.path().filename().c_str());
                    m_seen.insert(id).second && interrupt(id))
                    found.push_back(id);
            int stuck = 0;
            for (auto const limit = clock::now() + std::chrono::seconds(2); int const id : found)
                if (!await(id, limit)) stuck = id;
            if (stuck == 0) continue;
            // Letting go needs a stopped thread; our own end does it in any case.
            go_on();
            throw error(
                "Thread " + std::to_string(stuck) + " of process " + std::to_string(pid) +
                " does not stop: it waits in the kernel for a device, a file system or a child that it "
                "made by vfork. Try again, or take a core file.");
        }
        if (m_threads.empty()) refuse(pid, m_error);
        m_pid = m_stopped.front().first;
    }
    ~stopped_threads() { go_on(); }
    stopped_threads(stopped_threads const&) = delete;
    stopped_threads& operator=(stopped_threads const&) = delete;

    void go_on() {
        // The signal that a thread was about to get is given to it.
        for (auto const& [id, signal] : m_stopped)
            ::ptrace(PTRACE_DETACH, id, nullptr, signal);
        m_stopped.clear();
    }
    std::vector<thread>& threads() { return m_threads; }
    // Of a thread that has the memory: a main thread that has ended has none.
    int id() const { return m_pid; }
    // A copy of the process that has executed nothing since; 0: there is none. For a moment, a thread has registers that are not its own:
    // no signal may end us.
    int fork();

private:
    // False: a thread that has ended, or ends just now.
    bool interrupt(int id) {
        if (::ptrace(PTRACE_SEIZE, id, nullptr, nullptr) != 0) {
            m_error = errno;
            std::string const state = field(proc(m_pid, "task/") + std::to_string(id) + "/status", "State:");
            if (state.empty() || state[0] == 'Z' || state[0] == 'X') return false;
            go_on();
            refuse(m_pid, m_error);
        }
        ::ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr);
        return true;
    }
    // False: it does not stop.
    bool await(int id, clock::time_point limit) {
        siginfo_t seen;
        auto const look = [&](int kinds) {
            seen.si_pid = 0;
            return ::waitid(P_PID, static_cast<id_t>(id), &seen, kinds | WSTOPPED | WNOHANG | __WALL);
        };
        // The next one has mostly stopped meanwhile, so the pauses get longer.
        int failed = 0;
        for (; (failed = look(WEXITED | WNOWAIT)) == 0 && seen.si_pid == 0 && clock::now() < limit;
             m_pause = std::min(2 * m_pause, 1000U))
            ::usleep(m_pause);
        if (failed != 0 || seen.si_pid == 0) return failed != 0;
        // The end of a whole program is for its parent, which `run` is.
        if (look(id == m_pid ? 0 : WEXITED) == 0 && seen.si_pid != 0 && seen.si_code == CLD_TRAPPED) {
            m_stopped.emplace_back(id, (seen.si_status >> 8) == 0 ? seen.si_status : 0);
            m_threads.push_back(stopped_thread(id));
        }
        return true;
    }

    // A system call by a stopped thread, whose registers are as before afterwards. The process that it made, stopped; 0: none.
    int call(int id, long number, std::uint64_t first, std::uint64_t third, int* signal);

    int m_pid;
    address m_instruction = 0;
    int m_error = ESRCH;
    unsigned m_pause = 20;  // microseconds
    std::set<int> m_seen;
    std::vector<std::pair<int, int>> m_stopped;  // thread, signal
    std::vector<thread> m_threads;
};

#if defined(__x86_64__)

int stopped_threads::call(int id, long number, std::uint64_t first, std::uint64_t third, int* signal) {
    unsigned long copy = 0;
    int status = 0;
    user_regs_struct before{};
    // A program of 32 bits has other system calls.
    constexpr unsigned long long k_code_of_64_bits = 0x33;
    if (::ptrace(PTRACE_GETREGS, id, nullptr, &before) != 0 || before.cs != k_code_of_64_bits) return 0;
    user_regs_struct call = before;
    call.rip = m_instruction;
    call.rax = static_cast<unsigned long long>(number);
    // The system call that was interrupted is not begun again here, but by the old registers.
    call.orig_rax = ~0ull;
    call.rdi = first;
    call.rsi = call.r10 = call.r8 = 0;
    call.rdx = third;
    if (::ptrace(PTRACE_SETREGS, id, nullptr, &call) != 0) return 0;
    for (bool is_done = false; !is_done;) {
        if (::ptrace(PTRACE_SINGLESTEP, id, nullptr, nullptr) != 0 || ::waitpid(id, &status, __WALL) < 0 ||
            !WIFSTOPPED(status))
            return 0;
        int const event = status >> 16;
        is_done = event == 0 && WSTOPSIG(status) == SIGTRAP;
        if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_CLONE)
            ::ptrace(PTRACE_GETEVENTMSG, id, nullptr, &copy);
        else if (event == 0 && !is_done && signal != nullptr)
            *signal = WSTOPSIG(status);  // it gets it when it goes on
    }
    ::ptrace(PTRACE_SETREGS, id, nullptr, &before);
    return copy != 0 && ::waitpid(static_cast<int>(copy), &status, __WALL) > 0 ? static_cast<int>(copy) : 0;
}

int stopped_threads::fork() {
    auto& [id, signal] = m_stopped.front();
    // The kernel's own pages of each program have the instruction; where they are, it says at the start of the program.
    std::ifstream auxiliary(proc(m_pid, "auxv"), std::ios::binary);
    for (Elf64_auxv_t one; auxiliary.read(reinterpret_cast<char*>(&one), sizeof one);) {
        if (one.a_type != AT_SYSINFO_EHDR) continue;
        std::vector<std::byte> code(16384);
        code.resize(read_process(m_pid, one.a_un.a_val, code));
        constexpr std::byte k_syscall[]{std::byte{0x0f}, std::byte{0x05}};
        auto const found = std::ranges::search(code, k_syscall);
        if (!found.empty())
            m_instruction = one.a_un.a_val + static_cast<address>(found.begin() - code.begin());
    }
    if (m_instruction == 0) return 0;
    std::string const file = proc(m_pid, "status");
    // A filter may kill who forks, unless it is our own, as that of a container. A program that is its own init would have to wait for the
    // copy.
    std::string const filters = field(file, "Seccomp_filters:");
    bool const is_filtered =
        field(file, "Seccomp:") != "0" &&
        (filters.empty() || filters != field(proc(::getpid(), "status"), "Seccomp_filters:"));
    std::string const numbers = field(file, "NStgid:");
    bool const is_ours = field(file, "PPid:") == std::to_string(::getpid());
    if (!is_ours && (numbers == "1" || numbers.ends_with("\t1"))) return 0;
    long const options = PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (::ptrace(PTRACE_SETOPTIONS, id, nullptr,
                 (options & ~PTRACE_O_EXITKILL) | (is_filtered ? PTRACE_O_SUSPEND_SECCOMP : 0)) != 0)
        return 0;
    int const first = call(id, SYS_clone, is_ours ? CLONE_PARENT | SIGCHLD : 0, 0, &signal);
    int copy = first;
    if (copy != 0) ::ptrace(PTRACE_SETOPTIONS, copy, nullptr, options);
    if (copy != 0 && !is_ours) {
        copy = call(first, SYS_clone, SIGCHLD, 0, nullptr);
        if (copy != 0) ::ptrace(PTRACE_SETOPTIONS, copy, nullptr, PTRACE_O_EXITKILL);
        ::kill(first, SIGKILL);
        ::waitpid(first, nullptr, __WALL);
        call(id, SYS_wait4, static_cast<std::uint64_t>(first), WNOHANG | __WALL, &signal);
    }
    ::ptrace(PTRACE_SETOPTIONS, id, nullptr, 0);
    return copy;
}

#else

int stopped_threads::fork() { return 0; }

#endif

class process_image final : public image {
public:
    // Of a program; `pid` is what stands still. A copy ends with the image, others go on with its end.
    process_image(int program, int pid, std::vector<thread> threads, double stopped = 0,
                  std::unique_ptr<stopped_threads> still = {})
        : m_pid(pid), m_still(std::move(still)) {
        m_mappings = read_mappings(pid);
        m_threads = std::move(threads);
        m_stopped_seconds = stopped;
        for (thread& t : m_threads)  // not before: the program may go on
            t.name = field(proc(program, "task/") + std::to_string(t.id) + "/comm", "");
        if (m_still != nullptr)
            m_remarks.emplace_back(
                "The program stood still during the analysis, since it could not be made to fork.");
    }
    ~process_image() override {
        if (m_stopped_seconds == 0) return;
        ::kill(m_pid, SIGKILL);
        ::waitpid(m_pid, nullptr, __WALL);
    }

    std::string file(std::string const& path) const override {
        // The program itself can be read even after it was replaced or deleted.
        std::error_code e;
        std::string const program = proc(m_pid, "exe");
        if (std::filesystem::read_symlink(program, e) == path) return program;
        // Of another mount namespace, paths begin at its root; of a chroot in ours, at our root.
        std::string const inside = proc(m_pid, "root") + path;
        return std::filesystem::exists(inside, e) ? inside : path;
    }

    // Small reads are answered from pages that were read before.
    std::size_t read(address from, std::span<std::byte> to) const override {
        address const begin = from & ~(k_window - 1);
        window& w = m_windows[begin / k_window % std::size(m_windows)];
        if (to.size() >= k_window) return read_process(m_pid, from, to);
        if (w.begin != begin) w.begin = read_process(m_pid, begin, w.bytes) == k_window ? begin : 1;
        if (w.begin != begin) return 0;
        std::size_t const bytes = std::min<std::size_t>(to.size(), begin + k_window - from);
        std::memcpy(to.data(), w.bytes + (from - begin), bytes);
        return bytes == to.size() ? bytes : bytes + read(from + bytes, to.subspan(bytes));
    }

private:
    static constexpr address k_window = 4 << 10;  // is there as a whole, or not at all
    struct window {
        address begin = 1;  // of none
        std::byte bytes[k_window];
    };

    int m_pid;
    std::unique_ptr<stopped_threads> m_still;
    mutable window m_windows[64];
};

}  // namespace

std::unique_ptr<image> open_process(int pid) {
    if (field(proc(pid, "status"), "State:").empty()) refuse(pid, ESRCH);
    if (pid == ::getpid()) throw error("Process " + std::to_string(pid) + " is poolheap itself.");
    // A copy that a program made of itself (src/heap_report.hpp) need not be copied.
    if (field(proc(pid, "status"), "Name:") == "pooled-frozen") return open_frozen(pid);
    auto const start = clock::now();
    auto stopped = std::make_unique<stopped_threads>(pid);
    sigset_t all, before;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &before);
    int const copy = stopped->fork();
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    auto threads = std::move(stopped->threads());
    if (copy == 0)
        return std::make_unique<process_image>(pid, stopped->id(), std::move(threads), 0, std::move(stopped));
    stopped->go_on();
    double const seconds = std::chrono::duration<double>(clock::now() - start).count();
    return std::make_unique<process_image>(pid, copy, std::move(threads), seconds);
}

std::unique_ptr<image> open_frozen(int pid, std::vector<thread> threads) {
    if (threads.empty()) threads = std::move(stopped_threads(pid).threads());
    auto found = std::make_unique<process_image>(pid, pid, std::move(threads));
    std::byte probe;
    if (found->mappings().empty() || read_process(pid, found->mappings()[0].begin, {&probe, 1}) != 1)
        refuse(pid, errno);
    return found;
}

}  // namespace poolheap
