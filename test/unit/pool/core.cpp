// SPDX-License-Identifier: BSL-1.0
// A pool's core, without a handle: its parts, and when it can be destroyed.

#include "pooled/pool/core.hpp"

#include "pooled/pool/core_memory.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/registry.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using namespace pooled::detail;

constexpr class_index k_48 = class_for(48, 8);
constexpr std::uint32_t k_id = 60'020;  // no pool of this program has it

struct recording : pool_extension {
    void on_destroy() noexcept override { events += 'd'; }
    void on_retire(thread_cache&) noexcept override { events += 'r'; }
    std::string events;
};

class core_test : public testing::TestWithParam<sharing> {
protected:
    [[nodiscard]] pool_core& make(pooled::pool_options options = {}) {
        EXPECT_TRUE(platform::has_heavy_barrier());
        options.upstream = &memory;
        static constexpr core_functions k_never_called{};
        return pool_core::create(options, GetParam(), k_id, g_registry, k_never_called);
    }
    // A block for a thread without a cache.
    [[nodiscard]] static void* take(pool_core& core) { return core.memory().allocate(k_48, nullptr); }

    test::counting_upstream memory;
};
INSTANTIATE_TEST_SUITE_P(kinds, core_test, testing::Values(sharing::shared, sharing::local),
                         [](auto const& of) {
                             return std::string(of.param == sharing::local ? "local" : "shared");
                         });

TEST_P(core_test, knows_what_it_was_made_with) {
    pool_core& core =
        make({.name = "packets", .max_bytes = 12'345, .teardown = pooled::teardown::incremental});
    EXPECT_EQ(core.id(), k_id);
    EXPECT_EQ(core.slot(), k_far_slot);
    EXPECT_EQ(core.is_local(), GetParam() == sharing::local);
    EXPECT_TRUE(core.is_incremental());
    EXPECT_FALSE(core.is_immediate());
    EXPECT_FALSE(core.is_closed());
    EXPECT_STREQ(core.name(), "packets");
    EXPECT_EQ(core.stats().max_bytes, 12'345U);
    EXPECT_EQ(core.stats().threads, core.is_local() ? 1U : 0U)
        << "a local pool has its one cache from the start";
    EXPECT_TRUE(core.close());
    core.destroy();
}

TEST_P(core_test, cuts_a_name_at_47_bytes_and_not_within_a_character) {
    for (std::size_t const prefix : {46U, 47U, 48U}) {
        std::string const name = std::string(prefix, 'x') + "\u00e4";  // two bytes
        pool_core& core = make({.name = name});
        EXPECT_EQ(std::string_view(core.name()), name.substr(0, prefix < 47 ? 46 : 47));
        EXPECT_TRUE(core.close());
        core.destroy();
    }
}

TEST_P(core_test, refuses_chunks_over_1_tib) {
    EXPECT_THROW(static_cast<void>(make({.chunk_bytes = k_max_chunk_bytes + 1})), std::invalid_argument);
}

TEST_P(core_test, can_be_destroyed_when_the_last_block_of_a_closed_pool_is_returned) {
    pool_core& core = make();
    void* const a = take(core);
    void* const b = take(core);
    void* const large = core.memory().allocate_large(100'000, 16, nullptr);
    EXPECT_FALSE(core.deallocate(k_48, nullptr, b)) << "it is not closed";
    EXPECT_FALSE(core.close());
    EXPECT_TRUE(core.is_closed());
    EXPECT_FALSE(core.deallocate_large(large, nullptr));
    EXPECT_TRUE(core.deallocate(k_48, nullptr, a));
    core.destroy();
    EXPECT_EQ(memory.bytes(), 0U);
}

TEST_P(core_test, has_one_extension_at_a_time_and_tells_it_of_its_end) {
    pool_core& core = make();
    recording first;
    recording second;
    EXPECT_EQ(core.extension(), nullptr);
    EXPECT_TRUE(core.set_extension_if_none(first));
    EXPECT_FALSE(core.set_extension_if_none(second));
    EXPECT_EQ(core.extension(), &first);
    core.set_extension(&second);
    EXPECT_TRUE(core.close());
    core.destroy();
    EXPECT_EQ(first.events, "");
    EXPECT_EQ(second.events, "d");
}

TEST_P(core_test, retires_a_cache_after_its_extension_took_what_it_kept_there) {
    pool_core& core = make();
    recording extension;
    core.set_extension(&extension);
    thread_cache cache;
    {
        std::scoped_lock const lock(core.caches().mutex());
        core.caches().link(cache);
    }
    void* const p = core.memory().allocate(k_48, &cache);
    EXPECT_GT(core.stats().cached, 0U);
    {
        std::scoped_lock const lock(core.caches().mutex());
        core.retire(cache);
    }
    EXPECT_EQ(extension.events, "r");
    EXPECT_EQ(core.stats().cached, 0U);
    EXPECT_EQ(core.stats().in_use, 1U);
    EXPECT_FALSE(core.deallocate(k_48, nullptr, p));
    EXPECT_TRUE(core.close());
    core.destroy();
}

TEST_P(core_test, says_what_was_asked_of_which_pool_when_it_is_exhausted) {
    pool_core& core = make({.name = "packets", .max_bytes = 65'536});
    void* const p = take(core);
    try {
        core.throw_exhausted(777);
    } catch (pooled::exhausted const& e) {
        for (char const* const part : {"packets", "777", "65536"})
            EXPECT_NE(std::string_view(e.what()).find(part), std::string_view::npos) << e.what();
    }
    EXPECT_FALSE(core.deallocate(k_48, nullptr, p));
    EXPECT_TRUE(core.close());
    core.destroy();
}

TEST_P(core_test, is_equal_as_a_memory_resource_to_itself_alone) {
    pool_core& core = make();
    EXPECT_TRUE(core.is_equal(core));
    EXPECT_FALSE(core.is_equal(memory));
    EXPECT_TRUE(core.close());
    core.destroy();
}

}  // namespace
