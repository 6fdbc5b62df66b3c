// SPDX-License-Identifier: BSL-1.0
// What a replacement of the global operator new meets. usage: program PART LIBRARY. The exit status is 0 if the part behaved.
// Whether the operators are the pool's is tested by address: malloc's functions do not know the blocks.

#include "../support/resident_pages.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <malloc.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

#define EXPECT(condition)                                                                \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                                \
        }                                                                                \
    } while (false)

constexpr std::size_t k_too_much = std::numeric_limits<std::size_t>::max() / 4;

bool is_aligned(void const* p, std::size_t align) { return reinterpret_cast<std::uintptr_t>(p) % align == 0; }

// One way to allocate and to free.
struct form {
    void* (*make)(std::size_t bytes, std::size_t align);
    void (*drop)(void* p, std::size_t bytes, std::size_t align);
    bool is_aligned;
    bool is_nothrow = false;
};

using al = std::align_val_t;
constexpr std::array k_forms{
    form{[](std::size_t n, std::size_t) { return ::operator new(n); },
         [](void* p, std::size_t, std::size_t) { ::operator delete(p); }, false},
    form{[](std::size_t n, std::size_t) { return ::operator new(n); },
         [](void* p, std::size_t n, std::size_t) { ::operator delete(p, n); }, false},
    form{[](std::size_t n, std::size_t) { return ::operator new(n, std::nothrow); },
         [](void* p, std::size_t, std::size_t) { ::operator delete(p, std::nothrow); }, false, true},
    form{[](std::size_t n, std::size_t) { return ::operator new[](n); },
         [](void* p, std::size_t, std::size_t) { ::operator delete[](p); }, false},
    form{[](std::size_t n, std::size_t) { return ::operator new[](n); },
         [](void* p, std::size_t n, std::size_t) { ::operator delete[](p, n); }, false},
    form{[](std::size_t n, std::size_t) { return ::operator new[](n, std::nothrow); },
         [](void* p, std::size_t, std::size_t) { ::operator delete[](p, std::nothrow); }, false, true},
    form{[](std::size_t n, std::size_t a) { return ::operator new(n, al(a)); },
         [](void* p, std::size_t, std::size_t a) { ::operator delete(p, al(a)); }, true},
    form{[](std::size_t n, std::size_t a) { return ::operator new(n, al(a)); },
         [](void* p, std::size_t n, std::size_t a) { ::operator delete(p, n, al(a)); }, true},
    form{[](std::size_t n, std::size_t a) { return ::operator new(n, al(a), std::nothrow); },
         [](void* p, std::size_t, std::size_t a) { ::operator delete(p, al(a), std::nothrow); }, true, true},
    form{[](std::size_t n, std::size_t a) { return ::operator new[](n, al(a)); },
         [](void* p, std::size_t, std::size_t a) { ::operator delete[](p, al(a)); }, true},
    form{[](std::size_t n, std::size_t a) { return ::operator new[](n, al(a)); },
         [](void* p, std::size_t n, std::size_t a) { ::operator delete[](p, n, al(a)); }, true},
    form{[](std::size_t n, std::size_t a) { return ::operator new[](n, al(a), std::nothrow); },
         [](void* p, std::size_t, std::size_t a) { ::operator delete[](p, al(a), std::nothrow); }, true,
         true},
};

// Every form with sizes up to 20 MiB and alignments up to 64 KiB: aligned, writable, apart from each other, and reused.
void all_forms(char const*) {
    for (form const& one : k_forms)
        for (std::size_t align = one.is_aligned ? 1 : 16; align <= (one.is_aligned ? 1U << 16 : 16U);
             align *= 2)
            for (std::size_t const bytes :
                 {0UL,   1UL,    8UL,    15UL,   16UL,   17UL,   24UL,    40UL,    100UL,     128UL,
                  129UL, 1000UL, 1024UL, 1025UL, 1504UL, 4096UL, 32768UL, 32769UL, 300'000UL, 20UL << 20}) {
                std::vector<void*> blocks;
                for (int i = 0; i < (bytes < 100'000 ? 20 : 2); ++i) {
                    void* const p = one.make(bytes, align);
                    EXPECT(p != nullptr && is_aligned(p, std::max<std::size_t>(align, 16)));
                    std::memset(p, i, bytes);
                    blocks.push_back(p);
                }
                for (std::size_t i = 0; i < blocks.size(); ++i) {
                    auto const* const bytes_of = static_cast<unsigned char const*>(blocks[i]);
                    EXPECT(bytes == 0 || (bytes_of[0] == i && bytes_of[bytes - 1] == i));
                    one.drop(blocks[i], bytes, align);
                }
                one.drop(nullptr, bytes, align);
            }
}

void zero_bytes(char const*) {
    std::set<void*> seen;
    for (form const& one : k_forms) {
        void* const p = one.make(0, 64);
        EXPECT(p != nullptr && seen.insert(p).second);
    }
}

// [new.delete.single]: the handler is called until it returns no more, throws, or there is none.
int g_calls = 0;
void new_handler(char const*) {
    auto const fails = [](auto&& make) {
        try {
            void* const volatile p = make();
            (void)p;
        } catch (std::bad_alloc const&) {
            return true;
        }
        return false;
    };
    for (form const& one : k_forms) {
        if (one.is_nothrow) continue;
        EXPECT(fails([&] { return one.make(k_too_much, 32); }));
        g_calls = 0;
        std::set_new_handler([] {
            if (++g_calls == 3) std::set_new_handler(nullptr);
        });
        EXPECT(fails([&] { return one.make(k_too_much, 32); }) && g_calls == 3);
        struct own : std::bad_alloc {};
        std::set_new_handler([] { throw own(); });
        bool caught = false;
        try {
            void* const volatile p = one.make(k_too_much, 32);
            (void)p;
        } catch (own const&) {
            caught = true;
        }
        EXPECT(caught);
        std::set_new_handler(nullptr);
    }
}

void nothrow(char const*) {
    EXPECT(::operator new(k_too_much, std::nothrow) == nullptr);
    EXPECT(::operator new[](k_too_much, std::nothrow) == nullptr);
    EXPECT(::operator new(k_too_much, al(4096), std::nothrow) == nullptr);
    EXPECT(::operator new[](k_too_much, al(4096), std::nothrow) == nullptr);
    std::set_new_handler([] { throw std::bad_alloc(); });
    EXPECT(::operator new(k_too_much, std::nothrow) == nullptr);
    std::set_new_handler([] { ++g_calls, std::set_new_handler(nullptr); });
    EXPECT(::operator new(k_too_much, std::nothrow) == nullptr&& g_calls == 1);
}

void exceptions(char const*) {
    struct thrower {
        std::array<char, 100> text{};
        explicit thrower(int n) {
            if (n % 2 == 1) throw std::runtime_error(std::string(1000, 'x'));
        }
    };
    int caught = 0;
    for (int i = 0; i < 10'000; ++i) {
        try {
            delete new thrower(i);
        } catch (std::exception const& e) {
            caught += std::strlen(e.what()) == 1000 ? 1 : 0;
        }
    }
    EXPECT(caught == 5'000);
}

// Blocks from before main, freed by static destructors, thread_local ones and atexit handlers, and there allocated.
struct holder {
    std::vector<std::string> strings{100, std::string(200, 'h')};
    std::map<int, std::string> more{{1, std::string(100, 'm')}};
    ~holder() {
        strings.assign(50, std::string(300, 'd'));
        delete new std::array<int, 30>;
    }
};
holder g_holder;
thread_local holder t_holder;
std::string* const g_early = new std::string(1000, 'e');

void lifetimes(char const*) {
    EXPECT(g_early->size() == 1000);
    static_cast<void>(std::atexit([] {
        delete g_early;
        delete new std::string(500, 'a');
    }));
    EXPECT(t_holder.strings.size() == 100);
    for (int i = 0; i < 20; ++i)
        std::thread([] {
            EXPECT(t_holder.strings.size() == 100);
            g_holder.more[2] = std::string(100, 't');
        }).join();
}

void allocate_much() {
    std::map<int, std::string> strings;
    for (int i = 0; i < 20'000; ++i)
        strings[i % 500] = std::string(static_cast<std::size_t>(i % 2'000), 's');
}

int wait_for(pid_t child) {
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    return status;
}

// While other threads allocate.
void fork_(char const*) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
            while (!stop)
                allocate_much();
        });
    for (int i = 0; i < 20; ++i) {
        pid_t const child = fork();
        if (child == 0) {
            allocate_much();
            std::thread(allocate_much).join();
            _exit(7);
        }
        int const status = wait_for(child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    stop = true;
    for (auto& each : threads)
        each.join();
}

void exec(char const*) {
    pid_t const child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "program", "exceptions", "", nullptr);
        _exit(1);
    }
    EXPECT(wait_for(child) == 0);
}

// malloc's blocks are freed by free(), whichever thread allocated them and whatever size the delete was told.
void foreign(char const*) {
    for (std::size_t const bytes : {1UL, 20UL, 100UL, 1504UL, 40'000UL, 1UL << 20}) {
        for (int i = 0; i < 100; ++i) {
            ::operator delete(std::malloc(bytes));
            ::operator delete[](std::calloc(1, bytes));
            ::operator delete(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), al(4096));
            ::operator delete(std::malloc(bytes), bytes);
        }
        std::thread([bytes] {
            for (int i = 0; i < 100; ++i) {
                ::operator delete(std::malloc(bytes));
                ::operator delete(std::malloc(bytes), bytes);
                ::operator delete(std::malloc(bytes), std::size_t{16});
                // Had the block been kept, it would be the next one, and too short.
                auto* const next = static_cast<char*>(::operator new(bytes + 7));
                std::memset(next, 1, bytes + 7);
                ::operator delete(next, bytes + 7);
            }
        }).join();
    }
    // C's functions that return memory of malloc.
    char* const copy = strdup("text");
    delete[] copy;
    allocate_much();
    // Again with mappings below malloc's heap, where the system allows that (setarch -L).
    int const layout = personality(0xffffffff);
    if ((layout & ADDR_COMPAT_LAYOUT) == 0 &&
        personality(static_cast<unsigned long>(layout) | ADDR_COMPAT_LAYOUT) != -1)
        EXPECT(execl("/proc/self/exe", "program", "foreign", "", nullptr) == 0);
}

// The pool's memory has a place of its own, where sized deletes need not look blocks up, however the pool grows and shrinks.
void place(char const*) {
    auto const grow = [] {
        std::vector<std::pair<void*, std::size_t>> blocks;
        for (std::size_t i = 0; i < 300'000; ++i) {
            std::size_t const bytes = i % 5'000 == 0 ? i : 1 + i * 7919 % 2'000;
            void* const p = ::operator new(bytes);
            EXPECT(reinterpret_cast<std::uintptr_t>(p) >> 42 == 9);
            blocks.emplace_back(p, bytes);
            if (i % 50'000 == 49'999) {
                std::size_t const kept = blocks.size() / 3;
                while (blocks.size() > kept) {
                    ::operator delete(blocks.back().first, blocks.back().second);
                    blocks.pop_back();
                }
                malloc_trim(0);
            }
        }
        for (auto const& [p, bytes] : blocks)
            ::operator delete(p, bytes);
    };
    grow();
    std::thread other(grow);
    grow();
    other.join();
}

void threads(char const*) {
    std::atomic<void*> handed{nullptr};
    for (int i = 0; i < 3'000; ++i)
        std::thread([&handed] {
            for (std::size_t bytes = 1; bytes < 5'000; bytes = bytes * 3 + 1)
                ::operator delete(::operator new(bytes), bytes);
            ::operator delete(handed.exchange(::operator new(100)));  // of a thread that has ended
        }).join();
    ::operator delete(handed.load());
    std::vector<std::thread> together;
    for (int i = 0; i < 50; ++i)
        together.emplace_back(allocate_much);
    for (auto& each : together)
        each.join();
}

void library(char const* file) {
    for (int i = 0; i < 50; ++i) {
        void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        EXPECT(handle != nullptr);
        auto* const make = reinterpret_cast<std::string* (*)(std::size_t)>(dlsym(handle, "make_string"));
        auto* const drop = reinterpret_cast<void (*)(std::string*)>(dlsym(handle, "drop_string"));
        EXPECT(make != nullptr && drop != nullptr);
        std::unique_ptr<std::string> kept(make(100));
        drop(new std::string(1000, 'p'));
        EXPECT(dlclose(handle) == 0);
        EXPECT(kept->size() == 100);
    }
}

// Parts that end otherwise, or are run with variables.

// Blocks of new in malloc's functions.
void c_functions(char const*) {
    for (std::size_t const bytes : {1UL, 24UL, 64UL, 1000UL, 40'000UL, 300'000UL, 20UL << 20}) {
        std::vector<void*> blocks;
        for (int i = 0; i < 100; ++i) {
            void* const p = ::operator new(bytes);
            EXPECT(malloc_usable_size(p) >= bytes);
            std::memset(p, 'n', bytes);
            auto* const grown = static_cast<char*>(std::realloc(p, bytes + bytes / 2 + 1));
            EXPECT(grown != nullptr && grown[0] == 'n' && grown[bytes - 1] == 'n');
            std::memset(grown, 'g', bytes + bytes / 2 + 1);
            blocks.push_back(grown);
            std::free(new (std::align_val_t(128)) char[bytes]);
            void* const of_malloc = std::realloc(std::malloc(bytes), 2 * bytes);
            EXPECT(of_malloc != nullptr && malloc_usable_size(of_malloc) >= 2 * bytes);
            std::free(of_malloc);
            if (bytes > 1'000'000 && i == 3) break;
        }
        for (void* const p : blocks)
            std::free(p);
    }
    EXPECT(malloc_usable_size(nullptr) == 0 && std::realloc(::operator new(10), 0) == nullptr);
    errno = 77;
    std::free(::operator new(20 << 20));
    EXPECT(errno == 77);
    {
        std::vector<std::string> strings;
        for (int i = 0; i < 30'000; ++i)
            strings.emplace_back(1'000, 's');
    }
    EXPECT(malloc_trim(0) == 1);
}

// With POOLED_TRUST_SIZES=0: what a program frees with another size is of no other size afterwards.
void untrusted_sizes(char const*) {
    std::vector<void*> blocks;
    for (int i = 0; i < 1'000; ++i) {
        ::operator delete(::operator new(64), 1'000);
        ::operator delete(::operator new(40'000), 100);
        ::operator delete(::operator new(2'000), std::size_t{0});
    }
    std::thread([] {
        for (int i = 0; i < 1'000; ++i)
            ::operator delete(std::malloc(24), 24);  // from an arena of the thread
    }).join();
    for (int i = 0; i < 2'000; ++i) {
        blocks.push_back(std::memset(::operator new(1'000), i, 1'000));
        blocks.push_back(std::memset(::operator new(24), i, 24));
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        auto const* const p = static_cast<unsigned char const*>(blocks[i]);
        EXPECT(p[0] == static_cast<unsigned char>(i / 2) && p[i % 2 == 0 ? 999 : 23] == p[0]);
        ::operator delete(blocks[i]);
    }
}

// With POOLED_BACKGROUND=1: what is not needed returns to the system while the program calls nothing. No test of time: it waits.
void background(char const*) {
    constexpr std::size_t k_blocks = 200'000;
    constexpr std::size_t k_bytes = 1'000;
    std::vector<void*> blocks(k_blocks);
    for (void*& one : blocks)
        one = std::memset(::operator new(k_bytes), 1, k_bytes);
    std::size_t const peak = test::resident_bytes();
    for (void* const one : blocks)
        ::operator delete(one);
    while (peak != 0 && test::resident_bytes() > peak - k_blocks * k_bytes * 3 / 4)
        usleep(10'000);
}

// With POOLED_BACKGROUND=1: memory that was filled with small pages and is in use gets huge ones while the program calls nothing.
void collapse(char const*) {
    constexpr std::size_t k_bytes = std::size_t{1} << 10;
    auto const huge_kib = [] {
        std::ifstream all("/proc/self/smaps_rollup");
        std::string word;
        std::size_t kib = 0;
        while (all >> word)
            if (word == "AnonHugePages:") all >> kib;
        return kib;
    };
    std::vector<void*> blocks(80'000);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        // The library collapses pages where the system gave a huge one before.
        if (i == 20'000 && (huge_kib() == 0 || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)) std::_Exit(77);
        blocks[i] = std::memset(::operator new(k_bytes), 1, k_bytes);
    }
    EXPECT(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) == 0);
    std::size_t const before = huge_kib();
    while (huge_kib() < before + 8192)
        usleep(10'000);
    for (void* const one : blocks)
        ::operator delete(one);
}

void free_of_new(char const*) {
    void* const p = ::operator new(64);
    std::memset(p, 0, 64);
    std::free(p);
}
void wrong_size(char const*) { ::operator delete(::operator new(64), 100); }

void release(char const*) {
    allocate_much();
    std::puts("release works");
}
void stats(char const*) { allocate_much(); }
void stats_closed(char const*) {
    allocate_much();
    std::fflush(stderr);
    EXPECT(close(STDERR_FILENO) == 0);
}
void files_closed(char const*) {
    for (int file = 1024; file > STDERR_FILENO; --file)
        close(file);
}
// As a daemon does: it closes every file, and what it opens then has their numbers.
void stats_replaced(char const*) {
    allocate_much();
    std::FILE* const other = std::tmpfile();
    pid_t const child = fork();
    if (child == 0) {
        for (int file = 1024; file > STDERR_FILENO; --file)
            if (file != fileno(other) && close(file) == 0) EXPECT(dup2(fileno(other), file) == file);
        std::exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(lseek(fileno(other), 0, SEEK_END) == 0);
    std::puts("nothing was written into another file");
}

}  // namespace

int main(int argc, char** argv) {
    std::map<std::string_view, void (*)(char const*)> const parts{{"all_forms", all_forms},
                                                                  {"zero_bytes", zero_bytes},
                                                                  {"new_handler", new_handler},
                                                                  {"nothrow", nothrow},
                                                                  {"exceptions", exceptions},
                                                                  {"lifetimes", lifetimes},
                                                                  {"fork", fork_},
                                                                  {"exec", exec},
                                                                  {"foreign", foreign},
                                                                  {"place", place},
                                                                  {"threads", threads},
                                                                  {"library", library},
                                                                  {"static_host", library},
                                                                  {"c_functions", c_functions},
                                                                  {"untrusted_sizes", untrusted_sizes},
                                                                  {"background", background},
                                                                  {"collapse", collapse},
                                                                  {"free_of_new", free_of_new},
                                                                  {"wrong_size", wrong_size},
                                                                  {"release", release},
                                                                  {"release_bad", release},
                                                                  {"stats_closed", stats_closed},
                                                                  {"files_closed", files_closed},
                                                                  {"stats_replaced", stats_replaced}};
    if (argc != 3) return 2;
    auto const part = parts.find(argv[1]);
    (part != parts.end() ? part->second : stats)(argv[2]);
}
