// SPDX-License-Identifier: BSL-1.0
#pragma once

// Names of the objects in the read-only memory of this process's own files, by the symbol tables of these files. live_report() asks for
// those of vtables, which have no other name in a program without type information (-fno-rtti).
//
// By system calls alone, and without mapping a file: it waits for no lock of the dynamic linker, allocates nothing, and a file that
// becomes shorter meanwhile is read to its end. For one thread at a time. O(symbols of the file); O(mappings) for the first question.

#include "pooled/config.hpp"

#if defined(__linux__) && defined(__ELF__)
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

POOLED_BEGIN_DETAIL

class own_symbols {
public:
    // How many characters of the name of what begins at this address were written; 0: it has none.
    [[nodiscard]] std::size_t name_of(std::uint64_t at, char* to, std::size_t bytes) noexcept {
        if (m_range_count == 0) read_ranges();
        for (std::size_t i = 0; i < m_range_count; ++i)
            if (at - m_ranges[i].begin < m_ranges[i].bytes && open_file(m_ranges[i])) {
                std::size_t const length =
                    find_symbol(at - m_ranges[i].begin + m_ranges[i].offset, to, bytes);
                ::close(m_file);
                return length;
            }
        return 0;
    }

private:
    struct range {
        std::uint64_t begin, bytes, offset;  // in the file
    };

    bool open(char const* path) noexcept {
        constexpr int k_in_working_folder = -100;  // AT_FDCWD
        constexpr int k_close_on_exec = 0x80000;   // O_CLOEXEC
        m_file = static_cast<int>(::syscall(__NR_openat, k_in_working_folder, path, k_close_on_exec));
        m_window_bytes = 0;
        return m_file >= 0;
    }

    // A value of the file; 0 behind its end.
    template <class T>
    [[nodiscard]] T get(std::uint64_t at) noexcept {
        if (at < m_window_begin || at + sizeof(T) > m_window_begin + m_window_bytes) {
            auto const got = ::pread(m_file, m_window, sizeof(m_window), static_cast<::off_t>(at));
            m_window_begin = at;
            m_window_bytes = got > 0 ? static_cast<std::size_t>(got) : 0;
            if (m_window_bytes < sizeof(T)) return T{};
        }
        T value;
        __builtin_memcpy(&value, m_window + (at - m_window_begin), sizeof(T));
        return value;
    }

    // Calls visit(range, access, path) for each mapping of a file, until it returns true: "begin-end r--p offset device inode   /path".
    template <class Visit>
    bool for_each_mapping(Visit&& visit) noexcept {
        if (!open("/proc/self/maps")) return false;
        bool is_found = false;
        std::size_t length = 0;
        for (std::uint64_t at = 0; !is_found;) {
            char const c = get<char>(at++);
            if (c == '\0') break;
            if (c != '\n') {
                if (length + 1 < sizeof(m_line)) m_line[length++] = c;
                continue;
            }
            m_line[std::exchange(length, 0)] = '\0';
            char* next = nullptr;
            range r{};
            r.begin = std::strtoull(m_line, &next, 16);
            r.bytes = std::strtoull(next + 1, &next, 16) - r.begin;
            char const* const access = next + 1;
            r.offset = std::strtoull(access + 4, &next, 16);
            char const* const path = __builtin_strchr(next, '/');
            is_found = path != nullptr && visit(r, access, path);
        }
        ::close(m_file);
        return is_found;
    }

    void read_ranges() noexcept {
        for_each_mapping([&](range const& r, char const* access, char const*) {
            if (access[0] == 'r' && access[1] == '-') m_ranges[m_range_count++] = r;
            return m_range_count == k_most_ranges;
        });
    }
    bool open_file(range const& in) noexcept {
        bool const is_there = for_each_mapping([&](range const& r, char const*, char const* path) {
            if (r.begin != in.begin) return false;
            __builtin_memmove(m_line, path, __builtin_strlen(path) + 1);
            return true;
        });
        return is_there && open(m_line);
    }

    // The offsets are those of Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr and Elf64_Sym.
    [[nodiscard]] std::size_t find_symbol(std::uint64_t in_file, char* to, std::size_t bytes) noexcept {
        std::uint64_t address = 0;  // as the file counts
        for (std::uint64_t i = 0, at = get<std::uint64_t>(32); i < get<std::uint16_t>(56); ++i, at += 56)
            if (std::uint64_t const begin = get<std::uint64_t>(at + 8);
                get<std::uint32_t>(at) == k_loaded && in_file - begin < get<std::uint64_t>(at + 32))
                address = in_file - begin + get<std::uint64_t>(at + 16);
        std::uint64_t const sections = get<std::uint64_t>(40);
        std::uint16_t const count = get<std::uint16_t>(60);
        for (std::uint32_t const kind : {k_all_symbols, k_dynamic_symbols})
            for (std::uint64_t i = 0, at = sections; address != 0 && i < count; ++i, at += 64) {
                if (get<std::uint32_t>(at + 4) != kind) continue;
                std::uint64_t const first = get<std::uint64_t>(at + 24), all = get<std::uint64_t>(at + 32);
                std::uint64_t const names =
                    get<std::uint64_t>(sections + std::uint64_t{64} * get<std::uint32_t>(at + 40) + 24);
                for (std::uint64_t symbol = first; symbol + 24 <= first + all; symbol += 24) {
                    if (get<std::uint64_t>(symbol + 8) != address ||
                        (get<std::uint8_t>(symbol + 4) & 15) != k_object)
                        continue;
                    std::uint64_t const name = names + get<std::uint32_t>(symbol);
                    std::size_t length = 0;
                    while (length + 1 < bytes && (to[length] = get<char>(name + length)) != '\0')
                        ++length;
                    to[length] = '\0';
                    return length;
                }
            }
        return 0;
    }

    static constexpr std::uint32_t k_loaded = 1, k_all_symbols = 2, k_dynamic_symbols = 11, k_object = 1;
    static constexpr std::size_t k_most_ranges = 1024;

    int m_file = -1;
    std::uint64_t m_window_begin = 0;
    std::size_t m_window_bytes = 0;
    std::size_t m_range_count = 0;
    range m_ranges[k_most_ranges];
    char m_line[4096 + 128];
    char m_window[4096];
};

POOLED_END_DETAIL

#else

POOLED_BEGIN_DETAIL

class own_symbols {
public:
    [[nodiscard]] std::size_t name_of(std::uint64_t, char*, std::size_t) noexcept { return 0; }
};

POOLED_END_DETAIL

#endif
