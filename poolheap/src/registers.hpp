// SPDX-License-Identifier: BSL-1.0
#pragma once

// The registers of a thread, as the kernel lays them out for ptrace and in core files.

#include "elf.hpp"
#include "image.hpp"

namespace poolheap {

// Of one regset: NT_PRSTATUS has the general ones, others the vector registers or the thread pointer.
inline void add_registers(thread& to, std::uint16_t machine, std::uint32_t regset, byte_span content) {
    bool const is_general = regset == NT_PRSTATUS;
    for (std::uint64_t at = 0; at + 8 <= content.size(); at += 8) {
        std::uint64_t const word = *value_at<std::uint64_t>(content, at);
        if (is_general || word != 0) to.registers.push_back(word);
    }
    if (regset == NT_ARM_TLS) to.thread_pointer = value_at<std::uint64_t>(content, 0).value_or(0);
    if (!is_general) return;
    auto const word = [&](std::size_t i) { return i < to.registers.size() ? to.registers[i] : 0; };
    // The numbers are indices in user_regs_struct of <sys/user.h>, for each machine.
    switch (machine) {
    case EM_X86_64:
        to.stack_pointer = word(19), to.thread_pointer = word(21);
        break;
    case EM_AARCH64:
        to.stack_pointer = word(31);
        break;
    case EM_RISCV:
        to.stack_pointer = word(2), to.thread_pointer = word(4);
        break;
    default:
        break;
    }
}

}  // namespace poolheap
