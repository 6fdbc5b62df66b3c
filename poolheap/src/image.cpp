// SPDX-License-Identifier: BSL-1.0
#include "elf.hpp"

#include <algorithm>
#include <charconv>

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
    std::string found(limit, '\0');
    found.resize(read(from, std::as_writable_bytes(std::span(found))));
    return found.substr(0, found.find('\0'));
}

mapping const* image::find_mapping(address at) const {
    auto const next = std::ranges::upper_bound(m_mappings, at, {}, &mapping::begin);
    return next != m_mappings.begin() && at < next[-1].end ? &next[-1] : nullptr;
}

elf_file const* image::file_of(mapping const& m) const {
    if (m.path.empty()) return nullptr;
    // While the image is compared, it is read without the file.
    auto const [known, is_new] = m_files.try_emplace(m.path);
    if (!is_new) return known->second.get();
    std::string problem;
    std::shared_ptr<elf_file const> found = elf_file::open(file(m.path), problem);
    std::optional<loaded_file> theirs;
    bool is_executed = false;
    for (mapping const& other : m_mappings) {
        if (other.path != m.path) continue;
        if (!theirs && other.offset == 0) theirs = loaded_file_at(*this, other.begin);
        is_executed |= other.executable;
    }
    // The image may lack the page with the build-id; then the file is believed.
    if (found != nullptr && theirs && !theirs->build_id.empty() && found->build_id != theirs->build_id) {
        problem = "is another build than the one that the program used";
        found = nullptr;
    }
    if (found == nullptr && is_executed)
        m_remarks.push_back(m.path + " " + problem + ", so types and symbols of it are not known.");
    return (known->second = std::move(found)).get();
}

std::optional<int> process_number(std::string const& text) {
    int pid = 0;
    char const* const end = text.data() + text.size();
    auto const [last, problem] = std::from_chars(text.data(), end, pid);
    return problem == std::errc() && last == end && pid > 0 ? std::optional(pid) : std::nullopt;
}

std::unique_ptr<image> open_image(std::string const& pid_or_core) {
    auto const pid = process_number(pid_or_core);
    return pid ? open_process(*pid) : open_core(pid_or_core);
}

std::string hexadecimal(address a) {
    char text[20];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(a));
    return text;
}

}  // namespace poolheap
