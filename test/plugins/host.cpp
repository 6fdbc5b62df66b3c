// SPDX-License-Identifier: BSL-1.0
// Objects of all handle kinds cross between an executable and the plugins that it opens, in all directions: the destructor of
// the side that made an object runs, and every block returns to its pool.
//
//   usage: host <local|global> <one|same|other> <plugin>...      one: all share one state; other: the plugins' layout is not the
//                                                                executable's

#include "plugins/side.hpp"
#include "support/internals.hpp"

#include <link.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace plugins;

extern "C" side const* plugins_side();

namespace {

#if defined(_LIBCPP_VERSION)
constexpr bool k_has_libcpp = true;
#else
constexpr bool k_has_libcpp = false;
#endif
constexpr std::size_t k_many = 20'000;  // so many that caches are flushed often

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, g_step.c_str(), #condition); \
            std::exit(1);                                                                   \
        }                                                                                   \
    } while (false)

std::string g_step;

class library {
public:
    library(std::string path, int mode) : m_path(std::move(path)), m_mode(mode) { open(); }
    void open() {
        m_handle = dlopen(m_path.c_str(), RTLD_NOW | m_mode);
        if (m_handle == nullptr) std::puts(dlerror()), std::exit(1);
        m_side = reinterpret_cast<side const* (*)()>(dlsym(m_handle, "plugins_side"))();
    }
    [[nodiscard]] bool is_loaded() const {
        void* const again = dlopen(m_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
        return again != nullptr && dlclose(again) == 0;
    }
    void close() {
        if (dlclose(m_handle) != 0) std::puts(dlerror()), std::exit(1);
    }
    side const& operator*() const { return *m_side; }

private:
    std::string m_path;
    int m_mode;
    void* m_handle = nullptr;
    side const* m_side = nullptr;
};

// `make` once for each object; all are dropped here, that is on the side of the executable, or by `b` when it takes them.
template <class Make>
void make_and_drop(char const* what, Make make) {
    g_step = what;
    std::vector<decltype(make())> all;
    for (std::size_t i = 0; i < k_many; ++i)
        all.push_back(make());
    for (std::size_t i = 0; i < k_many; i += 2)  // not in the order of their creation
        all[i] = {};
    for (std::size_t round = 0; round < 3; ++round)
        for (std::size_t i = 0; i < 100; ++i)
            all[2 * i] = make();
}

void check_unused(std::vector<side const*> const& sides, std::vector<std::uint64_t> const& before) {
    for (std::size_t i = 0; i < sides.size(); ++i) {
        CHECK(sides[i]->alive() == 0);
        std::uint64_t const now = sides[i]->in_use();
        if (now != before[i])
            std::printf("%s: %llu blocks in use, %llu before\n", sides[i]->name, (unsigned long long)now,
                        (unsigned long long)before[i]);
        CHECK(now == before[i]);
    }
}

// Everything that the sides may exchange when they share a layout. `here` runs in this file.
void exchange(side const& a, side const& b) {
    make_and_drop("std::shared_ptr", a.make_shared);
    make_and_drop("unique_ptr of a base", a.make_unique);
    make_and_drop("unique_ptr of a second base", a.make_base);
    make_and_drop("rc_ptr", a.make_rc);
    make_and_drop("weak_rc_ptr", [&] {
        auto const strong = a.make_rc();
        return pooled::weak_rc_ptr<thing>(strong);
    });
    make_and_drop("unique_ptr, trivially destructible", a.make_plain);
    make_and_drop("rc_ptr, trivially destructible", a.make_plain_rc);
    make_and_drop("weak_rc_ptr, trivially destructible", [&] {
        auto const strong = a.make_plain_rc();
        return pooled::weak_rc_ptr<plain>(strong);
    });
    make_and_drop("shared_ptr, trivially destructible", a.make_plain_shared);
    make_and_drop("unique_ptr of an array", [&] { return a.make_array(3); });
    make_and_drop("unique_ptr of a large array",
                  [&, n = 0]() mutable { return a.make_array(++n % 500 == 0 ? 10'000 : 1); });
    make_and_drop("object_pool, shared_ptr", a.acquire_shared);
    make_and_drop("object_pool, unique_ptr", a.acquire_unique);
    make_and_drop("object_pool, rc_ptr", a.acquire_rc);

    // Made by `a` in a pool of `b`.
    make_and_drop("unique_ptr in a pool of the other side", [&] { return a.make_unique_in(b.pool()); });
    make_and_drop("shared_ptr in a pool of the other side", [&] { return a.make_shared_in(b.pool()); });
    make_and_drop("rc_ptr in a pool of the other side", [&] { return a.make_rc_in(b.pool()); });
    make_and_drop("unique_ptr in a pool far away", [&] { return a.make_unique_in(b.far_pool()); });
    make_and_drop("shared_ptr in a pool far away", [&] { return a.make_shared_in(b.far_pool()); });
    make_and_drop("array in a pool far away", [&] { return a.make_array_in(b.far_pool(), 4); });
    make_and_drop("array in a pool of the other side", [&] { return a.make_array_in(b.pool(), 4); });
    make_and_drop("unique_ptr in a local_pool of the other side",
                  [&] { return a.make_unique_in_local(b.local_pool()); });
    make_and_drop("shared_ptr in a local_pool of the other side",
                  [&] { return a.make_shared_in_local(b.local_pool()); });

    g_step = "containers";
    for (int i = 0; i < 50; ++i) {
        plain_vector v = a.make_vector(1);
        plain_vector const w = a.make_vector(1000);
        v.insert(v.end(), w.begin(), w.end());
        plain_list const mine = a.make_list(a.pool(), 100);
        plain_list theirs = a.make_list(b.pool(), 100);
        theirs.resize(300);
        theirs.erase(theirs.begin());
    }
    {
        std::pmr::vector<std::pmr::string> strings(a.resource());
        for (int i = 0; i < 1000; ++i)
            strings.emplace_back(std::string(static_cast<std::size_t>(i), 'x'));
    }

    g_step = "a pool by reference";
    pooled::pool& pool = a.pool();
    {
        pool.reserve<plain>(1000);
        auto const one = pool.make_shared<plain>();
        CHECK(pool.owns(one.get()));
        void* const block = pool.allocate(100);
        CHECK(pool.owns(block));
        void* const large = pool.allocate(200'000);
        CHECK(pool.stats().large_in_use == 1);
        pool.deallocate(large, 200'000);
        pool.deallocate(block, 100);
        CHECK(test::is_valid(pool));
        pool.trim();
    }
    g_step = "an object_pool by reference";
    {
        auto& objects = a.object_pool();
        std::vector<std::shared_ptr<plain>> all;
        for (int i = 0; i < 1000; ++i)
            all.push_back(objects.acquire());
        all.clear();
        CHECK(objects.in_use() == 0);
        CHECK(test::is_valid(objects));
        objects.trim();
    }

    g_step = "a thread ends while the other side has the lock of the caches";
    if (b.with_lock != nullptr) {
        std::promise<void> has_cache;
        std::promise<void> may_end;
        std::thread user([&] {
            std::vector<std::shared_ptr<plain>> some;  // more than its cache takes
            for (int i = 0; i < 10; ++i)
                some.push_back(a.acquire_shared());
            has_cache.set_value();
            may_end.get_future().wait();
        });
        has_cache.get_future().wait();
        b.with_lock(a.object_pool(), [&] {
            may_end.set_value();
            user.join();
        });
        CHECK(a.object_pool().in_use() == 0);
        CHECK(test::is_valid(a.object_pool()));
    }
    g_step = "an object is released by the other side while this one has the lock of the caches";
    if (a.with_lock != nullptr) {
        std::vector<std::shared_ptr<plain>> some;
        for (int i = 0; i < 10; ++i)
            some.push_back(b.acquire_shared_in(a.object_pool()));
        std::promise<void> has_lock;
        std::atomic<bool> is_released{false};
        std::thread user([&] {
            has_lock.get_future().wait();
            some.clear();
            is_released = true;
        });
        bool is_left = false;
        a.with_lock(a.object_pool(), [&] {
            has_lock.set_value();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            is_left = is_released;
        });
        user.join();
        CHECK(!is_left || a.state() == b.state());  // what the one leaves, the other cannot free
        CHECK(a.object_pool().in_use() == 0);
        CHECK(test::is_valid(a.object_pool()));
    }

    g_step = "a deep structure of both sides";
    {
        pooled::unique_ptr<holder> chain;
        for (int i = 0; i < 200'000; ++i)
            chain = (i / 3 % 2 == 0 ? a : b).make_chain(std::move(chain));
    }
    g_step = "exhausted";
    try {
        a.exhaust();
        CHECK(false);
    } catch (pooled::exhausted const& e) {
        CHECK(std::strstr(e.what(), "small") != nullptr);
    } catch (std::bad_alloc const& e) {
        // libc++ compares the addresses of type_info: each side that exports none catches its own by name only.
        CHECK(k_has_libcpp && a.owns_default_pool() != plugins_side()->owns_default_pool());
        CHECK(std::strstr(e.what(), "small") != nullptr);
    }
}

// On other threads, which drop what this one made.
void exchange_by_threads(side const& a) {
    g_step = "threads";
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&a] {
            for (int round = 0; round < 10; ++round) {
                std::vector<pooled::unique_ptr<thing>> things;
                std::vector<pooled::unique_ptr<plain>> plains;
                for (int i = 0; i < 1000; ++i) {
                    things.push_back(a.make_unique());
                    plains.push_back(a.make_plain());
                }
            }
        });
    for (std::thread& one : threads)
        one.join();
}

void exchange_narrow(side const& a) {
    make_and_drop("std::shared_ptr", a.make_shared);
    std::pmr::vector<std::pmr::string> strings(a.resource());
    for (int i = 0; i < 1000; ++i)
        strings.emplace_back(std::string(static_cast<std::size_t>(i), 'x'));
}

// A child of a fork may use all pools, even where another thread held the loader's lock: that is never released there.
void fork_beside_the_loader(std::vector<side const*> const& sides) {
    g_step = "a fork while another thread holds the loader's lock";
    struct {
        std::atomic<bool> is_inside{false};
        std::atomic<bool> may_end{false};
    } loader;
    for (side const* one : sides)
        one->use_new_pool();
    std::thread other([&loader] {
        auto const wait = [](dl_phdr_info*, std::size_t, void* argument) {
            auto& with = *static_cast<decltype(loader)*>(argument);
            with.is_inside = true;
            while (!with.may_end)
                std::this_thread::yield();
            return 1;
        };
        dl_iterate_phdr(wait, &loader);
    });
    while (!loader.is_inside)
        std::this_thread::yield();
    pid_t const child = fork();
    if (child == 0) {
        alarm(20);
        for (side const* one : sides)
            one->use_new_pool();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    loader.may_end = true;
    other.join();
    CHECK(status == 0);
}

// A thread that used the library's pools ends after the library was closed. `is_pinned`: the library has state of its own, or has made
// objects of a class with a destructor.
void outlive(library& plugin, int times, bool is_pinned) {
    g_step = "a thread outlives dlclose";
    for (int i = 0; i < times; ++i) {
        std::atomic<bool> has_used{false};
        std::atomic<bool> may_end{false};
        std::thread user([&] {
            { auto const one = (*plugin).make_shared(); }
            has_used = true;
            while (!may_end)
                std::this_thread::yield();
        });
        while (!has_used)
            std::this_thread::yield();
        plugin.close();
        CHECK(!is_pinned || plugin.is_loaded());
        may_end = true;
        user.join();
        plugin.open();
    }
}

}  // namespace

int main(int argc, char** argv) {
    int const mode = argc > 1 && std::strcmp(argv[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    bool const is_one = argc > 2 && std::strcmp(argv[2], "one") == 0;
    bool const is_same = is_one || (argc > 2 && std::strcmp(argv[2], "same") == 0);
    std::vector<library> plugins;
    for (int i = 3; i < argc; ++i)
        plugins.emplace_back(argv[i], mode);
    for (library& plugin : plugins) {  // before any copy owns state
        plugin.close();
        plugin.open();
    }

    std::vector<side const*> sides{plugins_side()};
    for (library const& plugin : plugins)
        sides.push_back(&*plugin);
    std::vector<std::uint64_t> before;
    for (side const* one : sides) {
        static_cast<void>(one->resource());  // its pool
        if (is_same) {
            static_cast<void>(one->object_pool());
            static_cast<void>(one->local_pool());
        }
        before.push_back(one->in_use());
    }
    for (side const* a : sides)
        for (side const* b : sides) {
            if (a == b) continue;
            if (is_same) {
                exchange(*a, *b);
                exchange_by_threads(*a);
            } else {
                exchange_narrow(*a);
            }
            check_unused(sides, before);
        }
    for (library& plugin : plugins)
        outlive(plugin, 20, is_same);
    fork_beside_the_loader(sides);
    check_unused(sides, before);
    int owners = 0;
    for (side const* one : sides)
        owners += one->owns_default_pool() ? 1 : 0;
    std::printf("%d of %zu sides own a default pool\n", owners, sides.size());
    g_step = "one state";
    CHECK(!is_one || static_cast<std::size_t>(owners) == sides.size());
    for (side const* one : sides)
        one->close();
    std::puts("passed");
}
