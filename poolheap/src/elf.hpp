// SPDX-License-Identifier: BSL-1.0
#pragma once

// What an ELF file says of itself: a core file, a program or a library, on disk or as an image has mapped it. It may be truncated or
// damaged: what lies outside is as if it were not there.

#include "image.hpp"

#include <cstring>
#include <string_view>

namespace poolheap {

// Part of `all`, clipped to it.
[[nodiscard]] inline std::string_view part_of(std::string_view all, std::uint64_t offset,
                                              std::uint64_t bytes) {
    return offset < all.size() ? all.substr(offset, bytes) : std::string_view();
}
template <class T>
[[nodiscard]] std::optional<T> value_at(std::string_view all, std::uint64_t offset) {
    std::string_view const found = part_of(all, offset, sizeof(T));
    if (found.size() != sizeof(T)) return {};
    T value;
    std::memcpy(&value, found.data(), sizeof(T));
    return value;
}

struct elf_headers {
    struct note {
        std::string name;
        std::uint32_t type = 0;
        std::string content;
    };
    std::uint16_t type = 0, machine = 0;
    std::vector<Elf64_Phdr> segments;
    std::vector<note> notes;
    std::string build_id;  // its bytes; empty: it has none, or that page is missing
};

// Where an image has it.
struct loaded_file : elf_headers {
    address begin = 0, end = 0;
    address bias = 0;  // address in the image - address in the file
};
// Of the file whose first byte is at `begin`; empty: there is none.
[[nodiscard]] std::optional<loaded_file> loaded_file_at(image const& from, address begin);

struct elf_file : elf_headers {
    // Null: it is no 64-bit little-endian ELF file, or cannot be opened. `problem` then says why, after the file's name.
    static std::shared_ptr<elf_file const> open(std::string const& path, std::string& problem);

    std::string path;
    std::string_view bytes;
    std::shared_ptr<void> mapped;  // where they are
};

}  // namespace poolheap
