// SPDX-License-Identifier: BSL-1.0

// A core file as an image. Of read-only memory a core file has at most the first pages, so the rest is read from the files that the
// program had mapped, unless their build-ids say that they are others by now.

#include "elf.hpp"

#include <algorithm>

namespace poolheap {
namespace {

// Offsets in elf_prstatus of <sys/procfs.h>.
constexpr std::uint64_t k_prstatus_id = 32;
constexpr std::uint64_t k_prstatus_registers = 112;
constexpr std::uint64_t k_prstatus_tail = 8;  // pr_fpvalid, and padding

class core_image final : public image {
public:
    explicit core_image(std::shared_ptr<elf_file const> file) : m_file(std::move(file)) {
        read_notes();
        std::uint64_t missing = 0;
        std::vector<std::pair<mapping, std::string_view>> found;
        for (Elf64_Phdr const& s : m_file->segments) {
            std::string_view const content = part_of(m_file->bytes, s.p_offset, s.p_filesz);
            // Without all threads, what only the others refer to would be lost.
            if (s.p_type == PT_NOTE && content.size() != s.p_filesz) m_threads.clear();
            if (s.p_type != PT_LOAD || s.p_memsz == 0 || s.p_vaddr + s.p_memsz < s.p_vaddr) continue;
            missing += s.p_filesz - content.size();
            found.emplace_back(mapping{s.p_vaddr, s.p_vaddr + s.p_memsz, (s.p_flags & PF_R) != 0,
                                       (s.p_flags & PF_W) != 0, (s.p_flags & PF_X) != 0, "", 0},
                               part_of(content, 0, s.p_memsz));
        }
        if (found.empty() || m_threads.empty())
            throw error(m_file->path + " is truncated: its " + (found.empty() ? "memory is" : "threads are") +
                        " missing. Was the disk full, or the limit of core files (ulimit -c) too low?");
        if (missing != 0)
            m_remarks.push_back("The core file is truncated: " + std::to_string(missing) +
                                " bytes of memory are missing, so references may be, too.");
        name_mappings(found);
        for (auto& [m, content] : found) {
            // What neither the core file nor another one has cannot be read: a damaged size would take hours to look through.
            if (m.path.empty()) m.readable = m.readable && !content.empty();
            if (m.path.empty() && m.readable) m.end = m.begin + content.size();
            if (!m_mappings.empty() && m.begin < m_mappings.back().end)
                throw error(m_file->path + " is damaged: its memory ranges overlap. Take another one.");
            m_mappings.push_back(std::move(m));
            m_contents.push_back(content);
        }
    }

    std::size_t read(address from, std::span<std::byte> to) const override {
        std::size_t done = 0;
        while (done < to.size()) {
            mapping const* const m = find_mapping(from + done);
            if (m == nullptr) break;
            std::uint64_t const within = from + done - m->begin;
            std::uint64_t const wanted = std::min<std::uint64_t>(to.size() - done, m->end - (from + done));
            std::string_view found =
                part_of(m_contents[static_cast<std::size_t>(m - m_mappings.data())], within, wanted);
            if (found.empty())
                if (elf_file const* const file = file_of(*m))
                    found = part_of(file->bytes, m->offset + within, wanted);
            if (found.empty()) break;
            std::memcpy(to.data() + done, found.data(), found.size());
            done += found.size();
        }
        return done;
    }

private:
    void read_notes() {
        for (elf_headers::note const& note : m_file->notes) {
            std::string_view content = note.content;
            bool const is_core = note.name == "CORE", is_linux = note.name == "LINUX";
            if (is_core && note.type == NT_FILE) read_names(content);
            bool const is_thread = is_core && note.type == NT_PRSTATUS &&
                                   content.size() > k_prstatus_registers + k_prstatus_tail;
            if (is_thread) {
                m_threads.emplace_back().id = value_at<std::int32_t>(content, k_prstatus_id).value_or(0);
                content.remove_prefix(k_prstatus_registers);
                content.remove_suffix(k_prstatus_tail);
            }
            // On x86-64 the floating-point registers are a part of NT_X86_XSTATE.
            if (is_thread || (!m_threads.empty() &&
                              ((is_linux && (note.type == NT_X86_XSTATE || note.type == NT_ARM_TLS)) ||
                               (is_core && note.type == NT_FPREGSET && m_file->machine != EM_X86_64))))
                m_threads.back().add_registers(m_file->machine, note.type, std::as_bytes(std::span(content)));
        }
    }

    // count, page size, (begin, end, page of the file) for each; then the names.
    void read_names(std::string_view note) {
        auto const number = [&](std::uint64_t i) { return value_at<std::uint64_t>(note, i * 8).value_or(0); };
        std::uint64_t const end = number(0) <= note.size() / 24 ? 2 + number(0) * 3 : 2;
        std::string_view names = part_of(note, end * 8, note.size());
        for (std::uint64_t i = 2; i < end; i += 3) {
            std::string const path(names.substr(0, names.find('\0')));
            if (path.empty()) return;
            m_files.push_back({number(i), number(i + 1), true, false, true, path, number(i + 2) * number(1)});
            names.remove_prefix(std::min(names.size(), path.size() + 1));
        }
    }

    // gcore leaves out what it believes to be in the files, so a file's range may have no memory range. It may have code or constants.
    void name_mappings(std::vector<std::pair<mapping, std::string_view>>& all) {
        auto const begin_of = [](auto const& one) { return one.first.begin; };
        std::ranges::sort(all, {}, begin_of);
        auto const known = static_cast<std::ptrdiff_t>(all.size());
        for (mapping const& file : m_files) {
            auto const end = all.begin() + known;
            auto const next = std::ranges::lower_bound(all.begin(), end, file.begin, {}, begin_of);
            if (next != end && next->first.begin == file.begin && next->first.end <= file.end)
                next->first.path = file.path, next->first.offset = file.offset;
            else if (file.begin < file.end && (next == end || next->first.begin >= file.end) &&
                     (next == all.begin() || next[-1].first.end <= file.begin))
                all.emplace_back(file, std::string_view());
        }
        std::ranges::sort(all, {}, begin_of);
    }

    std::shared_ptr<elf_file const> m_file;
    std::vector<std::string_view> m_contents;  // of each mapping, as far as the core file has it
    std::vector<mapping> m_files;              // ranges of files, as NT_FILE names them
};

}  // namespace

std::unique_ptr<image> open_core(std::string const& path) {
    std::string problem;
    auto file = elf_file::open(path, problem);
    if (file == nullptr)
        throw error(path + " " + problem + ". Give the number of a process, or a core file.");
    auto const machine = file->machine;
    if (file->type != ET_CORE)
        throw error(path +
                    " is a program or library, no core file. Give the number of a process, or a core file.");
    if (machine != EM_X86_64 && machine != EM_AARCH64 && machine != EM_RISCV)
        throw error(path +
                    " is a core file of another kind of machine: x86-64, AArch64 and RISC-V are understood.");
    return std::make_unique<core_image>(std::move(file));
}

}  // namespace poolheap
