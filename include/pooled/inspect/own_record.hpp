// SPDX-License-Identifier: BSL-1.0
#pragma once

// The record of this copy of the library's state: where inspect/record.hpp finds the members. Constant data, with nothing to run.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/inspect/record.hpp"
#include "pooled/pool/registry.hpp"

POOLED_BEGIN_DETAIL

// offsetof() as a number of the record. Each class is laid out as its members are declared, also those that the standard does not
// promise it of. The macro of <cstddef> takes the preprocessor three lines.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
#define POOLED_OFFSET(type, member) static_cast<std::uint32_t>(__builtin_offsetof(type, member))
#define POOLED_AT(type, member) .member = POOLED_OFFSET(type, member)  // where both have the same name

template <>
struct record_access::of<registry> {
    using thread_caches = decltype(cache_set::m_all);
    using regions = std::remove_cvref_t<decltype(metadata_arena::m_regions[0])>;

    template <class T>
    [[nodiscard]] static consteval std::uint32_t size() noexcept {
        return static_cast<std::uint32_t>(sizeof(T));
    }

    [[nodiscard]] static consteval inspect::record record() noexcept {
        static_assert(__builtin_offsetof(page_map, m_root) == 0);
        static_assert(sizeof(raw_mutex) == sizeof(std::uint32_t) && sizeof(slab_list) == 2 * sizeof(void*));
        inspect::record r;
        r.bytes = size<inspect::record>();
        r.are_blocks_of_malloc = POOLED_SANITIZE;
        r.guard_bytes = static_cast<std::uint32_t>(k_guard_bytes);
        r.page_map = &g_page_map;
        r.registry = &g_registry;
        r.arena = &g_metadata;
        r.page_map_bytes = sizeof(page_map);
        r.registry_bytes = sizeof(registry);
        r.arena_bytes = sizeof(metadata_arena);
        r.map = {.root_entries = 1U << (page_map::k_address_bits - page_map::k_leaf_bits),
                 .leaf_bits = page_map::k_leaf_bits,
                 .granule_bytes = static_cast<std::uint32_t>(k_granule_bytes),
                 .pool_shift = map_entry::k_pool_shift,
                 .descriptor_mask = map_entry::k_descriptor_mask};
        r.of_registry = {POOLED_AT(registry, m_cores), .max_pools = k_max_pools};
        // offsetof() of a reference would refer to what it refers to.
        r.of_core = {.m_made_by = POOLED_OFFSET(pool_core, m_id) - size<void*>(),
                     POOLED_AT(pool_core, m_id),
                     POOLED_AT(pool_core, m_extension),
                     POOLED_AT(pool_core, m_name),
                     .name_bytes = size<decltype(pool_core::m_name)>(),
                     .m_memory = POOLED_OFFSET(pool_core, m_on_exhausted) + size<exhaustion_hook>(),
                     .bytes = size<pool_core>(),
                     .description = POOLED_OFFSET(pool_extension, m_description)};
        std::uint32_t const caches = POOLED_OFFSET(pool_memory, m_caches);
        std::uint32_t const slots = caches + POOLED_OFFSET(cache_set, m_slots);
        std::uint32_t const shared = caches + POOLED_OFFSET(cache_set, m_pool);
        r.of_memory = {.first_cache =
                           caches + POOLED_OFFSET(cache_set, m_all) + POOLED_OFFSET(thread_caches, m_first),
                       .m_slots = slots + POOLED_OFFSET(bound_slots, m_slots),
                       .slot_count = bound_slots::k_count,
                       .slot_bytes = size<bound_slots::slot>(),
                       .slot_address_shift = bound_slots::k_address_shift,
                       .slot_unit = bound_slots::k_unit,
                       .m_central = caches + POOLED_OFFSET(cache_set, m_central),
                       .central_bytes = size<central>(),
                       .m_deferred = shared + POOLED_OFFSET(central::context, deferred) +
                                     POOLED_OFFSET(deferred_list, m_first),
                       .deferred_bytes = size<deferred_list>(),
                       .m_handed = shared + POOLED_OFFSET(central::context, handed),
                       .handed_step = handed_blocks::k_most_blocks + 1,
                       .handed_bytes = size<handed_blocks>(),
                       .bytes = size<pool_memory>()};
        std::uint32_t const recent = POOLED_OFFSET(central, m_recent);
        r.of_central = {.lock = POOLED_OFFSET(central, m_mutex) + POOLED_OFFSET(mutex, m_mutex) +
                                POOLED_OFFSET(raw_mutex, m_state),
                        .ring = recent + POOLED_OFFSET(recent_blocks, m_ring),
                        .ring_capacity = recent + POOLED_OFFSET(recent_blocks, m_capacity),
                        .ring_begin = recent + POOLED_OFFSET(recent_blocks, m_begin),
                        .ring_count = recent + POOLED_OFFSET(recent_blocks, m_count)};
        r.of_deferred = {POOLED_AT(deferred_blocks, next), POOLED_AT(deferred_blocks, count),
                         POOLED_AT(deferred_blocks, room), .blocks = size<deferred_blocks>()};
        r.of_cache = {.next = POOLED_OFFSET(thread_cache, links),
                      .bytes = size<thread_cache>(),
                      POOLED_AT(thread_cache, recycled),
                      POOLED_AT(thread_cache, classes),
                      .class_count = k_class_count,
                      .class_bytes = size<class_cache>(),
                      .hot = POOLED_OFFSET(class_cache, m_hot),
                      .first = POOLED_OFFSET(class_cache, m_first),
                      .floor = POOLED_OFFSET(class_cache, m_floor),
                      .top = POOLED_OFFSET(class_cache, m_top),
                      .limit = POOLED_OFFSET(class_cache, m_limit),
                      .deferred =
                          POOLED_OFFSET(thread_cache, deferred) + POOLED_OFFSET(thread_deferred, queue)};
        r.of_slab = {POOLED_AT(slab, blocks),   POOLED_AT(slab, owner), POOLED_AT(slab, granules),
                     POOLED_AT(slab, total),    POOLED_AT(slab, free),  POOLED_AT(slab, size_class),
                     POOLED_AT(slab, short_by), POOLED_AT(slab, bits),  .bits_words = slab::k_words,
                     .bytes = size<slab>(),     .exact = k_exact};
        r.of_chunk = {POOLED_AT(chunk, base), POOLED_AT(chunk, bytes), POOLED_AT(chunk, granules),
                      POOLED_AT(chunk, outer), .header_bytes = size<chunk>()};
        r.geometry = {.table = &k_geometry,
                      .stride = size<class_geometry>(),
                      POOLED_AT(class_geometry, block_bytes),
                      .count = k_class_count + 1};
        r.of_arena = {.m_regions = POOLED_OFFSET(metadata_arena, m_regions) + POOLED_OFFSET(regions, m_first),
                      .list_bytes = size<regions>(),
                      .list_count = metadata_arena::k_lists,
                      .next = POOLED_OFFSET(metadata_arena::region, links),
                      .region_bytes = metadata_arena::k_region_bytes,
                      .largest_piece = metadata_arena::k_largest_piece,
                      .page_bytes = platform::k_page_bytes};
        r.of_directory = {POOLED_AT(copy_directory, types), .first_type = k_first_type_number,
                          .type_numbers = k_type_numbers, POOLED_AT(block_type, name)};
        return r;
    }
};

POOLED_HIDDEN inline constexpr inspect::record k_record = record_access::of<registry>::record();

#pragma GCC diagnostic pop

POOLED_END_DETAIL

#endif
