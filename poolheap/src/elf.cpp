// SPDX-License-Identifier: BSL-1.0
#include "elf.hpp"

#include <elfutils/libdwelf.h>

#include <cerrno>
#include <utility>

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
    auto const file = std::make_shared<elf_file>();
    file->path = path;
    // A pipe does not wait for its writer.
    file->descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0) return refuse(std::string("cannot be opened: ") + std::strerror(errno));
    struct stat about{};
    if (::fstat(file->descriptor, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return refuse("is empty, or no regular file");
    file->elf = elf_begin(file->descriptor, ELF_C_READ_MMAP, nullptr);
    std::size_t size = 0, count = 0;
    char const* const content = elf_rawfile(file->elf, &size);
    if (content == nullptr || size < SELFMAG || std::memcmp(content, ELFMAG, SELFMAG) != 0)
        return refuse("is no ELF file");
    if (size < sizeof(Elf64_Ehdr)) return refuse("is truncated: it ends within the ELF header");
    unsigned char const* const kind = file->header.e_ident;
    if (gelf_getehdr(file->elf, &file->header) == nullptr || kind[EI_CLASS] != ELFCLASS64 ||
        kind[EI_DATA] != ELFDATA2LSB)
        return refuse("is an ELF file of another kind of machine: 64-bit little-endian ones are understood");
    file->bytes = std::as_bytes(std::span(content, size));
    if (elf_getphdrnum(file->elf, &count) != 0) count = 0;
    GElf_Phdr segment;
    for (int i = 0; std::cmp_less(i, count) && gelf_getphdr(file->elf, i, &segment) != nullptr; ++i)
        file->segments.push_back(segment);
    void const* id = nullptr;
    if (ssize_t const bytes = dwelf_elf_gnu_build_id(file->elf, &id); bytes > 0)
        file->build_id.assign(static_cast<char const*>(id), static_cast<std::size_t>(bytes));
    return file;
}

elf_file::~elf_file() {
    elf_end(elf);
    if (descriptor >= 0) ::close(descriptor);
}

}  // namespace poolheap
