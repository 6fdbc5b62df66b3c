// SPDX-License-Identifier: BSL-1.0
#pragma once

// A 64-bit little-endian ELF file, mapped: programs, libraries, files of debug information and core files. It may be truncated or damaged:
// each access is checked, and what lies outside the file is as if it were not there.

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
// The text up to the first 0, or to the end.
[[nodiscard]] inline std::string_view text_at(byte_span all, std::uint64_t offset) {
    byte_span const rest = part_of(all, offset, ~std::uint64_t{0});
    auto const* const text = reinterpret_cast<char const*>(rest.data());
    return rest.empty() ? std::string_view() : std::string_view(text, strnlen(text, rest.size()));
}

struct elf_note {
    std::string_view name;
    std::uint32_t type = 0;
    byte_span content;
};
[[nodiscard]] std::vector<elf_note> notes_in(byte_span bytes);
// In hexadecimal; empty if there is none.
[[nodiscard]] std::string build_id_in(byte_span notes);

class elf_file {
public:
    // Null: it is no 64-bit little-endian ELF file, or cannot be opened. `problem` then says why, after the file's name.
    static std::shared_ptr<elf_file const> open(std::string const& path, std::string* problem = nullptr);
    ~elf_file();
    elf_file(elf_file const&) = delete;
    elf_file& operator=(elf_file const&) = delete;

    [[nodiscard]] std::string const& path() const { return m_path; }
    [[nodiscard]] byte_span bytes() const { return m_bytes; }
    [[nodiscard]] Elf64_Ehdr const& header() const { return m_header; }
    [[nodiscard]] std::span<Elf64_Phdr const> segments() const { return m_segments; }
    [[nodiscard]] std::span<Elf64_Shdr const> sections() const { return m_sections; }
    [[nodiscard]] byte_span content(Elf64_Shdr const& s) const {
        return s.sh_type == SHT_NOBITS ? byte_span() : part_of(m_bytes, s.sh_offset, s.sh_size);
    }
    [[nodiscard]] Elf64_Shdr const* section(std::string_view name) const;
    [[nodiscard]] Elf64_Shdr const* section(std::uint32_t type) const;
    [[nodiscard]] std::string build_id() const;

private:
    elf_file() = default;

    std::string m_path;
    byte_span m_bytes;
    Elf64_Ehdr m_header{};
    std::vector<Elf64_Phdr> m_segments;
    std::vector<Elf64_Shdr> m_sections;
};

}  // namespace poolheap
