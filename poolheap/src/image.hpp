// SPDX-License-Identifier: BSL-1.0
#pragma once

// A frozen program: its memory, mappings and threads. The analysis sees nothing else. Three sources:
//
//   process       stopped by ptrace and made to fork; the copy is read in place while the process goes on
//   frozen child  a forked copy that waits by itself
//   core          an ELF core file, of the kernel or of gcore, with the files that it maps
//
// All functions are for one thread at a time.

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace poolheap {

using address = std::uint64_t;
struct elf_file;

// What poolheap throws: the message is a sentence for the user, which says what is wrong and, where possible, what to do.
class error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

struct mapping {
    address begin = 0;
    address end = 0;
    bool readable = false;
    bool writable = false;
    bool executable = false;
    std::string path;          // of the file, or "[stack]", "[heap]"; empty if anonymous
    std::uint64_t offset = 0;  // of `begin` in the file
};

struct thread {
    int id = 0;
    std::string name;  // empty in a core file
    // General ones first, then the words of vector registers that are not 0.
    std::vector<std::uint64_t> registers;
    address stack_pointer = 0;   // leaf functions use 128 bytes below it, too
    address thread_pointer = 0;  // of thread-local storage; x86-64: fs_base

    // As the kernel lays them out for ptrace and in core files: NT_PRSTATUS has the general ones, others the vector registers or the
    // thread pointer.
    void add_registers(std::uint16_t machine, std::uint32_t regset, std::span<std::byte const> content);
};

class image {
public:
    virtual ~image() = default;

    // Reads as much of `to` as there is: the number of bytes, which ends at the first hole. Prefers large reads.
    [[nodiscard]] virtual std::size_t read(address from, std::span<std::byte> to) const = 0;
    // A path of the image, as this system names it: a process may have another root directory.
    [[nodiscard]] virtual std::string file(std::string const& path) const { return path; }
    // The file behind a mapping, opened and compared when it is first needed; null: there is none, or it is another build.
    [[nodiscard]] elf_file const* file_of(mapping const& m) const;

    [[nodiscard]] std::span<mapping const> mappings() const { return m_mappings; }  // ascending
    [[nodiscard]] std::span<thread const> threads() const { return m_threads; }
    // How long the program stood still for this image; 0 for a core file.
    [[nodiscard]] double stopped_seconds() const { return m_stopped_seconds; }
    // Sentences for the reader of a report: files that are missing or are not those that the program had mapped.
    [[nodiscard]] std::span<std::string const> remarks() const { return m_remarks; }
    template <class T>
        requires std::is_trivially_copyable_v<T>
    [[nodiscard]] std::optional<T> get(address from) const {
        T value;
        if (read(from, std::as_writable_bytes(std::span(&value, 1))) != sizeof(T)) return {};
        return value;
    }
    // The text up to the first 0; at most `limit` bytes.
    [[nodiscard]] std::string text(address from, std::size_t limit = 4096) const;
    // The mapping that contains `at`, or null.
    [[nodiscard]] mapping const* find_mapping(address at) const;

protected:
    std::vector<mapping> m_mappings;
    std::vector<thread> m_threads;
    double m_stopped_seconds = 0;
    mutable std::vector<std::string> m_remarks;

private:
    mutable std::map<std::string, std::shared_ptr<elf_file const>> m_files;
};

[[nodiscard]] std::string hexadecimal(address a);

// A number is a process, anything else the path of a core file. Throws error.
[[nodiscard]] std::optional<int> process_number(std::string const& text);
std::unique_ptr<image> open_image(std::string const& pid_or_core);
std::unique_ptr<image> open_core(std::string const& path);
// Stops the process for as long as it takes to fork; the image is the copy. Throws error.
std::unique_ptr<image> open_process(int pid);

// A process that stands still by itself until this object is gone: the forked child of a program. `threads` are those of its parent at
// the fork, as far as they are known. Throws error.
std::unique_ptr<image> open_frozen(int pid, std::vector<thread> threads = {});
// Of a thread that is stopped by ptrace, without its name.
[[nodiscard]] thread stopped_thread(int id);

}  // namespace poolheap
