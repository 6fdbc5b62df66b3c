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

struct elf_file {
    // Null: it is no 64-bit little-endian ELF file, or cannot be opened. `problem` then says why, after the file's name.
    static std::shared_ptr<elf_file const> open(std::string const& path, std::string* problem = nullptr);
    elf_file() = default;
    ~elf_file();
    elf_file(elf_file const&) = delete;
    elf_file& operator=(elf_file const&) = delete;

    std::string path;
    int descriptor = -1;
    Elf* elf = nullptr;
    GElf_Ehdr header{};
    std::vector<GElf_Phdr> segments;
    byte_span bytes;
    std::string build_id;  // its bytes; empty: it has none
};

}  // namespace poolheap
