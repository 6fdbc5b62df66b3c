// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the executable and each plugin of these tests offer the other sides: objects of all handle kinds to drop, and pools
// to use. Each side has its own class behind `thing`, with the same name and another size, so that a destructor of the wrong
// side is detected.

#include "pooled/pooled.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <memory_resource>
#include <vector>

namespace plugins {

struct thing {
    thing() = default;
    virtual ~thing() = default;
    thing(thing const&) = delete;
    thing& operator=(thing const&) = delete;
    [[nodiscard]] virtual char const* side() const noexcept = 0;
};

struct other_base {
    virtual ~other_base() = default;
    std::uint64_t padding = 1;
};

struct plain {
    std::uint64_t a = 1;
    std::uint64_t b = 2;
    std::uint64_t c = 3;
};

struct holder {  // many of these make a deep structure
    pooled::unique_ptr<holder> next;
    std::shared_ptr<void> other;
};

using plain_list = std::list<plain, pooled::pool_allocator<plain>>;
using plain_vector = std::vector<plain, pooled::allocator<plain>>;

// Between builds that do not share a layout, only what works by virtual functions may cross: these two.
struct narrow_side {
    char const* name;
    std::shared_ptr<thing> (*make_shared)();
    std::pmr::memory_resource* (*resource)();
    long (*alive)();            // objects of this side's classes
    std::uint64_t (*in_use)();  // blocks of this side's pools, the default pool included; after trimming them
    bool (*owns_default_pool)();
    void (*use_new_pool)();
    void (*close)();
};

struct side : narrow_side {
    pooled::unique_ptr<thing> (*make_unique)();
    pooled::unique_ptr<other_base> (*make_base)();
    pooled::rc_ptr<thing> (*make_rc)();
    pooled::unique_ptr<thing> (*make_unique_in)(pooled::pool&);
    std::shared_ptr<thing> (*make_shared_in)(pooled::pool&);
    pooled::rc_ptr<thing> (*make_rc_in)(pooled::pool&);
    pooled::unique_ptr<thing> (*make_unique_in_local)(pooled::local_pool&);
    std::shared_ptr<thing> (*make_shared_in_local)(pooled::local_pool&);
    pooled::unique_ptr<plain> (*make_plain)();
    pooled::rc_ptr<plain> (*make_plain_rc)();
    std::shared_ptr<plain> (*make_plain_shared)();
    pooled::unique_ptr<plain[]> (*make_array)(std::size_t);
    pooled::unique_ptr<plain[]> (*make_array_in)(pooled::pool&, std::size_t);
    pooled::unique_ptr<holder> (*make_chain)(pooled::unique_ptr<holder>);
    plain_vector (*make_vector)(std::size_t);
    plain_list (*make_list)(pooled::pool&, std::size_t);
    std::shared_ptr<plain> (*acquire_shared)();
    pooled::unique_ptr<plain> (*acquire_unique)();
    pooled::rc_ptr<plain> (*acquire_rc)();
    pooled::pool& (*pool)();
    pooled::pool& (*far_pool)();  // its memory lies many GiB away from that of others
    pooled::local_pool& (*local_pool)();
    pooled::object_pool<plain>& (*object_pool)();
    std::shared_ptr<plain> (*acquire_shared_in)(pooled::object_pool<plain>&);
    void const* (*state)();
    // This side's code has the lock of the pool's caches while it calls `work`. Null with the compiled library, which declares no lock.
    void (*with_lock)(pooled::object_pool<plain>&, std::function<void()> const& work);
    void (*exhaust)();  // throws pooled::exhausted
};

}  // namespace plugins
