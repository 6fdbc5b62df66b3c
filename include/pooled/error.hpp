// SPDX-License-Identifier: BSL-1.0
#pragma once

// The exceptions of the library. Each contains its message, so that reporting a lack of memory allocates none.

#include "pooled/config.hpp"

#include <new>

POOLED_BEGIN_BUILD_NAMESPACE

// A bounded pool has reached `max_bytes` (or an object_pool `max_objects`), and no free block was found in any thread's
// cache. The message states the request, the pool, and what to do.
// Exported, with the same name in libpooled and without it: a library built with -fvisibility=hidden catches what others throw.
class POOLED_EXPORT exhausted : public std::bad_alloc {
public:
    exhausted(char const* pool_name, std::size_t asked_bytes, std::size_t used_bytes,
              std::size_t max_bytes) noexcept {
        std::snprintf(
            m_message, sizeof(m_message),
            "pooled: pool '%s' is exhausted: %zu bytes requested, %zu of max_bytes = %zu are in use "
            "or free for other sizes only; drop objects, raise pool_options::max_bytes, or use a try_ form",
            pool_name, asked_bytes, used_bytes, max_bytes);
    }
    exhausted(char const* pool_name, std::size_t max_objects) noexcept {
        std::snprintf(
            m_message, sizeof(m_message),
            "pooled: object_pool '%s' is exhausted: all of max_objects = %zu objects are in use (a weak_ptr "
            "counts); "
            "release some, raise object_pool_options::max_objects, or use a form that waits or a try_ form",
            pool_name, max_objects);
    }
    [[nodiscard]] char const* what() const noexcept override { return m_message; }

private:
    char m_message[320]{};
};

POOLED_END_NAMESPACE

POOLED_BEGIN_DETAIL

// A reservation that exceeds the machine's memory; without exceptions, any request of a pool that upstream refuses.
class not_enough_memory : public std::bad_alloc {
public:
    explicit not_enough_memory(std::size_t asked_bytes, char const* pool_name = "") noexcept {
        std::snprintf(m_message, sizeof(m_message),
                      "pooled: pool%s%s%s cannot reserve %zu bytes: upstream has less; reserve less",
                      *pool_name != 0 ? " '" : "", pool_name, *pool_name != 0 ? "'" : "", asked_bytes);
    }
    [[nodiscard]] char const* what() const noexcept override { return m_message; }

private:
    char m_message[192]{};
};

POOLED_END_DETAIL
