// SPDX-License-Identifier: BSL-1.0
#include "image.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace poolheap {

void thread::add_registers(std::uint16_t machine, std::uint32_t regset, std::span<std::byte const> content) {
    for (std::uint64_t word; content.size() >= sizeof word; content = content.subspan(sizeof word)) {
        std::memcpy(&word, content.data(), sizeof word);
        if (regset == NT_ARM_TLS && thread_pointer == 0) thread_pointer = word;
        if (regset == NT_PRSTATUS || word != 0) registers.push_back(word);
    }
    // Indices in user_regs_struct of <sys/user.h>, for each machine.
    struct indices {
        std::uint16_t machine;
        std::size_t stack, thread;
    };
    constexpr indices k_indices[]{{EM_X86_64, 19, 21}, {EM_AARCH64, 31, ~0UL}, {EM_RISCV, 2, 4}};
    auto const word = [&](std::size_t i) { return i < registers.size() ? registers[i] : 0; };
    for (indices const& i : k_indices)
        if (regset == NT_PRSTATUS && i.machine == machine)
            stack_pointer = word(i.stack), thread_pointer = word(i.thread);
}

std::string image::text(address from, std::size_t limit) const {
    std::string found;
    char part[256];
    while (found.size() < limit) {
        std::size_t const wanted = std::min({sizeof(part), limit - found.size(), 4096 - (from & 4095)});
        std::size_t const got = read(from, std::as_writable_bytes(std::span(part, wanted)));
        std::size_t const length = strnlen(part, got);
        found.append(part, length);
        if (length < wanted) break;
        from += length;
    }
    return found;
}

mapping const* image::find_mapping(address at) const {
    auto const all = mappings();
    auto const next = std::ranges::upper_bound(all, at, {}, &mapping::begin);
    return next != all.begin() && at < next[-1].end ? &next[-1] : nullptr;
}

std::optional<loaded_file> loaded_file_at(image const& from, address begin) {
    auto const header = from.get<Elf64_Ehdr>(begin);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phentsize != sizeof(Elf64_Phdr))
        return {};
    loaded_file file;
    file.begin = begin;
    file.machine = header->e_machine;
    for (std::size_t i = 0; i < header->e_phnum; ++i)
        if (auto const s = from.get<Elf64_Phdr>(begin + header->e_phoff + i * sizeof(Elf64_Phdr)))
            file.segments.push_back(*s);
    // The file's begin is that of its first segment, unless a tool has put another one before it.
    auto const first = std::ranges::find_if(
        file.segments, [](auto const& s) { return s.p_type == PT_LOAD && s.p_offset == 0; });
    if (first == file.segments.end()) return {};
    file.bias = begin - first->p_vaddr / 4096 * 4096;
    for (Elf64_Phdr const& s : file.segments) {
        if (s.p_type == PT_LOAD) file.end = std::max(file.end, file.bias + s.p_vaddr + s.p_memsz);
        if (s.p_type != PT_NOTE || s.p_memsz > 1 << 20) continue;
        std::string notes(s.p_memsz, '\0');
        notes.resize(from.read(file.bias + s.p_vaddr, std::as_writable_bytes(std::span(notes))));
        Elf64_Nhdr n{};
        for (std::size_t at = 0; at + sizeof(n) <= notes.size();) {
            std::memcpy(&n, notes.data() + at, sizeof(n));
            std::size_t const name = at + sizeof(n);
            std::size_t const content = name + (n.n_namesz + std::size_t{3}) / 4 * 4;
            if (content + n.n_descsz > notes.size()) break;
            file.notes.push_back({notes.substr(name, std::max(n.n_namesz, 1U) - 1), n.n_type,
                                  file.bias + s.p_vaddr + content, n.n_descsz});
            if (file.notes.back().name == "GNU" && n.n_type == NT_GNU_BUILD_ID)
                file.build_id = notes.substr(content, n.n_descsz);
            std::size_t const unit = s.p_align == 8 ? 8 : 4;
            at = content + (n.n_descsz + unit - 1) / unit * unit;
        }
    }
    return file;
}

std::unique_ptr<image> open_image(std::string const& pid_or_core) {
    int pid = 0;
    auto const [end, problem] =
        std::from_chars(pid_or_core.data(), pid_or_core.data() + pid_or_core.size(), pid);
    bool const is_number =
        problem == std::errc() && end == pid_or_core.data() + pid_or_core.size() && pid > 0;
    return is_number ? open_process(pid) : open_core(pid_or_core);
}

}  // namespace poolheap
