// SPDX-License-Identifier: BSL-1.0
#include "elf.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace poolheap {
namespace {

template <class T>
std::vector<T> table(byte_span bytes, std::uint64_t offset, std::uint64_t count, std::uint64_t entry_bytes) {
    if (entry_bytes != sizeof(T)) return {};
    byte_span const found = part_of(bytes, offset, count * sizeof(T));
    std::vector<T> all(found.size() / sizeof(T));
    if (!all.empty()) std::memcpy(all.data(), found.data(), all.size() * sizeof(T));
    return all;
}

}  // namespace

std::vector<elf_note> notes_in(byte_span bytes) {
    std::vector<elf_note> all;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes.size();) {
        auto const header = *value_at<Elf64_Nhdr>(bytes, at);
        auto const rounded = [](std::uint64_t n) { return (n + 3) & ~std::uint64_t{3}; };
        std::uint64_t const name = at + sizeof(header);
        std::uint64_t const content = name + rounded(header.n_namesz);
        if (content + header.n_descsz > bytes.size()) break;
        std::string_view const text = text_at(part_of(bytes, name, header.n_namesz), 0);
        all.push_back({text, header.n_type, part_of(bytes, content, header.n_descsz)});
        at = content + rounded(header.n_descsz);
    }
    return all;
}

std::string build_id_in(byte_span notes) {
    std::string id;
    for (elf_note const& note : notes_in(notes)) {
        if (note.name != "GNU" || note.type != NT_GNU_BUILD_ID) continue;
        for (std::byte const b : note.content) {
            id += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
            id += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
        }
        break;
    }
    return id;
}

std::shared_ptr<elf_file const> elf_file::open(std::string const& path, std::string* problem) {
    auto const refuse = [&](std::string why) {
        if (problem != nullptr) *problem = std::move(why);
        return nullptr;
    };
    int const fd =
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe does not wait for its writer
    if (fd < 0) return refuse(std::string("cannot be opened: ") + std::strerror(errno));
    struct stat about{};
    std::shared_ptr<elf_file> file(new elf_file);
    file->m_path = path;
    if (::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        auto const bytes = static_cast<std::size_t>(about.st_size);
        void* const begin = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (begin != MAP_FAILED) file->m_bytes = {static_cast<std::byte const*>(begin), bytes};
    }
    ::close(fd);
    byte_span const bytes = file->m_bytes;
    if (bytes.empty()) return refuse("is empty, or no regular file");
    auto const header = value_at<Elf64_Ehdr>(bytes, 0);
    if (text_at(part_of(bytes, 0, SELFMAG), 0) != ELFMAG) return refuse("is no ELF file");
    if (!header) return refuse("is truncated: it ends within the ELF header");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
        return refuse("is an ELF file of another kind of machine: 64-bit little-endian ones are understood");
    file->m_header = *header;
    std::uint64_t segments = header->e_phnum;
    // More than fit into the header's field: the first section has the number.
    if (auto const first = value_at<Elf64_Shdr>(bytes, header->e_shoff); segments == PN_XNUM && first)
        segments = first->sh_info;
    file->m_segments = table<Elf64_Phdr>(bytes, header->e_phoff, segments, header->e_phentsize);
    if (header->e_shoff != 0)
        file->m_sections = table<Elf64_Shdr>(bytes, header->e_shoff, header->e_shnum, header->e_shentsize);
    return file;
}

elf_file::~elf_file() {
    if (!m_bytes.empty()) ::munmap(const_cast<std::byte*>(m_bytes.data()), m_bytes.size());
}

Elf64_Shdr const* elf_file::section(std::string_view name) const {
    if (m_header.e_shstrndx >= m_sections.size()) return nullptr;
    byte_span const names = content(m_sections[m_header.e_shstrndx]);
    for (Elf64_Shdr const& s : m_sections)
        if (text_at(names, s.sh_name) == name) return &s;
    return nullptr;
}

Elf64_Shdr const* elf_file::section(std::uint32_t type) const {
    for (Elf64_Shdr const& s : m_sections)
        if (s.sh_type == type) return &s;
    return nullptr;
}

std::string elf_file::build_id() const {
    for (Elf64_Phdr const& s : m_segments)
        if (s.p_type == PT_NOTE)
            if (std::string id = build_id_in(part_of(m_bytes, s.p_offset, s.p_filesz)); !id.empty())
                return id;
    // A file of debug information has the note, but its segments lead nowhere.
    for (Elf64_Shdr const& s : m_sections)
        if (s.sh_type == SHT_NOTE)
            if (std::string id = build_id_in(content(s)); !id.empty()) return id;
    return {};
}

}  // namespace poolheap
