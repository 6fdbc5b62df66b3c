// SPDX-License-Identifier: BSL-1.0
#include "elf.hpp"

#include <elfutils/libdwelf.h>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace poolheap {

std::shared_ptr<elf_file const> elf_file::open(std::string const& path, std::string* problem) {
    auto const refuse = [&](std::string why) {
        if (problem != nullptr) *problem = std::move(why);
        return nullptr;
    };
    elf_version(EV_CURRENT);
    std::shared_ptr<elf_file> file(new elf_file);
    file->m_path = path;
    // A pipe does not wait for its writer.
    file->m_descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->m_descriptor < 0) return refuse(std::string("cannot be opened: ") + std::strerror(errno));
    struct stat about{};
    if (::fstat(file->m_descriptor, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return refuse("is empty, or no regular file");
    file->m_elf = elf_begin(file->m_descriptor, ELF_C_READ_MMAP, nullptr);
    std::size_t size = 0;
    char const* const content = elf_rawfile(file->m_elf, &size);
    if (content == nullptr || size < SELFMAG || std::memcmp(content, ELFMAG, SELFMAG) != 0)
        return refuse("is no ELF file");
    if (size < sizeof(Elf64_Ehdr)) return refuse("is truncated: it ends within the ELF header");
    if (gelf_getehdr(file->m_elf, &file->m_header) == nullptr ||
        file->m_header.e_ident[EI_CLASS] != ELFCLASS64 || file->m_header.e_ident[EI_DATA] != ELFDATA2LSB)
        return refuse("is an ELF file of another kind of machine: 64-bit little-endian ones are understood");
    file->m_bytes = std::as_bytes(std::span(content, size));
    std::size_t count = 0;
    if (elf_getphdrnum(file->m_elf, &count) != 0) count = 0;
    GElf_Phdr segment;
    for (std::size_t i = 0; i < count && gelf_getphdr(file->m_elf, static_cast<int>(i), &segment); ++i)
        file->m_segments.push_back(segment);
    return file;
}

elf_file::~elf_file() {
    elf_end(m_elf);
    if (m_descriptor >= 0) ::close(m_descriptor);
}

std::string elf_file::build_id() const {
    void const* bits = nullptr;
    ssize_t const bytes = dwelf_elf_gnu_build_id(m_elf, &bits);
    return bytes > 0 ? std::string(static_cast<char const*>(bits), static_cast<std::size_t>(bytes)) : "";
}

}  // namespace poolheap
