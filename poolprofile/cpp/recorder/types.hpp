// SPDX-License-Identifier: BSL-1.0
// Which modules are loaded, and what type an object is, by its virtual table.
// A part of recorder.cpp, which alone includes it.
#pragma once

#include "recorder/file.hpp"

namespace {

// --- modules, and the type of an object from its virtual table

struct segment {
    std::uintptr_t begin, end;
};
constexpr int k_most_segments = 2048;
segment g_segments[k_most_segments];
int g_segment_count = 0;
unsigned long long g_loads = 0;

struct module_walk {
    int segments = 0;
    unsigned long long loads = 0;
    bool changed = false;
};

int each_module(dl_phdr_info* info, std::size_t, void* data) {
    auto& walk = *static_cast<module_walk*>(data);
    if (walk.loads == 0) {
        walk.loads = info->dlpi_adds + info->dlpi_subs;
        walk.changed = walk.loads != g_loads;
        if (!walk.changed) return 1;
    }
    std::uintptr_t first = ~std::uintptr_t{0}, last = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& header = info->dlpi_phdr[i];
        if (header.p_type != PT_LOAD) continue;
        const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr, end = begin + header.p_memsz;
        first = begin < first ? begin : first;
        last = end > last ? end : last;
        if ((header.p_flags & PF_R) && !(header.p_flags & PF_X) && walk.segments < k_most_segments)
            g_segments[walk.segments++] = {begin, end};
    }
    const std::uint64_t about[3] = {info->dlpi_addr, first, last};
    write_text(text_kind::module, 0, about, sizeof about,
               info->dlpi_name[0] ? info->dlpi_name : g_file->program);
    return 0;
}

void note_modules() {
    module_walk walk;
    dl_iterate_phdr(each_module, &walk);
    if (!walk.changed) return;
    g_segment_count = walk.segments;
    g_loads = walk.loads;
}

bool in_a_segment(std::uintptr_t p) {
    for (int i = 0; i < g_segment_count; ++i)
        if (p >= g_segments[i].begin && p < g_segments[i].end) return true;
    return false;
}

// Reads what may have been unmapped since.
bool read_safely(std::uintptr_t from, void* to, std::size_t bytes) {
    iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

struct type_entry {
    std::uintptr_t table;
    std::uint32_t id;  // 0: it is none
};
type_entry g_types[k_types];
std::uint32_t g_type_count = 0;

// The type whose virtual table the object's first word points to: a control block says by it what it holds. 0 when it
// does not look like one. Called under g_follow_lock.
std::uint32_t type_of(const void* object) {
    std::uintptr_t table;
    memcpy(&table, object, sizeof table);
    if (table % sizeof(void*) != 0 || !in_a_segment(table)) return 0;
    std::uint32_t at = static_cast<std::uint32_t>((table >> 3) * 0x9E3779B97F4A7C15u >> 40) % k_types;
    for (std::uint32_t probes = 0; g_types[at].table; ++probes, at = (at + 1) % k_types) {
        if (g_types[at].table == table) return g_types[at].id;
        if (probes > k_types / 2) return 0;
    }
    g_types[at].table = table;
    std::uintptr_t before[2], info[2];  // offset to top and type_info; its own virtual table and its name
    if (!read_safely(table - sizeof before, before, sizeof before) || !in_a_segment(before[1])) return 0;
    if (!read_safely(before[1], info, sizeof info) || !in_a_segment(info[0]) || !in_a_segment(info[1]))
        return 0;
    char name[4096];
    std::size_t length = 0;
    for (; length + 64 < sizeof name; length += 64) {
        if (!read_safely(info[1] + length, name + length, 64)) return 0;
        if (const void* end = memchr(name + length, 0, 64)) {
            length = static_cast<std::size_t>(static_cast<const char*>(end) - name);
            break;
        }
    }
    name[length < sizeof name ? length : sizeof name - 1] = 0;
    if (length < 2) return 0;
    for (std::size_t i = 0; i < length; ++i)
        if (name[i] < '!' || name[i] > '~') return 0;
    const std::uint32_t id = ++g_type_count;
    g_types[at].id = id;
    write_text(text_kind::type, id, nullptr, 0, name);
    return id;
}

}  // namespace
