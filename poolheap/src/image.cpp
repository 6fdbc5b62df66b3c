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

std::unique_ptr<image> open_image(std::string const& pid_or_core) {
    int pid = 0;
    auto const [end, problem] =
        std::from_chars(pid_or_core.data(), pid_or_core.data() + pid_or_core.size(), pid);
    bool const is_number =
        problem == std::errc() && end == pid_or_core.data() + pid_or_core.size() && pid > 0;
    return is_number ? open_process(pid) : open_core(pid_or_core);
}

}  // namespace poolheap
