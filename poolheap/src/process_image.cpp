// SPDX-License-Identifier: BSL-1.0

// A process as an image. It stands still from stopped_threads' constructor to its destructor:
//
//   open_process
//     prepare      maps and touches as much memory of our own as the copy will take, so that no page fault makes the program wait
//     stop         ptrace: seize and interrupt each thread, until no thread is new; read registers
//     copy         writable memory and small read-only ranges, of anonymous memory the resident pages alone
//     go on
//
// What was not copied (text, large read-only files) cannot change and is read from the process while it lives.

#include "process_image.hpp"

#include "error.hpp"
#include "registers.hpp"

#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <set>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace poolheap {
namespace {

using clock = std::chrono::steady_clock;
constexpr std::uint64_t k_page = 4096;
// Read-only ranges up to this size are copied, too: vtables are in one, and a library may be unloaded later.
constexpr std::uint64_t k_small_range = 4 << 20;
// A run of pages that are not resident ends a copied range; shorter gaps are copied as zeros, which takes less than a system call.
constexpr std::uint64_t k_gap_pages = 8;

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

std::string first_line(std::string const& file) {
    std::string line;
    std::getline(std::ifstream(file), line);
    return line;
}

std::string field(std::string const& file, std::string const& name) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(name))
            return line.substr(std::min(line.size(), line.find_first_not_of(" \t", name.size())));
    return {};
}

[[noreturn]] void refuse(int pid, int reason) {
    std::string const who = "Process " + std::to_string(pid);
    std::string const tracer = field(proc(pid, "status"), "TracerPid:");
    if (reason == ESRCH || tracer.empty()) throw error("There is no process " + std::to_string(pid) + ".");
    if (field(proc(pid, "status"), "State:").starts_with('Z')) throw error(who + " has ended.");
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
        char access[5]{};
        int path = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %*s %*s %n", &m.begin, &m.end, access, &m.offset,
                        &path) < 4)
            continue;
        m.readable = access[0] == 'r';
        m.writable = access[1] == 'w';
        m.executable = access[2] == 'x';
        if (path > 0 && static_cast<std::size_t>(path) < line.size())
            m.path = line.substr(static_cast<std::size_t>(path));
        all.push_back(std::move(m));
    }
    return all;
}

std::vector<int> thread_ids(int pid) {
    std::vector<int> ids;
    DIR* const all = ::opendir(proc(pid, "task").c_str());
    if (all == nullptr) return ids;
    while (dirent const* const one = ::readdir(all))
        if (int const id = std::atoi(one->d_name); id > 0) ids.push_back(id);
    ::closedir(all);
    return ids;
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

// Files on disk and devices hold no references of a program; its own shared memory may.
bool is_to_copy(mapping const& m) {
    if (!m.readable || m.path == "[vvar]" || m.path == "[vsyscall]" || m.path.starts_with("[vvar_"))
        return false;
    if (m.path.starts_with("/dev/") && !m.path.starts_with("/dev/shm/") && !m.path.starts_with("/dev/zero"))
        return false;
    return m.writable || (!m.executable && m.end - m.begin <= k_small_range);
}

// The ranges of a mapping to copy. Of anonymous memory that is what is resident or swapped out: the rest is zero.
class residency {
public:
    explicit residency(int pid) : m_fd(::open(proc(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~residency() {
        if (m_fd >= 0) ::close(m_fd);
    }
    residency(residency const&) = delete;
    residency& operator=(residency const&) = delete;

    template <class Visit>
    void for_each_range(mapping const& m, Visit&& visit) {
        bool const is_anonymous = m.path.empty() || m.path.starts_with('[');
        if (!is_anonymous || m_fd < 0) return visit(m.begin, m.end);
        address begin = 0;
        address end = 0;  // of the range found so far; empty if equal
        for (address at = m.begin; at < m.end; at += m_entries.size() * k_page) {
            std::size_t const pages = std::min<std::size_t>(m_entries.size(), (m.end - at) / k_page);
            ssize_t const got =
                ::pread(m_fd, m_entries.data(), pages * 8, static_cast<off_t>(at / k_page * 8));
            if (got != static_cast<ssize_t>(pages * 8)) return visit(begin == end ? at : begin, m.end);
            for (std::size_t i = 0; i < pages; ++i) {
                if ((m_entries[i] >> 62) == 0) continue;
                address const page = at + i * k_page;
                if (begin != end && page - end > k_gap_pages * k_page) {
                    visit(begin, end);
                    begin = end;
                }
                if (begin == end) begin = page;
                end = page + k_page;
            }
        }
        if (begin != end) visit(begin, end);
    }

private:
    int m_fd;
    std::vector<std::uint64_t> m_entries = std::vector<std::uint64_t>(8192);
};

// All threads of a process, stopped.
class stopped_threads {
public:
    explicit stopped_threads(int pid) : m_pid(pid) {
        // A thread that runs may start another one, so until a look finds none.
        for (bool found = true; found;) {
            found = false;
            for (int const id : thread_ids(pid))
                if (!m_seen.contains(id)) found |= stop(id);
        }
        if (m_threads.empty()) refuse(pid, m_error);
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
    int first() const { return m_stopped.front().first; }

private:
    bool stop(int id) {
        if (::ptrace(PTRACE_SEIZE, id, nullptr, nullptr) != 0) {
            m_error = errno;
            // A main thread that has ended, or a thread that ends just now.
            std::string const state = field(proc(m_pid, "task/") + std::to_string(id) + "/status", "State:");
            if (!state.empty() && state[0] != 'Z' && state[0] != 'X') {
                go_on();
                refuse(m_pid, m_error);
            }
            return m_seen.insert(id).second;
        }
        m_seen.insert(id);
        ::ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr);
        int status = 0;
        int got = 0;
        for (auto const limit = clock::now() + std::chrono::seconds(2); got == 0 && clock::now() < limit;) {
            got = ::waitpid(id, &status, __WALL | WNOHANG);
            if (got == 0) ::usleep(20);
        }
        if (got == 0) {
            // Letting go needs a stopped thread; our own end does it in any case.
            go_on();
            throw error("Thread " + std::to_string(id) + " of process " + std::to_string(m_pid) +
                        " does not stop: it waits in the kernel for a device or file system. Try again, or "
                        "take a core file.");
        }
        if (got < 0 || !WIFSTOPPED(status)) return true;
        m_stopped.emplace_back(id, (status >> 16) == 0 ? WSTOPSIG(status) : 0);
        thread& t = m_threads.emplace_back();
        t.id = id;
        t.name = first_line(proc(m_pid, "task/") + std::to_string(id) + "/comm");
        std::vector<std::byte> content(16384);
        for (unsigned const regset : k_regsets) {
            iovec to{content.data(), content.size()};
            if (::ptrace(PTRACE_GETREGSET, id, regset, &to) == 0)
                add_registers(t, k_machine, regset, byte_span(content).first(to.iov_len));
        }
        return true;
    }

    int m_pid;
    int m_error = ESRCH;
    std::set<int> m_seen;
    std::vector<std::pair<int, int>> m_stopped;  // thread, signal
    std::vector<thread> m_threads;
};

// Memory of our own, touched before it is needed.
class arena {
public:
    ~arena() {
        for (auto const& [begin, bytes] : m_parts)
            ::munmap(begin, bytes);
    }
    void prepare(std::size_t bytes) {
        constexpr std::size_t huge = 2 << 20;
        bytes = (bytes + huge - 1) & ~(huge - 1);
        void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            throw error(
                "There is not enough memory for a copy of the program. Take a core file instead (gcore).");
        m_parts.emplace_back(static_cast<std::byte*>(p), bytes);
        m_free = m_parts.back().first;
        m_left = bytes;
        ::madvise(p, bytes, MADV_HUGEPAGE);
        ::madvise(p, bytes, MADV_POPULATE_WRITE);
    }
    std::span<std::byte> take(std::size_t bytes) {
        if (bytes > m_left) prepare(std::max<std::size_t>(bytes, 64 << 20));
        m_left -= bytes;
        m_free += bytes;
        return {m_free - bytes, bytes};
    }

private:
    std::vector<std::pair<std::byte*, std::size_t>> m_parts;
    std::byte* m_free = nullptr;
    std::size_t m_left = 0;
};

class process_image : public image {
public:
    process_image(int pid, std::vector<thread> threads) : m_pid(pid), m_threads(std::move(threads)) {}

    void copy() {
        residency pages(m_pid);
        std::size_t bytes = 8 << 20;  // the program goes on growing until it stops
        for (mapping const& m : read_mappings(m_pid))
            if (is_to_copy(m))
                pages.for_each_range(m, [&](address begin, address end) { bytes += end - begin; });
        m_arena.prepare(bytes + bytes / 16);
        auto const start = clock::now();
        stopped_threads stopped(m_pid);
        look_at_mappings();
        for (mapping const& m : m_mappings) {
            if (!is_to_copy(m)) continue;
            bool const is_anonymous = m.path.empty() || m.path.starts_with('[');
            pages.for_each_range(m, [&](address begin, address end) { copy_range(begin, end); });
            if (is_anonymous) m_zeros.emplace_back(m.begin, m.end);
        }
        m_threads = std::move(stopped.threads());
        stopped.go_on();
        m_stopped_seconds = std::chrono::duration<double>(clock::now() - start).count();
    }
    void look_at_mappings() { m_mappings = read_mappings(m_pid); }

    std::span<mapping const> mappings() const override { return m_mappings; }
    std::span<thread const> threads() const override { return m_threads; }
    std::string file(std::string const& path) const override {
        // The program itself can be read even after it was replaced or deleted.
        char link[4096];
        ssize_t const bytes = ::readlink(proc(m_pid, "exe").c_str(), link, sizeof(link));
        if (bytes > 0 && std::string_view(link, static_cast<std::size_t>(bytes)) == path)
            return proc(m_pid, "exe");
        return proc(m_pid, "root") + path;
    }
    double stopped_seconds() const override { return m_stopped_seconds; }

    std::size_t read(address from, std::span<std::byte> to) const override {
        std::size_t done = 0;
        while (done < to.size()) {
            std::size_t const got = read_some(from + done, to.subspan(done));
            if (got == 0) break;
            done += got;
        }
        return done;
    }

private:
    struct run {
        address begin, end;
        std::byte const* copy;
    };

    void copy_range(address begin, address end) {
        std::span<std::byte> const to = m_arena.take(end - begin);
        std::size_t const got = read_process(m_pid, begin, to);
        if (got != 0) m_runs.push_back({begin, begin + got, to.data()});
    }

    // The range in an ascending list that contains `at`, or null, and the begin of the next one.
    template <class Range>
    static auto range_of(std::vector<Range> const& all, address at, auto begin_of, auto end_of) {
        auto next = std::ranges::upper_bound(all, at, {}, begin_of);
        bool const is_inside = next != all.begin() && at < std::invoke(end_of, next[-1]);
        return std::pair(is_inside ? &next[-1] : nullptr,
                         next == all.end() ? ~address{0} : std::invoke(begin_of, *next));
    }

    std::size_t read_some(address from, std::span<std::byte> to) const {
        auto const [run, next_run] =
            range_of(m_runs, from, &process_image::run::begin, &process_image::run::end);
        if (run != nullptr) {
            std::size_t const bytes = std::min<std::size_t>(to.size(), run->end - from);
            std::memcpy(to.data(), run->copy + (from - run->begin), bytes);
            return bytes;
        }
        using range = std::pair<address, address>;
        auto const [zero, next_zero] = range_of(m_zeros, from, &range::first, &range::second);
        if (zero != nullptr) {
            std::size_t const bytes =
                std::min<std::size_t>(to.size(), std::min(zero->second, next_run) - from);
            std::memset(to.data(), 0, bytes);
            return bytes;
        }
        return read_window(from,
                           to.first(std::min<std::size_t>(to.size(), std::min(next_run, next_zero) - from)));
    }

    // Small reads are answered from windows of memory that was read before.
    std::size_t read_window(address from, std::span<std::byte> to) const {
        if (to.size() >= k_window) return read_process(m_pid, from, to);
        address const begin = from & ~(k_window - 1);
        window& w = m_windows[begin / k_window % std::size(m_windows)];
        if (w.begin != begin) {
            w.begin = 1;
            w.bytes.resize(k_window);
            // A window may begin in a hole.
            std::size_t const got = read_process(m_pid, begin, w.bytes);
            if (got < k_window) return read_process(m_pid, from, to);
            w.begin = begin;
        }
        std::size_t const bytes = std::min<std::size_t>(to.size(), begin + k_window - from);
        std::memcpy(to.data(), w.bytes.data() + (from - begin), bytes);
        return bytes;
    }

    static constexpr address k_window = 64 << 10;
    struct window {
        address begin = 1;  // of none
        std::vector<std::byte> bytes;
    };

    int m_pid;
    double m_stopped_seconds = 0;
    std::vector<mapping> m_mappings;
    std::vector<thread> m_threads;
    arena m_arena;
    std::vector<run> m_runs;                           // ascending
    std::vector<std::pair<address, address>> m_zeros;  // anonymous mappings: what is in no run is zero
    mutable window m_windows[64];
};

#if defined(__x86_64__)

// Lets a stopped thread of a child execute one fork, whose result is a child of ours that has executed nothing: 0 if it failed.
int fork_in(int child, int thread, std::span<mapping const> mappings) {
    // The kernel's own page of each program has the instruction.
    address instruction = 0;
    for (mapping const& m : mappings) {
        if (m.path != "[vdso]") continue;
        std::vector<std::byte> code(m.end - m.begin);
        code.resize(read_process(child, m.begin, code));
        constexpr std::byte k_syscall[]{std::byte{0x0f}, std::byte{0x05}};
        auto const found = std::ranges::search(code, k_syscall);
        if (!found.empty()) instruction = m.begin + static_cast<address>(found.begin() - code.begin());
    }
    user_regs_struct before{};
    if (instruction == 0 || ::ptrace(PTRACE_GETREGS, thread, nullptr, &before) != 0) return 0;
    user_regs_struct call = before;
    call.rip = instruction;
    call.rax = SYS_clone;
    call.orig_rax =
        ~0ull;  // the system call that was interrupted is not begun again here, but by the old registers
    call.rdi = CLONE_PARENT | SIGCHLD;
    call.rsi = call.rdx = call.r10 = call.r8 = 0;
    ::ptrace(PTRACE_SETOPTIONS, thread, nullptr, PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE);
    if (::ptrace(PTRACE_SETREGS, thread, nullptr, &call) != 0) return 0;
    unsigned long copy = 0;
    for (bool is_done = false; !is_done;) {
        int status = 0;
        if (::ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr) != 0 ||
            ::waitpid(thread, &status, __WALL) < 0 || !WIFSTOPPED(status))
            break;
        if (status >> 16 != 0)
            ::ptrace(PTRACE_GETEVENTMSG, thread, nullptr, &copy);
        else
            is_done = true;
    }
    ::ptrace(PTRACE_SETOPTIONS, thread, nullptr, 0);
    ::ptrace(PTRACE_SETREGS, thread, nullptr, &before);
    if (copy == 0) return 0;
    int status = 0;
    ::waitpid(static_cast<int>(copy), &status, __WALL);
    ::ptrace(PTRACE_SETOPTIONS, copy, nullptr, PTRACE_O_EXITKILL);
    return static_cast<int>(copy);
}

#else

int fork_in(int, int, std::span<mapping const>) { return 0; }

#endif

// The end of the copy comes with the image.
class forked_image final : public process_image {
public:
    forked_image(int copy, std::vector<thread> threads, double stopped)
        : process_image(copy, std::move(threads)), m_copy(copy), m_stopped(stopped) {
        look_at_mappings();
    }
    ~forked_image() override {
        ::kill(m_copy, SIGKILL);
        ::waitpid(m_copy, nullptr, __WALL);
    }
    double stopped_seconds() const override { return m_stopped; }

private:
    int m_copy;
    double m_stopped;
};

}  // namespace

std::unique_ptr<image> open_forked(int child) {
    std::vector<mapping> const mappings = read_mappings(child);
    auto const start = clock::now();
    stopped_threads stopped(child);
    int const copy = fork_in(child, stopped.first(), mappings);
    stopped.go_on();
    double const seconds = std::chrono::duration<double>(clock::now() - start).count();
    if (copy == 0) return open_process(child);
    return std::make_unique<forked_image>(copy, std::move(stopped.threads()), seconds);
}

std::unique_ptr<image> open_process(int pid) {
    if (field(proc(pid, "status"), "State:").empty()) refuse(pid, ESRCH);
    if (pid == ::getpid()) throw error("Process " + std::to_string(pid) + " is poolheap itself.");
    // A copy that a program made of itself (src/heap_report.hpp) need not be copied.
    if (field(proc(pid, "status"), "Name:") == "pooled-frozen") return open_frozen(pid);
    auto found = std::make_unique<process_image>(pid, std::vector<thread>());
    found->copy();
    return found;
}

std::unique_ptr<image> open_frozen(int pid, std::vector<thread> threads) {
    if (threads.empty()) threads = std::move(stopped_threads(pid).threads());
    auto found = std::make_unique<process_image>(pid, std::move(threads));
    found->look_at_mappings();
    std::byte probe;
    if (found->mappings().empty() || read_process(pid, found->mappings()[0].begin, {&probe, 1}) != 1)
        refuse(pid, errno);
    return found;
}

}  // namespace poolheap
