// SPDX-License-Identifier: BSL-1.0
#include "elf.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace poolheap {
namespace {

// read(offset in the file, bytes): as many as there are. Returns what is wrong, or null.
char const* read_segments(elf_headers& to, auto&& read) {
    auto const begin = read(0, sizeof(Elf64_Ehdr));
    auto const header = value_at<Elf64_Ehdr>(begin, 0);
    if (!std::string_view(begin).starts_with(std::string_view(ELFMAG, SELFMAG))) return "is no ELF file";
    if (!header) return "is truncated: it ends within the ELF header";
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
        return "is an ELF file of another kind of machine: 64-bit little-endian ones are understood";
    to.type = header->e_type;
    to.machine = header->e_machine;
    std::uint64_t count = header->e_phnum;
    if (count == PN_XNUM)  // or more
        count =
            value_at<Elf64_Shdr>(read(header->e_shoff, sizeof(Elf64_Shdr)), 0).value_or(Elf64_Shdr{}).sh_info;
    auto const table = read(header->e_phoff, count * sizeof(Elf64_Phdr));
    for (std::uint64_t at = 0; auto const segment = value_at<Elf64_Phdr>(table, at); at += sizeof(Elf64_Phdr))
        to.segments.push_back(*segment);
    return nullptr;
}

// read(segment): its bytes, as many as there are.
void read_notes(elf_headers& to, auto&& read) {
    for (Elf64_Phdr const& s : to.segments) {
        if (s.p_type != PT_NOTE) continue;
        auto const all = read(s);
        std::uint64_t const unit = s.p_align == 8 ? 8 : 4;
        for (std::uint64_t at = 0; auto const n = value_at<Elf64_Nhdr>(all, at);) {
            std::uint64_t const name = at + sizeof *n,
                                content = name + (n->n_namesz + std::uint64_t{3}) / 4 * 4;
            if (content + n->n_descsz > all.size()) break;
            to.notes.push_back({std::string(all.substr(name, std::max(n->n_namesz, 1U) - 1)), n->n_type,
                                std::string(all.substr(content, n->n_descsz))});
            if (to.notes.back().name == "GNU" && n->n_type == NT_GNU_BUILD_ID)
                to.build_id = to.notes.back().content;
            at = content + (n->n_descsz + unit - 1) / unit * unit;
        }
    }
}

}  // namespace

std::optional<loaded_file> loaded_file_at(image const& from, address begin) {
    auto const read = [&](address at, std::uint64_t bytes) {
        constexpr std::uint64_t k_most = 1 << 22;  // of headers
        std::string found(std::min(bytes, k_most), '\0');
        found.resize(from.read(at, std::as_writable_bytes(std::span(found))));
        return found;
    };
    loaded_file file;
    if (read_segments(file,
                      [&](std::uint64_t offset, std::size_t bytes) { return read(begin + offset, bytes); }))
        return {};
    // The file's begin is that of its first segment, unless a tool has put another one before it.
    auto const first = std::ranges::find_if(
        file.segments, [](auto const& s) { return s.p_type == PT_LOAD && s.p_offset == 0; });
    if (first == file.segments.end()) return {};
    file.begin = begin;
    file.bias = begin - first->p_vaddr / 4096 * 4096;
    for (Elf64_Phdr const& s : file.segments)
        if (s.p_type == PT_LOAD) file.end = std::max(file.end, file.bias + s.p_vaddr + s.p_memsz);
    read_notes(file, [&](auto const& s) { return read(file.bias + s.p_vaddr, s.p_memsz); });
    return file;
}

std::shared_ptr<elf_file const> elf_file::open(std::string const& path, std::string& problem) {
    auto const refuse = [&](std::string const& why) { return problem = why, nullptr; };
    auto const file = std::make_shared<elf_file>();
    file->path = path;
    // A pipe does not wait for its writer.
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return refuse(std::string("cannot be opened: ") + std::strerror(errno));
    struct stat about{};
    bool const is_file = ::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
    auto const size = static_cast<std::size_t>(about.st_size);
    void* const at = is_file ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
    ::close(descriptor);
    if (at == MAP_FAILED) return refuse("is empty, or no regular file");
    file->mapped = {at, [size](void* p) { ::munmap(p, size); }};
    file->bytes = {static_cast<char const*>(at), size};
    auto const part = [&](std::uint64_t offset, std::size_t bytes) {
        return part_of(file->bytes, offset, bytes);
    };
    if (char const* const why = read_segments(*file, part)) return refuse(why);
    read_notes(*file, [&](auto const& s) { return part(s.p_offset, s.p_filesz); });
    return file;
}

}  // namespace poolheap
