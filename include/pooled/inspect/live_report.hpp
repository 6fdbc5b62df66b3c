// SPDX-License-Identifier: BSL-1.0
#pragma once

// live_report(): what one pool of this process holds, by type.
//
//   live_state    walk: addresses that caches and lists have ─┐
//                 walk: blocks whose bits are clear          ─┼─▶ blocks in use ─▶ the first words of each ─▶ groups by type
//                 walk: addresses that caches and lists have ─┘   (those that one walk alone found are uncertain)
//
// A type is that of a control block's or an object's type information, to which its first word leads, or of the vtable's symbol where there
// is none (-fno-rtti); or that of the number in a header of make_rc and make_unique. What names no type is grouped by size.
//
// It takes no lock and stops no thread, so it waits for none. All memory is read by the system (platform::read_own_memory), since a
// structure may be freed at any moment. Its own memory is mapped pages: it allocates from no pool. Any thread may call. O(blocks in use).

#include "pooled/pool/core.hpp"

#if POOLED_HAS_CODE
#include "pooled/heap/page_map.hpp"
#include "pooled/inspect/record.hpp"
#include "pooled/inspect/walk.hpp"
#include "pooled/instrument/malloc_backed.hpp"
#include "pooled/os/own_symbols.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/plugins/copies.hpp"
#endif

POOLED_BEGIN_DETAIL

// What pool::live_report() prints: write(to, text) gets it in pieces, and may throw.
POOLED_API void report_live(pool_core const& core, void (*write)(void* to, char const* text), void* to);

#if POOLED_HAS_CODE

extern "C" {
char* pooled_demangle(char const* name, char* buffer, std::size_t* bytes, int* status)
    POOLED_SYMBOL("__cxa_demangle");
// The tables of the three kinds of classes that type information describes.
extern void const* const pooled_class_table[] POOLED_SYMBOL("_ZTVN10__cxxabiv117__class_type_infoE");
extern void const* const pooled_derived_table[] POOLED_SYMBOL("_ZTVN10__cxxabiv120__si_class_type_infoE");
extern void const* const pooled_bases_table[] POOLED_SYMBOL("_ZTVN10__cxxabiv121__vmi_class_type_infoE");
}

struct own_memory {
    std::size_t read(std::uint64_t from, void* to, std::size_t bytes) const noexcept {
        return platform::read_own_memory(reinterpret_cast<void const*>(from), to, bytes);
    }
    template <class T>
    [[nodiscard]] T get(std::uint64_t from) const noexcept {
        T value{};
        return read(from, &value, sizeof(T)) == sizeof(T) ? value : T{};
    }
};

// An array that grows, in pages of the system.
template <class T>
class mapped_array {
public:
    ~mapped_array() { clear(); }
    [[nodiscard]] std::size_t size() const noexcept { return m_size; }
    [[nodiscard]] T* begin() const noexcept { return m_first; }
    [[nodiscard]] T* end() const noexcept { return m_first + m_size; }
    [[nodiscard]] T& operator[](std::size_t i) const noexcept { return m_first[i]; }
    // False: no memory.
    [[nodiscard]] bool push(T const& one) noexcept {
        if (m_size == m_capacity) {
            std::size_t const capacity = m_capacity == 0 ? 65536 / sizeof(T) : 2 * m_capacity;
            auto* const grown =
                static_cast<T*>(platform::map_pages(capacity * sizeof(T), platform::k_page_bytes));
            if (grown == nullptr) return false;
            detail::copy_n(m_first, m_size, grown);
            std::size_t const kept = m_size;
            clear();
            m_first = grown;
            m_size = kept;
            m_capacity = capacity;
        }
        m_first[m_size++] = one;
        return true;
    }
    void clear() noexcept {
        if (m_first != nullptr) platform::unmap_pages(m_first, m_capacity * sizeof(T));
        m_first = nullptr;
        m_size = m_capacity = 0;
    }

private:
    T* m_first = nullptr;
    std::size_t m_size = 0;
    std::size_t m_capacity = 0;
};

// Memory that was read in one call, since the next word that is asked for is often near.
class memory_window {
public:
    static constexpr std::size_t k_bytes = 16384;
    // False where there is a hole. `ahead`: how many bytes to read if they are not here yet.
    [[nodiscard]] bool get(std::uint64_t from, void* to, std::size_t count, std::size_t ahead) noexcept {
        if (from - m_begin >= m_bytes || from + count - m_begin > m_bytes) {
            own_memory const memory;
            m_begin = from;
            m_bytes = memory.read(from, m_data, ahead);
            if (m_bytes < count)
                m_bytes = memory.read(from, m_data, count);  // some systems read all or nothing
            if (m_bytes < count) return false;
        }
        __builtin_memcpy(to, m_data + (from - m_begin), count);
        return true;
    }

private:
    std::uint64_t m_begin = 0;
    std::size_t m_bytes = 0;
    std::byte m_data[k_bytes];
};

// What a control block is shown as, or null: std::_Sp_counted_ptr_inplace<Packet, std::allocator<void>, …> is the block of a Packet,
// std::_Sp_counted_ptr<Packet*, …> has the counts of one that lies elsewhere.
[[nodiscard]] inline char* object_of_control_block(char* name) noexcept {
    constexpr char const* k_counts = "counts of ";
    int nth = 0;
    for (char const* const known : {"_Sp_counted_ptr_inplace<", "__shared_ptr_emplace<", "_Sp_counted_ptr<",
                                    "_Sp_counted_deleter<", "__shared_ptr_pointer<"}) {
        bool const is_elsewhere = nth++ >= 2;
        char* const at = __builtin_strstr(name, known);
        char const* const before = __builtin_strchr(name, '<');
        if (at == nullptr || before < at) continue;
        char* const first = at + __builtin_strlen(known);
        int depth = 0;
        for (char* end = first; *end != '\0'; ++end) {
            depth += *end == '<' || *end == '(' ? 1 : *end == '>' || *end == ')' ? -1 : 0;
            if (depth < 0 || (depth == 0 && *end == ',')) {
                *end = '\0';
                if (!is_elsewhere) return first;
                std::size_t const length = __builtin_strlen(k_counts);  // less than that of what it replaces
                return static_cast<char*>(__builtin_memcpy(first - length, k_counts, length));
            }
        }
    }
    return nullptr;
}

// What the census knows, in mapped pages. inspect::walk visits it, of one pool, twice: before its slabs are read, and after that.
struct live_state {
    struct live_block {
        std::uint64_t begin;
        std::uint64_t bytes : 48;
        std::uint64_t found_free : 2;  // a bit for each walk
        std::uint64_t is_other : 1;    // idle, deferred, or the library's own
    };
    struct group {
        std::uint64_t key = 0;
        std::size_t block_bytes = 0;
        std::size_t name_at = 0;  // in `names`; 0: none
        std::size_t objects = 0;
        std::size_t bytes = 0;  // of their blocks
    };
    static constexpr std::size_t k_none = ~std::size_t{0};
    static constexpr std::uint64_t k_most_bytes = (std::uint64_t{1} << 48) - 1;

    pool_core const& core;
    copy_directory const* const types;
    own_memory memory{};
    inspect::walk<own_memory, live_state> walk;
    mapped_array<live_block> blocks{};  // ascending
    mapped_array<group> groups{};
    mapped_array<char> names{};
    mapped_array<std::uint64_t> free_before{};  // addresses of the first walk, kept until there are blocks
    bool is_second = false;
    memory_window heads;
    own_symbols symbols;
    struct {
        std::uint64_t word;
        std::size_t group;
    } recent[1024]{};  // first words that were found lately; a group of k_none: it names no type
    char name[8192]{};
    std::size_t in_use = 0;
    std::size_t bytes_in_use = 0;
    std::size_t changed = 0;      // blocks that were allocated or freed meanwhile
    char const* wrong = nullptr;  // null: nothing is

    live_state(pool_core const& of, inspect::record const& layout, copy_directory const* of_process) noexcept
        : core(of), types(of_process), walk(memory, layout, *this) {}

    template <class T>
    void add(mapped_array<T>& array, T const& one) noexcept {
        if (!array.push(one)) wrong = "there is not enough memory to count all blocks";
    }

    void free(std::uint64_t a) noexcept { is_second ? mark(a, true) : add(free_before, a); }
    void uncertain(std::uint64_t) noexcept { changed += is_second ? 1 : 0; }
    void idle(std::uint64_t a) noexcept { mark(a, false); }
    void deferred(std::uint64_t a) noexcept { mark(a, false); }
    void own(std::uint64_t a) noexcept { mark(a, false); }
    void doubt(char const* what) noexcept { wrong = what; }
    void block(std::uint32_t id, std::uint64_t begin, std::uint64_t bytes) noexcept {
        if (id == core.id() && (blocks.size() == 0 || begin > blocks.end()[-1].begin))
            add(blocks, {begin, bytes & k_most_bytes, 0, 0});
    }
    void pool(std::uint32_t, char const*) noexcept {}
    void chunk(std::uint64_t, std::uint64_t, std::uint32_t) noexcept {}
    void piece(std::uint64_t, std::uint64_t) noexcept {}
    void slab(std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t) noexcept {}
    void leaf(std::uint64_t, std::uint64_t) noexcept {}

    // The block that contains the address, or null.
    [[nodiscard]] live_block* find(std::uint64_t address) const noexcept {
        std::size_t low = 0;
        for (std::size_t high = blocks.size(); low < high;) {
            std::size_t const middle = (low + high) / 2;
            if (blocks[middle].begin <= address)
                low = middle + 1;
            else
                high = middle;
        }
        return low != 0 && address - blocks[low - 1].begin < blocks[low - 1].bytes ? &blocks[low - 1]
                                                                                   : nullptr;
    }
    void mark(std::uint64_t a, bool is_free) noexcept {
        live_block* const one = is_second ? find(a) : nullptr;
        if (one == nullptr) return;
        if (!is_free)
            one->is_other = 1;
        else if (one->begin == a)
            one->found_free |= 2;
    }

    void look() noexcept {
        walk.read_pool(address_of(&core));
        walk.for_each_slab(core.id());
        for (std::uint64_t const a : free_before)
            if (live_block* const one = find(a); one != nullptr && one->begin == a) one->found_free |= 1;
        free_before.clear();
        is_second = true;
        walk.read_pool(address_of(&core));
    }

    // The name of the class to whose type information a first word leads, as the compiler mangles it: the number of bytes read; 0: it
    // is no such word.
    [[nodiscard]] std::size_t read_class_name(std::uint64_t vtable) noexcept {
        std::uint64_t info = 0;
        if (memory.read(vtable - sizeof(void*), &info, sizeof(info)) != sizeof(info)) return 0;
        if (info == 0) {  // -fno-rtti: the table's symbol has the name
            std::size_t const length = symbols.name_of(vtable - 2 * sizeof(void*), name, sizeof(name));
            if (length <= 4 || __builtin_memcmp(name, "_ZTV", 4) != 0) return 0;
            __builtin_memmove(name, name + 4, length - 3);
            return length - 4;
        }
        if (info % alignof(void*) != 0 || info < 4096) return 0;
        std::uint64_t const kind = memory.get<std::uint64_t>(info) - 2 * sizeof(void*);
        if (kind != address_of(pooled_class_table) && kind != address_of(pooled_derived_table) &&
            kind != address_of(pooled_bases_table))
            return 0;
        std::uint64_t const text =
            memory.get<std::uint64_t>(info + sizeof(void*)) & ~(std::uint64_t{1} << 63);  // Apple's flag
        // Up to a page's end at a time: the name may be the last thing in front of a hole.
        constexpr std::size_t k_most = sizeof(name) - 1;
        for (std::size_t length = 0; length < k_most;) {
            std::size_t const wanted =
                detail::smaller<std::size_t>(4096 - (text + length) % 4096, k_most - length);
            std::size_t const read = memory.read(text + length, name + length, wanted);
            if (void const* const end = __builtin_memchr(name + length, 0, read))
                return static_cast<std::size_t>(static_cast<char const*>(end) - name);
            length += read;
            if (read < wanted) return 0;
        }
        name[k_most] = '\0';
        return k_most;
    }

    // The group of a key; k_none: none yet.
    [[nodiscard]] std::size_t find_group(std::uint64_t key) const noexcept {
        for (group const& one : groups)
            if (one.key == key) return static_cast<std::size_t>(&one - groups.begin());
        return k_none;
    }
    // A new one. `type` null: it has no name. k_none: no memory.
    [[nodiscard]] std::size_t add_group(std::uint64_t key, std::size_t block_bytes,
                                        char const* type = nullptr, std::size_t length = 0) noexcept {
        group one;
        one.key = key;
        one.block_bytes = block_bytes;
        if (type != nullptr) {
            if (names.size() == 0) add(names, '\0');
            one.name_at = names.size();
            for (std::size_t i = 0; i < length; ++i)
                add(names, type[i]);
            add(names, '\0');
            if (names.size() != one.name_at + length + 1) one.name_at = 0;  // no memory for its end
        }
        std::size_t const at = groups.size();
        add(groups, one);
        return groups.size() != at ? at : k_none;
    }

    // The group of a block by its first word, if that is a vtable: not in a pool's memory, and below the addresses of the system.
    [[nodiscard]] std::size_t group_of_vtable(std::uint64_t word, std::size_t bytes) noexcept {
        if (word % alignof(void*) != 0 || word < 4096 || word >> 56 != 0 ||
            !g_page_map.find(reinterpret_cast<void*>(word)).empty())
            return k_none;
        auto& known = recent[word / 8 * 0x9e3779b97f4a7c15 >> 54];
        if (known.word == word) return known.group;
        known = {word, find_group(word)};
        if (known.group != k_none || read_class_name(word) == 0) return known.group;
        char const* const mangled = name + (name[0] == '*');  // of a type that is one file's
        char* const whole = pooled_demangle(mangled, nullptr, nullptr, nullptr);
        char* const object = whole != nullptr ? detail::object_of_control_block(whole) : nullptr;
        char const* const shown = object != nullptr ? object : whole != nullptr ? whole : mangled;
        known.group = add_group(word, bytes, shown, __builtin_strlen(shown));
        std::free(whole);
        return known.group;
    }
    // The same by a word that is a header of make_rc or make_unique.
    [[nodiscard]] std::size_t group_of_header(std::uint64_t word, std::size_t bytes) noexcept {
        inspect::counted_word const header(word);
        if (types == nullptr || header.type < k_first_type_number || !header.is_plausible()) return k_none;
        block_type const* const type = types->type_of(header.type);
        if (type == nullptr || type->name == nullptr ||
            !g_page_map.find(reinterpret_cast<void*>(word)).empty())
            return k_none;
        std::uint64_t const key = header.type << 1 | 1;
        if (std::size_t const known = find_group(key); known != k_none) return known;
        // "… [with T = name]" or "… [T = name]"
        char const* const begin = __builtin_strstr(type->name, "T = ");
        char const* const first = begin != nullptr ? begin + 4 : type->name;
        std::size_t length = 0;
        while (first[length] != '\0' && first[length] != ';' &&
               (first[length] != ']' || first[length + 1] != '\0'))
            ++length;
        return add_group(key, bytes, first, length);
    }

    void count() noexcept {
        for (live_block const& b : blocks) {
            if (b.is_other != 0 || b.found_free == 3) continue;
            if (b.found_free != 0) {
                ++changed;
                continue;
            }
            std::size_t const bytes = b.bytes;
            ++in_use;
            bytes_in_use += bytes;
            std::uint64_t words[2]{};
            static_cast<void>(
                heads.get(b.begin, words, sizeof(words),
                          bytes >= memory_window::k_bytes / 4 ? sizeof(words) : memory_window::k_bytes));
#if POOLED_SANITIZE
            // A stand-in says where malloc's block is, and its bytes.
            if (std::uint64_t const at = ~words[0]; g_malloc_map.get(at) == b.begin) {
                std::uint64_t const count = words[1] < sizeof(words) ? words[1] : sizeof(words);
                words[0] = words[1] = 0;
                static_cast<void>(own_memory().read(at, words, count));
            }
#endif
            std::size_t of = group_of_vtable(words[0], bytes);
            // A header is first, or behind an array's length or padding.
            if (of == k_none) of = group_of_header(words[0], bytes);
            if (of == k_none) of = group_of_header(words[1], bytes);
            std::uint64_t const key = std::uint64_t{bytes} << 2 | 2;
            if (of == k_none) of = find_group(key);
            if (of == k_none) of = add_group(key, bytes);
            if (of >= groups.size()) continue;
            ++groups[of].objects;
            groups[of].bytes += bytes;
        }
        // One type has several groups: one for each kind of pointer, and for each file that has a table of it.
        for (group& one : groups)
            for (group* other = &one + 1; other < groups.end(); ++other)
                if (one.name_at != 0 && other->name_at != 0 && other->objects != 0 &&
                    __builtin_strcmp(&names[one.name_at], &names[other->name_at]) == 0) {
                    one.objects += std::exchange(other->objects, 0);
                    one.bytes += std::exchange(other->bytes, 0);
                }
    }
    // The group with most bytes first; one that was printed has no objects any more.
    void print(void (*write)(void* to, char const* text), void* to) {
        auto const say = [write, to](char const* before, std::size_t number, char const* after) {
            char digits[24];
            std::snprintf(digits, sizeof(digits), "%zu", number);
            for (char const* const text : {before, static_cast<char const*>(digits), after})
                write(to, text);
        };
        write(to, "pool '");
        write(to, core.name());
        say("': ", in_use, " blocks in use, ");
        say("", bytes_in_use, " bytes\n");
        for (;;) {
            group* largest = nullptr;
            for (group& one : groups)
                if (one.objects != 0 && (largest == nullptr || one.bytes > largest->bytes)) largest = &one;
            if (largest == nullptr) break;
            say("  ", std::exchange(largest->objects, 0), " of ");
            if (largest->name_at != 0)
                write(to, &names[largest->name_at]);
            else
                say("", largest->block_bytes, " bytes that name no type");
            say(", ", largest->bytes, " bytes\n");
        }
        if (changed != 0)
            say("  uncertain: ", changed, " blocks that threads allocated or freed meanwhile\n");
        for (char const* const text : {"  uncertain: ", wrong, "\n"})
            if (wrong != nullptr) write(to, text);
    }
};

POOLED_CODE void report_live(pool_core const& core, void (*write)(void* to, char const* text), void* to) {
    // The copy of the library that made the pool.
    copy_directory const* const all = detail::find_directory(false);
    inspect::record const* layout = nullptr;
    for (memory_copy const* one = all != nullptr ? all->first() : nullptr; one != nullptr; one = one->next)
        if (one->heap != nullptr && one->heap->registry == &core.made_by()) layout = one->heap;
    bool const is_known = layout != nullptr && layout->layout == inspect::k_layout;
    void* const pages = is_known ? platform::map_pages(sizeof(live_state), platform::k_page_bytes) : nullptr;
    if (pages == nullptr) {
        for (char const* const text :
             {"pool '", core.name(),
              is_known ? "': there is not enough memory for a census\n"
                       : "': no census, as another version of the library made it\n"})
            write(to, text);
        return;
    }
    struct mapped_state {
        live_state& state;
        ~mapped_state() {
            state.~live_state();
            platform::unmap_pages(&state, sizeof(live_state));
        }
    } const census{*::new (pages) live_state(core, *layout, all)};
    census.state.look();
    census.state.count();
    census.state.print(write, to);
}

#endif

POOLED_END_DETAIL
