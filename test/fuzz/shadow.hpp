// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a correct library does with the objects of a fuzzed program: which are alive, which have to be destroyed by a drop and
// in which order, and how many blocks of each pool are in use. The objects report to it; any difference ends the process.
//
//   strong > 0                    alive
//   strong == 0, not destroyed    pending: dropped, its destructor has not run yet
//   strong == 0, destroyed        its block is in use as long as weak > 0
//
// An object may own two others. Its destructor drops them; where the order is known, the standard's, the drop of the object
// already determines what follows it: its members, the last one first, and theirs.

#include "fuzz/input.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fuzz {

constexpr std::uint32_t k_nobody = ~std::uint32_t{0};
constexpr std::size_t k_children = 2;

class shadow {
public:
    using children = std::array<std::uint32_t, k_children>;

    // `pool`: a number that no other pool ever has.
    [[nodiscard]] std::uint32_t born(std::uint32_t pool, children const& owned) {
        m_objects.push_back({.pool = pool, .owned = owned});
        ++blocks(pool);
        return static_cast<std::uint32_t>(m_objects.size() - 1);
    }
    void copied(std::uint32_t id) { ++m_objects[id].strong; }
    void observed(std::uint32_t id) { ++m_objects[id].weak; }
    void unobserved(std::uint32_t id) {
        --m_objects[id].weak;
        count_block(m_objects[id]);
    }
    [[nodiscard]] bool is_alive(std::uint32_t id) const { return m_objects[id].strong != 0; }

    // An owner is about to drop its object.
    void drop(std::uint32_t id) {
        if (id == k_nobody || --m_objects[id].strong != 0) return;
        m_order.push_back(id);
        ++m_pending;
        if (m_is_ordered) drop_members(id);
    }

    // The destructor of an object runs.
    void destroyed(std::uint32_t id) {
        check(id < m_objects.size(), "what is destroyed was constructed");
        object& one = m_objects[id];
        check(!one.is_destroyed, "an object is destroyed once");
        check(one.strong == 0, "an object that has an owner is not destroyed");
        check(!m_is_ordered || m_order[m_next] == id, "members are destroyed in the standard's order");
        ++m_next;
        one.is_destroyed = true;
        --m_pending;
        count_block(one);
        if (!m_is_ordered) drop_members(id);
    }

    // Whether the order of destruction is checked from now on. Requires that nothing is pending.
    void expect_order(bool is_ordered) {
        m_is_ordered = is_ordered;
        m_order.clear();
        m_next = 0;
    }
    [[nodiscard]] std::size_t pending() const { return m_pending; }
    [[nodiscard]] std::size_t alive() const {
        std::size_t count = 0;
        for (object const& one : m_objects)
            count += one.strong != 0 ? 1 : 0;
        return count;
    }

    // How many blocks of a pool are in use.
    [[nodiscard]] std::size_t& blocks(std::uint32_t pool) {
        if (pool >= m_blocks.size()) m_blocks.resize(pool + 1);
        return m_blocks[pool];
    }

private:
    struct object {
        std::uint32_t pool = 0;
        children owned{};
        std::size_t strong = 1;
        std::size_t weak = 0;
        bool is_destroyed = false;
    };

    void drop_members(std::uint32_t id) {
        for (std::size_t i = k_children; i-- != 0;)
            drop(m_objects[id].owned[i]);
    }
    void count_block(object const& one) {
        if (one.is_destroyed && one.weak == 0) --blocks(one.pool);
    }

    std::vector<object> m_objects;
    std::vector<std::size_t> m_blocks;
    std::vector<std::uint32_t> m_order;
    std::size_t m_next = 0;
    std::size_t m_pending = 0;
    bool m_is_ordered = false;
};

}  // namespace fuzz
