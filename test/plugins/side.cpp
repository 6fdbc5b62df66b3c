// SPDX-License-Identifier: BSL-1.0
// One side of the tests: compiled into the executable, and, with other flags, into each plugin.

#include "plugins/side.hpp"

#include "support/internals.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <string_view>

#include <sys/mman.h>

#ifndef SIDE_NAME
#define SIDE_NAME "host"
#endif

using namespace plugins;

namespace {

std::atomic<long> g_alive{0};

struct own_thing final : thing {
    own_thing() noexcept { ++g_alive; }
    ~own_thing() override {
        if (m_mark != this) std::puts("a destructor ran on an object of another class"), std::abort();
        m_mark = nullptr;
        --g_alive;
    }
    [[nodiscard]] char const* side() const noexcept override { return SIDE_NAME; }

private:
    void* m_mark = this;
    [[maybe_unused]] std::array<char, sizeof(SIDE_NAME) * 8> m_payload{};
};

struct two_bases final : thing, other_base {
    two_bases() noexcept { ++g_alive; }
    ~two_bases() override { --g_alive; }
    [[nodiscard]] char const* side() const noexcept override { return SIDE_NAME; }
};

// Pages at an address that only this side uses.
class far_pages final : public std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        std::uintptr_t const at = (m_next + align - 1) & ~(align - 1);
        m_next = at + bytes;
        void* const p = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == MAP_FAILED) throw std::bad_alloc();
        return p;
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t) override { munmap(p, bytes); }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    std::uintptr_t m_next =
        std::uintptr_t{0x2000'0000'0000} + (std::hash<std::string_view>{}(SIDE_NAME) % 256 << 36);
};
far_pages g_far_pages;

// Made at first use, so that a side which uses none has no state, and destroyed by close().
std::optional<pooled::pool> g_pool;
std::optional<pooled::pool> g_far;
std::optional<pooled::local_pool> g_local;
std::optional<pooled::object_pool<plain>> g_objects;

pooled::pool& own_pool() {
    if (!g_pool) g_pool.emplace(pooled::pool_options{.name = SIDE_NAME});
    return *g_pool;
}
pooled::pool& own_far_pool() {
    if (!g_far) g_far.emplace(pooled::pool_options{.name = SIDE_NAME, .upstream = &g_far_pages});
    return *g_far;
}
pooled::local_pool& own_local_pool() {
    if (!g_local) g_local.emplace(pooled::pool_options{.name = SIDE_NAME});
    return *g_local;
}
pooled::object_pool<plain>& own_objects() {
    if (!g_objects) g_objects.emplace(pooled::object_pool_options{.name = SIDE_NAME});
    return *g_objects;
}

std::uint64_t blocks_in_use() {
    pooled::default_pool().trim();
    std::uint64_t sum = pooled::default_pool().stats().in_use;
    if (g_pool) {
        g_pool->trim();
        sum += g_pool->stats().in_use;
        if (!test::is_valid(*g_pool)) std::puts("the pool is not valid"), std::abort();
    }
    if (g_far) sum += g_far->stats().in_use;
    if (g_local) sum += g_local->stats().in_use;
    if (g_objects) sum += g_objects->in_use();
    return sum;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) side const* plugins_side() {
    static side const self = [] {
        side s{};
        s.name = SIDE_NAME;
        s.make_shared = [] { return std::shared_ptr<thing>(pooled::make_shared<own_thing>()); };
        s.resource = [] { return own_pool().resource(); };
        s.alive = [] { return g_alive.load(); };
        s.in_use = blocks_in_use;
        s.owns_default_pool = [] {
            return !pooled::detail::g_registry.is_foreign(test::core_of(pooled::default_pool()));
        };
        s.use_new_pool = [] {
            pooled::pool fresh;
            fresh.deallocate(fresh.allocate(64, 8), 64, 8);
        };
        s.close = [] {
            g_objects.reset();
            g_local.reset();
            g_far.reset();
            g_pool.reset();
        };
        s.make_unique = [] { return pooled::unique_ptr<thing>(pooled::make_unique<own_thing>()); };
        s.make_base = [] { return pooled::unique_ptr<other_base>(pooled::make_unique<two_bases>()); };
        s.make_rc = [] { return pooled::rc_ptr<thing>(pooled::make_rc<own_thing>()); };
        s.make_unique_in = [](pooled::pool& p) {
            return pooled::unique_ptr<thing>(p.make_unique<own_thing>());
        };
        s.make_shared_in = [](pooled::pool& p) { return std::shared_ptr<thing>(p.make_shared<own_thing>()); };
        s.make_rc_in = [](pooled::pool& p) { return pooled::rc_ptr<thing>(p.make_rc<own_thing>()); };
        s.make_unique_in_local = [](pooled::local_pool& p) {
            return pooled::unique_ptr<thing>(p.make_unique<own_thing>());
        };
        s.make_shared_in_local = [](pooled::local_pool& p) {
            return std::shared_ptr<thing>(p.make_shared<own_thing>());
        };
        s.make_plain = [] { return pooled::make_unique<plain>(); };
        s.make_plain_rc = [] { return pooled::make_rc<plain>(); };
        s.make_plain_shared = [] { return pooled::make_shared<plain>(); };
        s.make_array = [](std::size_t n) { return pooled::make_unique<plain[]>(n); };
        s.make_array_in = [](pooled::pool& p, std::size_t n) { return p.make_unique<plain[]>(n); };
        s.make_chain = [](pooled::unique_ptr<holder> next) {
            auto one = pooled::make_unique<holder>();
            one->next = std::move(next);
            one->other = pooled::make_shared<plain>();
            return one;
        };
        s.make_vector = [](std::size_t n) { return plain_vector(n); };
        s.make_list = [](pooled::pool& p, std::size_t n) { return plain_list(n, plain{}, p); };
        s.acquire_shared = [] { return own_objects().acquire(); };
        s.acquire_unique = [] { return own_objects().acquire_unique(); };
        s.acquire_rc = [] { return own_objects().acquire_rc(); };
        s.pool = own_pool;
        s.far_pool = own_far_pool;
        s.local_pool = own_local_pool;
        s.object_pool = own_objects;
        s.acquire_shared_in = [](pooled::object_pool<plain>& p) { return p.acquire(); };
        s.state = []() -> void const* { return &pooled::detail::g_registry; };
#if POOLED_HAS_CODE
        s.with_lock = [](pooled::object_pool<plain>& p, std::function<void()> const& work) {
            pooled::detail::scoped_lock const lock(pooled::detail::object_pool_access::core(p).caches());
            work();
        };
#endif
        s.exhaust = [] {
            pooled::pool small{{.name = "small", .max_bytes = 64 << 10}};
            std::vector<std::shared_ptr<plain>> all;
            for (;;)
                all.push_back(small.make_shared<plain>());
        };
        return s;
    }();
    return &self;
}
