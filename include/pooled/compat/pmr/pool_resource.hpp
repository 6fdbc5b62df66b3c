// SPDX-License-Identifier: BSL-1.0
#pragma once

// The common base of both classes of pmr.hpp: a memory_resource with the members of the standard's. resource_pool.hpp defines
// them. A source that is compiled for libpooled does not include that header, so it compiles about as fast as with the
// standard's classes.

#include "pooled/config.hpp"

#include <cstddef>
#include <memory_resource>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {
enum class sharing : bool;
}

namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail {

template <pooled::detail::sharing Sharing>
class resource_pool;

template <pooled::detail::sharing Sharing>
class pool_resource : public std::pmr::memory_resource {
public:
    // Throws std::bad_alloc when memory for the pool's own structures, or pool ids (65536 at once), run out. Takes no memory from
    // upstream yet, which must outlive the resource.
    POOLED_API pool_resource(std::pmr::pool_options const& options, std::pmr::memory_resource* upstream);
    pool_resource() : pool_resource(std::pmr::pool_options(), std::pmr::get_default_resource()) {}
    explicit pool_resource(std::pmr::memory_resource* upstream)
        : pool_resource(std::pmr::pool_options(), upstream) {}
    explicit pool_resource(std::pmr::pool_options const& options)
        : pool_resource(options, std::pmr::get_default_resource()) {}
    pool_resource(pool_resource const&) = delete;
    pool_resource& operator=(pool_resource const&) = delete;
    POOLED_API ~pool_resource() override;

    // Returns all memory to upstream, including that of blocks in use.
    POOLED_API void release();

    [[nodiscard]] POOLED_API std::pmr::memory_resource* upstream_resource() const noexcept;

    // The options in effect: zeros and values that are too large are replaced by the limits, and largest_required_pool_block is
    // rounded up to the size of a block.
    [[nodiscard]] POOLED_API std::pmr::pool_options options() const noexcept;

protected:
    POOLED_API void* do_allocate(std::size_t bytes, std::size_t align) override;
    POOLED_API void do_deallocate(void* p, std::size_t bytes, std::size_t align) override;
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

private:
    resource_pool<Sharing>& m_pool;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail
