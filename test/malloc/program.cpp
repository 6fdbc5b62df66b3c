// SPDX-License-Identifier: BSL-1.0
// What a malloc promises: the C standard's, POSIX's and glibc's manual's sentences, and what libc itself asks of it. usage: program PART
// LIBRARY. The exit status is 0 if the part behaved. Whether the pool serves is tested by its statistics (mallinfo2), or by address.

#include <dirent.h>
#include <netdb.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
[[gnu::weak]] void free_sized(void* p, std::size_t bytes);  // C23: declared by no header here
[[gnu::weak]] void free_aligned_sized(void* p, std::size_t align, std::size_t bytes);
}

namespace {

#define EXPECT(condition)                                                                                  \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            std::fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (false)

constexpr std::size_t k_sizes[] = {1,       7,      8,      15,      16,      17,         24,
                                   40,      100,    128,    129,     500,     1000,       1024,
                                   1025,    4095,   4096,   32768,   32769,   65537,      262144,
                                   262145,  278528, 278529, 1 << 20, 3 << 20, (16 << 20), (16 << 20) + 1,
                                   40 << 20};
constexpr std::size_t k_most = std::numeric_limits<std::ptrdiff_t>::max();

std::uintptr_t address(void const* p) { return reinterpret_cast<std::uintptr_t>(p); }
bool is_aligned(void const* p, std::size_t align) { return address(p) % align == 0; }
void* hide(void* p) {
    asm volatile("" : "+r"(p));
    return p;
}
void fill(void* p, std::size_t bytes, unsigned seed) {
    auto* const c = static_cast<unsigned char*>(p);
    for (std::size_t i = 0; i < bytes; i += i < 4096 ? 1 : 509)
        c[i] = static_cast<unsigned char>(i * 31 + seed);
    if (bytes != 0) c[bytes - 1] = static_cast<unsigned char>((bytes - 1) * 31 + seed);
}
bool is_filled(void const* p, std::size_t bytes, unsigned seed) {
    auto const* const c = static_cast<unsigned char const*>(p);
    for (std::size_t i = 0; i < bytes; i += i < 4096 ? 1 : 509)
        if (c[i] != static_cast<unsigned char>(i * 31 + seed)) return false;
    return true;
}
bool is_zero(unsigned char const* p, std::size_t bytes) {
    return p[0] == 0 && std::memcmp(p, p + 1, bytes - 1) == 0;
}
struct memory_bytes {
    std::size_t addresses = 0, resident = 0;
};
memory_bytes own_memory() {
    memory_bytes pages;
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    EXPECT(file != nullptr && std::fscanf(file, "%zu %zu", &pages.addresses, &pages.resident) == 2);
    std::fclose(file);
    return {pages.addresses * 4096, pages.resident * 4096};
}
std::size_t resident_bytes() { return own_memory().resident; }

// Every size: aligned, writable, apart from the others, and as large as malloc_usable_size() says.
void sizes(char const*) {
    std::map<std::uintptr_t, std::size_t> blocks;
    for (int round = 0; round < 3; ++round)
        for (std::size_t const bytes : k_sizes) {
            void* const p = hide(std::malloc(bytes));
            EXPECT(p != nullptr && is_aligned(p, bytes >= 16 ? 16 : std::bit_floor(bytes)));
            std::size_t const usable = malloc_usable_size(p);
            EXPECT(usable >= bytes);
            fill(p, usable, static_cast<unsigned>(round));
            auto const after = blocks.lower_bound(address(p));
            EXPECT(after == blocks.end() || after->first >= address(p) + usable);
            EXPECT(after == blocks.begin() ||
                   std::prev(after)->first + std::prev(after)->second <= address(p));
            blocks[address(p)] = usable;
        }
    for (auto const& [p, bytes] : blocks)
        std::free(reinterpret_cast<void*>(p));
    // malloc(0): a block of its own, that free() takes. free(null) does nothing.
    std::set<void*> none;
    for (int i = 0; i < 1000; ++i) {
        EXPECT(none.insert(hide(std::malloc(0))).second);
        EXPECT(none.insert(hide(std::calloc(0, 5))).second);
    }
    EXPECT(none.count(nullptr) == 0);
    for (void* const p : none)
        std::free(p);
    std::free(nullptr);
    EXPECT(malloc_usable_size(nullptr) == 0);
}

void alignments(char const*) {
    for (std::size_t align = 1; align <= std::size_t{4} << 20; align *= 2)
        for (std::size_t const bytes : {0UL, 1UL, 24UL, 100UL, 4096UL, 5000UL, 100'000UL, 1UL << 20}) {
            std::vector<void*> blocks;
            for (int i = 0; i < 3; ++i) {
                void* p = nullptr;
                if (align >= sizeof(void*)) {
                    EXPECT(posix_memalign(&p, align, bytes) == 0);
                    blocks.push_back(p);
                }
                blocks.push_back(aligned_alloc(align, bytes));
                blocks.push_back(memalign(align, bytes));
            }
            for (void* const p : blocks) {
                EXPECT(p != nullptr && is_aligned(p, align) && malloc_usable_size(p) >= bytes);
                std::memset(p, 1, bytes);
            }
            for (std::size_t i = 0; i + 1 < blocks.size(); ++i)
                std::free(blocks[i]);
            free_aligned_sized(blocks.back(), align, bytes);
        }
    std::size_t const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t const bytes : {0UL, 1UL, 5000UL, 100'000UL}) {
        void* const v = valloc(bytes);
        void* const w = pvalloc(bytes);
        EXPECT(is_aligned(v, page) && is_aligned(w, page) && malloc_usable_size(w) >= std::max(bytes, page));
        std::memset(w, 1, (bytes + page - 1) / page * page);
        std::free(v);
        std::free(w);
    }
    void* const grown = std::realloc(memalign(4096, 100), 200'000);
    EXPECT(grown != nullptr);
    free_sized(grown, 200'000);
}

template <class Function>
void expect_error(int error, Function&& function) {
    errno = 0;
    EXPECT(hide(function()) == nullptr && errno == error);
}

// ENOMEM with null; posix_memalign() returns its errors, and leaves errno and the pointer; free() and success leave errno.
void errors(char const*) {
    for (std::size_t const bytes : {k_most + 1, k_most - 4096, ~std::size_t{0}, ~std::size_t{0} - 100}) {
        expect_error(ENOMEM, [&] { return std::malloc(bytes); });
        expect_error(ENOMEM, [&] { return std::calloc(1, bytes); });
        expect_error(ENOMEM, [&] { return std::realloc(nullptr, bytes); });
        expect_error(ENOMEM, [&] { return reallocarray(nullptr, 1, bytes); });
        expect_error(ENOMEM, [&] { return memalign(64, bytes); });
        expect_error(ENOMEM, [&] { return aligned_alloc(4096, bytes); });
        expect_error(ENOMEM, [&] { return valloc(bytes); });
        expect_error(ENOMEM, [&] { return pvalloc(bytes); });
        void* const p = std::malloc(100);
        fill(p, 100, 5);
        expect_error(ENOMEM, [&] { return std::realloc(p, bytes); });
        EXPECT(is_filled(p, 100, 5));  // the block is as before
        std::free(p);
        void* untouched = &untouched;
        errno = 77;
        EXPECT(posix_memalign(&untouched, 64, bytes) == ENOMEM && errno == 77 && untouched == &untouched);
    }
    expect_error(ENOMEM, [] { return std::calloc(std::size_t{1} << 33, std::size_t{1} << 33); });
    expect_error(ENOMEM, [] { return reallocarray(nullptr, std::size_t{1} << 33, std::size_t{1} << 33); });
    for (std::size_t volatile const align : {0UL, 3UL, ~0UL})  // compilers warn of constants
        expect_error(EINVAL, [&] { return aligned_alloc(align, 100); });
    std::size_t volatile const too_large = ~std::size_t{0};
    expect_error(EINVAL, [&] { return memalign(too_large, 100); });
    void* untouched = &untouched;
    errno = 77;
    for (std::size_t const align : {0UL, 1UL, 4UL, 24UL, ~0UL})
        EXPECT(posix_memalign(&untouched, align, 100) == EINVAL && errno == 77 && untouched == &untouched);
    for (std::size_t const bytes : k_sizes) {
        void* const p = std::malloc(bytes);
        EXPECT(errno == 77);
        std::free(p);
        EXPECT(errno == 77);
    }
}

void realloc_(char const*) {
    for (std::size_t const from : k_sizes)
        for (std::size_t const to : k_sizes) {
            auto* p = static_cast<unsigned char*>(std::malloc(from));
            fill(p, from, 9);
            p = static_cast<unsigned char*>(std::realloc(p, to));
            EXPECT(p != nullptr && is_aligned(p, to >= 16 ? 16 : 1) && malloc_usable_size(p) >= to);
            unsigned char const last = p[std::min(from, to) - 1];
            EXPECT(from <= to ? is_filled(p, from, 9) : is_filled(p, to, 9) || to > 4096);
            EXPECT(from > to || last == static_cast<unsigned char>((from - 1) * 31 + 9));
            fill(p, to, 3);
            std::free(p);
        }
    // Grown in small steps, as a buffer is: from a small block to a huge one, and back.
    std::size_t bytes = 1;
    auto* p = static_cast<char*>(std::realloc(nullptr, bytes));
    p[0] = 'a';
    for (; bytes < 100 << 20; bytes += bytes / 3 + 1) {
        p = static_cast<char*>(reallocarray(p, bytes + bytes / 3 + 1, 1));
        EXPECT(p != nullptr && p[0] == 'a' && p[bytes - 1] == (bytes == 1 ? 'a' : 'z'));
        p[bytes + bytes / 3] = 'z';
    }
    for (; bytes > 10; bytes /= 2) {
        p[bytes / 2 - 1] = 'y';
        p = static_cast<char*>(std::realloc(p, bytes / 2));
        EXPECT(p != nullptr && p[0] == 'a' && p[bytes / 2 - 1] == 'y');
    }
    EXPECT(std::realloc(p, 0) == nullptr);  // glibc frees
    // A block that stays where it is has the size that was asked for last: more of them than a thread caches.
    std::vector<void*> kept;
    for (int i = 0; i < 3000; ++i) {
        kept.push_back(std::realloc(std::malloc(100), 60));
        kept.push_back(std::realloc(aligned_alloc(256, 300), 300));
    }
    for (std::size_t i = 0; i < kept.size(); ++i)
        free_sized(kept[i], i % 2 == 0 ? 60 : 300);
}
// The block has the space.
void realloc_in_place(char const*) {
    void* const block = std::malloc(1000);
    EXPECT(std::realloc(block, malloc_usable_size(block)) == block && std::realloc(block, 900) == block);
    std::free(block);
}

// Pages of a huge block move: growing it needs neither time nor memory for a second one.
void realloc_moves_pages(char const*) {
    std::size_t bytes = std::size_t{64} << 20;
    auto* p = static_cast<char*>(std::malloc(bytes));
    std::memset(p, 'x', bytes);
    std::size_t const before = resident_bytes();
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    long const peak = used.ru_maxrss;
    for (int i = 0; i < 4; ++i) {
        p = static_cast<char*>(std::realloc(p, bytes * 2));
        EXPECT(p != nullptr && p[0] == 'x' && p[(64 << 20) - 1] == 'x');
        bytes *= 2;
    }
    getrusage(RUSAGE_SELF, &used);
    EXPECT(resident_bytes() < before + (32 << 20) && used.ru_maxrss < peak + (48 << 10));
    std::free(p);
}

void calloc_(char const*) {
    for (int round = 0; round < 3; ++round)
        for (std::size_t const bytes : k_sizes) {
            void* dirty[4];
            for (void*& one : dirty)
                std::memset(one = std::malloc(bytes), 0xee, bytes);
            for (void* const one : dirty)
                std::free(one);
            for (void*& one : dirty) {
                auto const* const p = static_cast<unsigned char const*>(one = std::calloc(bytes, 1));
                EXPECT(p != nullptr && is_zero(p, bytes));
                std::memset(one, 0xdd, bytes);
            }
            for (void* const one : dirty)
                std::free(one);
        }
}
// Memory that is new from the system is zero: nothing is written.
void calloc_touches_nothing(char const*) {
    std::size_t const before = resident_bytes();
    void* const p = hide(std::calloc(300, 1 << 20));
    EXPECT(p != nullptr && resident_bytes() < before + (8 << 20));
    std::free(p);
}

// Each allocator's blocks in each other's free.
void mixed(char const*) {
    for (std::size_t const bytes : k_sizes) {
        std::free(::operator new(bytes));
        std::free(new (std::align_val_t(64)) char[bytes]);
        ::operator delete(std::malloc(bytes));
        ::operator delete(std::malloc(bytes), bytes);
        ::operator delete[](std::calloc(1, bytes), bytes);
        ::operator delete(memalign(64, bytes), std::align_val_t(64));
        void* const p = std::realloc(::operator new(bytes), 2 * bytes);
        EXPECT(p != nullptr && malloc_usable_size(p) >= 2 * bytes);
        ::operator delete(p, 2 * bytes);
        void* const made = ::operator new(bytes);
        EXPECT(malloc_usable_size(made) >= bytes);
        free_sized(made, bytes);
    }
    // In a thread, whose malloc another allocator serves from an arena of its own.
    std::thread([] {
        for (int i = 0; i < 1000; ++i)
            ::operator delete(std::malloc(24), 24);
        std::vector<void*> blocks;
        for (unsigned i = 0; i < 1000; ++i) {
            blocks.push_back(::operator new(24));
            fill(blocks.back(), 24, i);
        }
        for (unsigned i = 0; i < 1000; ++i)
            EXPECT(is_filled(blocks[i], 24, i));
        for (void* const p : blocks)
            std::free(p);
    }).join();
}

// What libc allocates itself.
void of_libc(char const* library) {
    for (int i = 0; i < 100; ++i) {
        char* text = nullptr;
        EXPECT(asprintf(&text, "%d %s", i, std::string(1000, 'x').c_str()) > 1000);
        std::free(text);
        std::free(strdup("text"));
        std::FILE* const file = std::fopen("/proc/self/maps", "r");
        EXPECT(file != nullptr);
        char* line = nullptr;
        std::size_t room = 0;
        while (getline(&line, &room, file) > 0) {}
        std::free(line);
        std::fclose(file);
        char* memory = nullptr;
        std::size_t size = 0;
        std::FILE* const stream = open_memstream(&memory, &size);
        EXPECT(stream != nullptr && std::fputs("much text", stream) >= 0 && std::fclose(stream) == 0 &&
               size == 9);
        std::free(memory);
        std::free(realpath("/proc/self/..", nullptr));
        std::free(getcwd(nullptr, 0));
    }
    dirent** names = nullptr;
    int const count = scandir("/", &names, nullptr, alphasort);
    EXPECT(count > 2);
    for (int i = 0; i < count; ++i)
        std::free(names[i]);
    std::free(names);
    EXPECT(setenv("POOLED_TEST", std::string(5000, 'v').c_str(), 1) == 0 && unsetenv("POOLED_TEST") == 0);
    static_cast<void>(getpwuid(getuid()));
    for (int i = 0; i < 100; ++i)
        EXPECT(std::atexit([] { std::free(std::malloc(100)); }) == 0);
#if !IS_STATIC
    // The loader, its errors, and files with thread-local objects.
    for (int i = 0; i < 30; ++i) {
        EXPECT(dlopen("/no/such/library", RTLD_NOW) == nullptr && dlerror() != nullptr);
        void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        EXPECT(handle != nullptr && dlsym(handle, "no_such_name") == nullptr && dlerror() != nullptr);
        auto* const use = reinterpret_cast<char* (*)(std::size_t)>(dlsym(handle, "make_text"));
        EXPECT(use != nullptr);
        std::thread([use] { std::free(use(100)); }).join();
        std::free(use(200));
        EXPECT(dlclose(handle) == 0);
    }
#else
    static_cast<void>(library);
#endif
}

// A file that does not see the program's functions (RTLD_DEEPBIND) has libc's malloc, whose blocks come here.
void deep_bound([[maybe_unused]] char const* library) {
#ifdef RTLD_DEEPBIND
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    EXPECT(handle != nullptr);
    auto* const make = reinterpret_cast<char* (*)(std::size_t)>(dlsym(handle, "make_text"));
    for (std::size_t const bytes : k_sizes) {
        char* p = make(bytes);
        EXPECT(malloc_usable_size(p) >= bytes);
        p = static_cast<char*>(std::realloc(p, bytes * 2));
        EXPECT(p != nullptr && (bytes == 1 || p[0] == 't'));
        std::free(p);
        ::operator delete(make(bytes));
    }
    std::thread([make] { std::free(make(100)); }).join();
#endif
}

// From before any constructor to after the last destructor.
char* g_first = nullptr;
[[maybe_unused]] void before_all(int, char**, char**) {
    g_first = static_cast<char*>(std::malloc(100));
    std::strcpy(g_first, "first");
    std::free(std::realloc(std::calloc(10, 10), 1 << 20));
}
#if !IS_STATIC
[[gnu::section(".preinit_array"), gnu::used]] void (*const g_before_all)(int, char**, char**) = before_all;
#else
[[gnu::constructor(101)]] void before_all_static() { before_all(0, nullptr, nullptr); }
#endif
struct holder {
    char* text = strdup("holder");
    ~holder() {
        std::free(text);
        std::free(std::realloc(std::malloc(10), 3000));
    }
};
holder g_holder;
thread_local holder t_holder;
pthread_key_t g_key{};

void lifetimes(char const*) {
    EXPECT(std::strcmp(g_first, "first") == 0);
    std::free(g_first);
    // Keys beyond those in a thread's control block: pthread_setspecific() allocates.
    for (int i = 0; i < 40; ++i)
        EXPECT(pthread_key_create(&g_key, [](void* p) {
                   std::free(p);
                   std::free(std::malloc(100));
               }) == 0);
    EXPECT(t_holder.text != nullptr && pthread_setspecific(g_key, std::malloc(50)) == 0);
    std::atomic<void*> handed{nullptr};
    for (int i = 0; i < 500; ++i)
        std::thread([&] {
            EXPECT(t_holder.text != nullptr && pthread_setspecific(g_key, std::malloc(50)) == 0);
            std::free(handed.exchange(std::malloc(100)));  // of a thread that has ended
            pthread_attr_t attributes;
            EXPECT(pthread_getattr_np(pthread_self(), &attributes) == 0);
            pthread_attr_destroy(&attributes);
        }).join();
    std::free(handed.load());
}

// A limit on addresses: null and ENOMEM, again and again, and all is well when memory is free again.
void exhaustion(char const*) {
    rlimit limit{};
    EXPECT(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = std::size_t{400} << 20;
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
    for (std::size_t const bytes :
         {std::size_t{1} << 20, std::size_t{100} << 10, std::size_t{20} << 20, std::size_t{512}}) {
        void** last = nullptr;
        std::size_t count = 0;
        for (;; ++count) {
            errno = 0;
            auto** const one = static_cast<void**>(std::malloc(bytes));
            if (one == nullptr) break;
            *one = last;
            last = one;
        }
        EXPECT(errno == ENOMEM && count * bytes > std::size_t{50} << 20);
        for (int i = 0; i < 200; ++i)
            expect_error(ENOMEM, [] { return std::malloc(std::size_t{300} << 20); });
        bool thrown = false;
        try {
            ::operator delete(::operator new(std::size_t{300} << 20));
        } catch (std::bad_alloc const&) {
            thrown = true;
        }
        EXPECT(thrown);
        // A block that shrinks is there already.
        errno = 77;
        last = static_cast<void**>(hide(std::realloc(last, bytes / 4)));
        EXPECT(last != nullptr && errno == 77);
        while (last != nullptr)
            std::free(std::exchange(last, static_cast<void**>(*last)));
        malloc_trim(0);
    }
    // A huge block grows although the system does not have the eighth more that is asked for first.
    void* const huge = std::malloc(std::size_t{160} << 20);
    limit.rlim_cur = own_memory().addresses + (std::size_t{200} << 20);
    EXPECT(huge != nullptr && setrlimit(RLIMIT_AS, &limit) == 0);
    errno = 77;
    void* const grown = hide(std::realloc(huge, std::size_t{180} << 20));
    EXPECT(grown != nullptr && errno == 77);
    std::free(grown);
}

// Random calls by several threads, who also free each other's blocks; each block's bytes are checked before it changes or ends.
struct owned {
    void* p = nullptr;
    std::size_t bytes = 0;
    unsigned seed = 0;
};
void work(unsigned seed, int calls, std::array<std::atomic<owned*>, 64>& shared) {
    std::mt19937 random(seed);
    std::vector<owned> blocks(200);
    for (int i = 0; i < calls; ++i) {
        owned& one = blocks[random() % blocks.size()];
        if (one.p != nullptr && !is_filled(one.p, one.bytes, one.seed)) std::abort();
        std::size_t const bytes = std::size_t{1} << (random() % (random() % 50 == 0 ? 22 : 12));
        std::size_t const wanted = bytes + random() % bytes;
        switch (random() % 8) {
        case 0:
        case 1: {
            std::size_t const kept = std::min(one.bytes, wanted);
            void* const p = std::realloc(one.p, wanted);
            if (p == nullptr || (kept <= 4096 && one.p != nullptr && !is_filled(p, kept, one.seed)))
                std::abort();
            one.p = p;
            break;
        }
        case 2: {
            std::free(one.p);
            auto const* const p = static_cast<unsigned char*>(one.p = std::calloc(1, wanted));
            if (p == nullptr || !is_zero(p, wanted)) std::abort();
            break;
        }
        case 3:
            std::free(one.p);
            if (posix_memalign(&one.p, std::size_t{8} << random() % 10, wanted) != 0) std::abort();
            break;
        case 4: {
            auto* const next = new owned(one);
            owned* const other = shared[random() % shared.size()].exchange(next);
            one = other != nullptr ? *other : owned{};
            delete other;
            if (one.p != nullptr && !is_filled(one.p, one.bytes, one.seed)) std::abort();
            continue;
        }
        default:
            std::free(one.p);
            one.p = random() % 2 == 0 ? std::malloc(wanted) : ::operator new(wanted);
        }
        one.bytes = wanted;
        one.seed = static_cast<unsigned>(random());
        fill(one.p, one.bytes, one.seed);
    }
    for (owned const& one : blocks)
        std::free(one.p);
}
void soak(int seconds, int threads, int calls) {
    time_t const end = time(nullptr) + seconds;
    unsigned seed = 1;
    do {
        std::array<std::atomic<owned*>, 64> shared{};
        std::vector<std::thread> all;
        for (int i = 0; i < threads; ++i)
            all.emplace_back(work, ++seed, calls, std::ref(shared));
        for (int i = 0; i < 3; ++i) {
            pid_t const child = fork();
            EXPECT(child >= 0);
            if (child == 0) {
                std::array<std::atomic<owned*>, 64> own{};
                work(seed + 1000, 2000, own);
                std::thread(work, seed + 2000, 2000, std::ref(own)).join();
                _exit(7);
            }
            int status = 0;
            EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        }
        for (std::thread& each : all)
            each.join();
        for (auto& each : shared)
            if (owned* const one = each.load()) {
                std::free(one->p);
                delete one;
            }
    } while (time(nullptr) < end);
}
void threads(char const*) { soak(0, 4, 30'000); }

void statistics(char const*) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    void* const p = std::malloc(std::size_t{50} << 20);
    struct mallinfo2 const with = mallinfo2();
    std::free(p);
    struct mallinfo2 const without = mallinfo2();
    EXPECT(with.uordblks - without.uordblks >= std::size_t{50} << 20 && with.arena >= with.uordblks);
#endif
    std::vector<void*> blocks;
    for (int i = 0; i < 100'000; ++i)
        std::memset(blocks.emplace_back(std::malloc(1000)), 1, 1000);
    for (void* const one : blocks)
        std::free(one);
    std::size_t const before = resident_bytes();
    EXPECT(malloc_trim(0) == 1 && resident_bytes() + (50 << 20) < before);
}

// The least stack that a thread may have is enough for each call.
void small_stack(char const*) {
    pthread_attr_t attributes;
    EXPECT(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 16 << 10) == 0);
    pthread_t thread{};
    auto* const call_all = +[](void*) -> void* {
        for (std::size_t bytes = 1; bytes <= std::size_t{32} << 20; bytes *= 2)
            std::free(std::realloc(std::malloc(bytes), bytes * 3));
        std::free(aligned_alloc(1 << 20, 100));
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
        EXPECT(mallinfo2().arena > 0);
#endif
        malloc_trim(0);
        std::exit(0);  // with POOLED_STATS
    };
    EXPECT(pthread_create(&thread, &attributes, call_all, nullptr) == 0);
    pthread_join(thread, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
    std::map<std::string_view, void (*)(char const*)> const parts{
        {"sizes", sizes},
        {"alignments", alignments},
        {"errors", errors},
        {"realloc", realloc_},
        {"realloc_in_place", realloc_in_place},
        {"realloc_moves_pages", realloc_moves_pages},
        {"calloc", calloc_},
        {"calloc_touches_nothing", calloc_touches_nothing},
        {"mixed", mixed},
        {"of_libc", of_libc},
        {"deep_bound", deep_bound},
        {"lifetimes", lifetimes},
        {"exhaustion", exhaustion},
        {"threads", threads},
        {"statistics", statistics},
        {"small_stack", small_stack}};
    if (argc != 3) return 2;
    // By hand: soak SECONDS
    if (std::string_view(argv[1]) == "soak") return soak(std::atoi(argv[2]), 6, 100'000), 0;
    auto const part = parts.find(argv[1]);
    if (part == parts.end()) return 2;
    part->second(argv[2]);
}
