// SPDX-License-Identifier: BSL-1.0
#pragma once

// A pointer that is dropped more often than it owns: its bytes, copied. To be included after caught_report.hpp.

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

namespace test {

template <class Pointer>
class stale {
public:
    explicit stale(Pointer const& p) {
        std::memcpy(m_bytes.data(), static_cast<void const*>(&p), m_bytes.size());
    }
    [[nodiscard]] Pointer& get() { return *reinterpret_cast<Pointer*>(m_bytes.data()); }
    // Of a std::shared_ptr or std::weak_ptr.
    [[nodiscard]] std::byte* control_block() const {
        std::byte* found = nullptr;
        std::memcpy(&found, m_bytes.data() + sizeof(void*), sizeof found);
        return found;
    }
    // Requires that what it pointed to is free or idle, but for a pointer that counts in front of the object.
    [[nodiscard]] std::string report_of_drop() {
        if constexpr (sizeof(Pointer) == sizeof(void*)) {
            return test::report_of([&] { get().reset(); });
        } else {
            std::byte* const control = control_block();
            std::array<std::byte, 24> before{};
            std::memcpy(before.data(), control, before.size());
            std::string report = test::report_of([&] { get().reset(); });
            std::memcpy(control, before.data(), before.size());  // else it is reported again at the next use
            return report;
        }
    }

private:
    alignas(Pointer) std::array<std::byte, sizeof(Pointer)> m_bytes;
};

// `p` is the last pointer to its object: drops it, and then a copy of its bytes.
template <class Pointer>
[[nodiscard]] std::string report_of_stale_drop(Pointer p) {
    stale copy(p);
    p.reset();
    return copy.report_of_drop();
}

}  // namespace test
