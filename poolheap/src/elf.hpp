// SPDX-License-Identifier: BSL-1.0
#pragma once

// A file on disk by libelf: a core file, or a program or library that an image maps. It may be truncated or damaged: what lies outside the
// file is as if it were not there.

#include <gelf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace poolheap {

using byte_span = std::span<std::byte const>;

// Part of `all`, clipped to it.
[[nodiscard]] inline byte_span part_of(byte_span all, std::uint64_t offset, std::uint64_t bytes) {
    if (offset >= all.size()) return {};
    return all.subspan(offset, bytes < all.size() - offset ? bytes : all.size() - offset);
}
template <class T>
[[nodiscard]] std::optional<T> value_at(byte_span all, std::uint64_t offset) {
    byte_span const found = part_of(all, offset, sizeof(T));
    if (found.size() != sizeof(T)) return {};
    T value;
    std::memcpy(&value, found.data(), sizeof(T));
    return value;
}

class elf_file {
public:
    // Null: it is no 64-bit little-endian ELF file, or cannot be opened. `problem` then says why, after the file's name.
    static std::shared_ptr<elf_file const> open(std::string const& path, std::string* problem = nullptr);
    ~elf_file();
    elf_file(elf_file const&) = delete;
    elf_file& operator=(elf_file const&) = delete;

    [[nodiscard]] std::string const& path() const { return m_path; }
    [[nodiscard]] Elf* elf() const { return m_elf; }
    [[nodiscard]] GElf_Ehdr const& header() const { return m_header; }
    [[nodiscard]] std::span<GElf_Phdr const> segments() const { return m_segments; }
    [[nodiscard]] byte_span bytes() const { return m_bytes; }
    // Its bytes; empty: it has none.
    [[nodiscard]] std::string build_id() const;

private:
    elf_file() = default;

    std::string m_path;
    int m_descriptor = -1;
    Elf* m_elf = nullptr;
    GElf_Ehdr m_header{};
    std::vector<GElf_Phdr> m_segments;
    byte_span m_bytes;
};

}  // namespace poolheap
