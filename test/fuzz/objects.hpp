// SPDX-License-Identifier: BSL-1.0
#pragma once

// The objects of a fuzzed program: of several sizes and alignments, each full of bytes that follow from its number.

#include "pooled/pooled.hpp"

#include "fuzz/input.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <variant>

namespace fuzz {

inline void fill(std::span<std::byte> bytes, std::uint64_t number) noexcept {
    if (!bytes.empty()) std::memset(bytes.data(), static_cast<int>(number * 37 % 251), bytes.size());
}
inline void check_filled(std::span<std::byte const> bytes, std::uint64_t number) noexcept {
    // All bytes of short ones; of long ones both ends, and one byte of each cache line.
    std::byte const expected{static_cast<unsigned char>(number * 37 % 251)};
    for (std::size_t i = 0; i < bytes.size(); i += i < 64 || i + 64 > bytes.size() ? 1 : 61)
        check(bytes[i] == expected, "nobody else writes to memory in use");
}

class node;
using shared_handle = std::shared_ptr<node>;
using unique_handle = pooled::unique_ptr<node>;
using rc_handle = pooled::rc_ptr<node>;
using handle = std::variant<std::monostate, shared_handle, unique_handle, rc_handle>;

[[nodiscard]] inline node* get(handle const& h) {
    return std::visit(
        [](auto const& one) -> node* {
            if constexpr (requires { one.get(); })
                return one.get();
            else
                return nullptr;
        },
        h);
}

// Thrown by constructors that must fail.
struct refused {};

class node {
public:
    node(node const&) = delete;
    node& operator=(node const&) = delete;
    virtual ~node() = default;
    [[nodiscard]] std::uint32_t id() const noexcept { return m_id; }
    virtual void check_contents() const = 0;

protected:
    explicit node(std::uint32_t id, std::array<handle, 2>&& owned) : m_id(id), m_owned(std::move(owned)) {}

private:
    std::uint32_t m_id;
    std::array<handle, 2> m_owned;
};

// `Registry` has born() -> number, and destroyed(number).
template <class Registry, std::size_t Bytes, std::size_t Align>
class sized_node final : public node {
public:
    // `make_id` is called when nothing can fail from there on.
    template <class MakeId>
    sized_node(Registry& objects, bool fails, MakeId const& make_id, std::array<handle, 2>& owned)
        : node(fails ? throw refused() : make_id(), std::move(owned)), m_objects(objects) {
        fill(m_bytes, id());
        check(pooled::detail::address_of(this) % Align == 0, "objects are aligned");
    }
    sized_node(sized_node const&) = delete;
    sized_node& operator=(sized_node const&) = delete;
    ~sized_node() override {
        sized_node::check_contents();
        m_objects.destroyed(id());
    }
    void check_contents() const override { check_filled(m_bytes, id()); }

private:
    Registry& m_objects;
    alignas(Align) std::array<std::byte, Bytes> m_bytes;
};

// Calls use.template operator()<Bytes, Align>() with one of the sizes.
constexpr std::size_t k_sizes = 8;
template <class Use>
decltype(auto) with_size(std::size_t which, Use&& use) {
    switch (which % k_sizes) {
    case 0:
        return use.template operator()<8, 8>();
    case 1:
        return use.template operator()<40, 16>();
    case 2:
        return use.template operator()<200, 64>();
    case 3:
        return use.template operator()<1500, 8>();
    case 4:
        return use.template operator()<5000, 256>();
    case 5:
        return use.template operator()<20'000, 8>();
    case 6:
        return use.template operator()<40'000, 8>();
    default:
        return use.template operator()<70'000, 8192>();
    }
}

}  // namespace fuzz
