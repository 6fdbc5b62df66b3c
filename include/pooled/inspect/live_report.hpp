// SPDX-License-Identifier: BSL-1.0
#pragma once

// live_report(): what one pool of this process holds, by type.
//
//   live_census   walk: addresses that caches and lists have ─┐
//                 walk: blocks whose bits are clear          ─┼─▶ blocks in use ─▶ the first words of each ─▶ groups by type
//                 walk: addresses that caches and lists have ─┘   (those that one walk alone found are uncertain)
//
// A type is that of a control block's or an object's type information, to which its first word leads, or of the vtable's symbol where there
// is none (-fno-rtti); or that of the number in a header of make_rc and make_unique. What names no type is grouped by size.
//
// It takes no lock and stops no thread, so it waits for none. All memory is read by the system (platform::read_own_memory), since a
// structure may be freed at any moment. Its own memory is mapped pages: it allocates from no pool. Any thread may call. O(blocks in use).

#include "pooled/base/bits.hpp"
#include "pooled/config.hpp"
#include "pooled/pool/core.hpp"

#include <cstdlib>
#include <iosfwd>
#include <new>
#include <utility>

#if POOLED_HAS_CODE
#include "pooled/base/size_class.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/inspect/record.hpp"
#include "pooled/inspect/walk.hpp"
#include "pooled/os/own_symbols.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/plugins/copies.hpp"
#endif

POOLED_BEGIN_NAMESPACE
namespace detail {

struct live_group {
    char const* type = nullptr;  // null: not known, but the blocks' size is
    std::size_t objects = 0;
    std::size_t bytes = 0;  // of their blocks
    std::size_t block_bytes = 0;
};

class live_census {
public:
    POOLED_API explicit live_census(pool_core const& core) noexcept;
    POOLED_API ~live_census();
    live_census(live_census const&) = delete;
    live_census& operator=(live_census const&) = delete;

    [[nodiscard]] std::size_t objects() const noexcept { return m_objects; }
    [[nodiscard]] std::size_t bytes() const noexcept { return m_bytes; }
    // Blocks that were allocated or freed meanwhile; null: nothing is wrong.
    [[nodiscard]] std::size_t uncertain() const noexcept { return m_uncertain; }
    [[nodiscard]] char const* doubt() const noexcept { return m_doubt; }

    // The group with most bytes of those that were not returned yet; null: none is left. O(groups).
    [[nodiscard]] POOLED_API live_group const* next() noexcept;

private:
    // An array that grows, in pages of the system.
    template <class T>
    struct pages_of {
        T* first = nullptr;
        std::size_t size = 0;
        std::size_t capacity = 0;
    };
    struct live_block {
        std::uint64_t begin;
        std::uint32_t bytes_low;
        std::uint8_t found_free;  // a bit for each walk
        std::uint8_t is_other;    // idle, deferred, or the library's own
        std::uint16_t bytes_high;
    };
    struct group : live_group {
        std::uint64_t key = 0;
        std::size_t name_at = 0;  // in m_names; 0: none
        bool is_returned = false;
    };

    template <class Owner>
    friend class live_walk;

    template <class T>
    void push(pages_of<T>& to, T const& one) noexcept;
    template <class T>
    static void free(pages_of<T>& gone) noexcept;
    [[nodiscard]] live_block* find(std::uint64_t address) noexcept;
    void count() noexcept;
    void merge_groups() noexcept;
    void add(std::uint64_t key, char const* type, std::size_t type_bytes, std::size_t block_bytes) noexcept;
    [[nodiscard]] group* find_group(std::uint64_t key) noexcept;

    pages_of<live_block> m_blocks;  // ascending
    pages_of<group> m_groups;
    pages_of<char> m_names;
    std::size_t m_objects = 0;
    std::size_t m_bytes = 0;
    std::size_t m_uncertain = 0;
    char const* m_doubt = nullptr;
};

template <class Traits>
void live_report(pool_core& core, std::basic_ostream<char, Traits>& out) {
    live_census all(core);
    out << "pool '" << core.name() << "': " << all.objects() << " blocks in use, " << all.bytes()
        << " bytes\n";
    while (live_group const* const one = all.next()) {
        out << "  " << one->objects << " of ";
        if (one->type != nullptr)
            out << one->type << ", " << one->bytes << " bytes\n";
        else
            out << one->block_bytes << " bytes that name no type, " << one->bytes << " bytes\n";
    }
    if (all.uncertain() != 0)
        out << "  uncertain: " << all.uncertain() << " blocks that threads allocated or freed meanwhile\n";
    if (all.doubt() != nullptr) out << "  uncertain: " << all.doubt() << '\n';
}

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

// What inspect::walk visits; of one pool, twice: before its slabs are read, and after that.
template <class Owner>
class live_walk {
public:
    live_walk(Owner& to, std::uint32_t pool_id) noexcept : m_to(to), m_pool_id(pool_id) {}

    // The addresses of the first walk are kept until there are blocks.
    void free(std::uint64_t a) noexcept { m_is_second ? mark(a, true) : m_to.push(m_free, a); }
    void uncertain(std::uint64_t) noexcept { m_to.m_uncertain += m_is_second ? 1 : 0; }
    void idle(std::uint64_t a) noexcept { mark(a, false); }
    void deferred(std::uint64_t a) noexcept { mark(a, false); }
    void own(std::uint64_t a) noexcept { mark(a, false); }
    void doubt(char const* what) noexcept { m_to.m_doubt = what; }
    void block(std::uint32_t id, std::uint64_t begin, std::uint64_t bytes) noexcept {
        auto const& all = m_to.m_blocks;
        if (id != m_pool_id || (all.size != 0 && begin <= all.first[all.size - 1].begin)) return;
        m_to.push(m_to.m_blocks,
                  {begin, static_cast<std::uint32_t>(bytes), 0, 0, static_cast<std::uint16_t>(bytes >> 32)});
    }
    void pool(std::uint32_t, char const*) noexcept {}
    void chunk(std::uint64_t, std::uint64_t, std::uint32_t) noexcept {}
    void piece(std::uint64_t, std::uint64_t) noexcept {}
    void slab(std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t) noexcept {}
    void leaf(std::uint64_t, std::uint64_t) noexcept {}

    void begin_second() noexcept {
        for (std::size_t i = 0; i < m_free.size; ++i)
            if (auto* const one = m_to.find(m_free.first[i]); one != nullptr && one->begin == m_free.first[i])
                one->found_free |= 1;
        Owner::free(m_free);
        m_is_second = true;
    }

private:
    void mark(std::uint64_t a, bool is_free) noexcept {
        auto* const one = m_is_second ? m_to.find(a) : nullptr;
        if (one == nullptr) return;
        if (!is_free)
            one->is_other = 1;
        else if (one->begin == a)
            one->found_free |= 2;
    }

    Owner& m_to;
    std::uint32_t m_pool_id;
    bool m_is_second = false;
    typename Owner::template pages_of<std::uint64_t> m_free;
};

template <class T>
void live_census::push(pages_of<T>& to, T const& one) noexcept {
    if (to.size == to.capacity) {
        std::size_t const capacity = to.capacity == 0 ? 65536 / sizeof(T) : 2 * to.capacity;
        auto* const grown =
            static_cast<T*>(platform::map_pages(capacity * sizeof(T), platform::k_page_bytes));
        if (grown == nullptr) {
            m_doubt = "there is not enough memory to count all blocks";
            return;
        }
        if (to.size != 0) __builtin_memcpy(static_cast<void*>(grown), to.first, to.size * sizeof(T));
        free(to);
        to.first = grown;
        to.capacity = capacity;
    }
    to.first[to.size++] = one;
}

template <class T>
void live_census::free(pages_of<T>& gone) noexcept {
    if (gone.first != nullptr) platform::unmap_pages(gone.first, gone.capacity * sizeof(T));
}

// The block that contains the address, or null.
inline live_census::live_block* live_census::find(std::uint64_t address) noexcept {
    std::size_t low = 0;
    for (std::size_t high = m_blocks.size; low < high;) {
        std::size_t const middle = (low + high) / 2;
        if (m_blocks.first[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return nullptr;
    live_block& one = m_blocks.first[low - 1];
    return address - one.begin < (std::uint64_t{one.bytes_high} << 32 | one.bytes_low) ? &one : nullptr;
}

// Memory that was read in one call, since the next word that is asked for is often near.
template <std::size_t Bytes>
class memory_window {
public:
    // False where there is a hole. `ahead`: how many bytes to read if they are not here yet.
    [[nodiscard]] bool get(std::uint64_t from, void* to, std::size_t count,
                           std::size_t ahead = Bytes) noexcept {
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
    std::byte m_data[Bytes];
};

// The name of the class to whose type information a first word leads, as the compiler mangles it: the number of bytes read; 0: it is no
// such word.
[[nodiscard]] inline std::size_t read_class_name(std::uint64_t vtable, memory_window<4096>& words,
                                                 own_symbols& symbols, char* to, std::size_t bytes) noexcept {
    own_memory const memory;
    std::uint64_t info = 0;
    if (!words.get(vtable - sizeof(void*), &info, sizeof(info))) return 0;
    if (info == 0) {  // -fno-rtti: the table's symbol has the name
        std::size_t const length = symbols.name_of(vtable - 2 * sizeof(void*), to, bytes);
        if (length <= 4 || __builtin_memcmp(to, "_ZTV", 4) != 0) return 0;
        __builtin_memmove(to, to + 4, length - 3);
        return length - 4;
    }
    if (info % alignof(void*) != 0 || info < 4096) return 0;
    std::uint64_t const kind = memory.get<std::uint64_t>(info) - 2 * sizeof(void*);
    if (kind != address_of(pooled_class_table) && kind != address_of(pooled_derived_table) &&
        kind != address_of(pooled_bases_table))
        return 0;
    std::uint64_t const name =
        memory.get<std::uint64_t>(info + sizeof(void*)) & ~(std::uint64_t{1} << 63);  // Apple's flag
    // Up to a page's end at a time: the name may be the last thing in front of a hole.
    std::size_t length = 0;
    while (length + 1 < bytes) {
        std::size_t const to_end = 4096 - (name + length) % 4096;
        std::size_t const wanted = to_end < bytes - 1 - length ? to_end : bytes - 1 - length;
        std::size_t const read = memory.read(name + length, to + length, wanted);
        void const* const end = __builtin_memchr(to + length, 0, read);
        if (end != nullptr) return static_cast<std::size_t>(static_cast<char const*>(end) - to);
        length += read;
        if (read < wanted) return 0;
    }
    to[bytes - 1] = '\0';
    return bytes - 1;
}

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

inline live_census::group* live_census::find_group(std::uint64_t key) noexcept {
    for (std::size_t i = 0; i < m_groups.size; ++i)
        if (m_groups.first[i].key == key) return &m_groups.first[i];
    return nullptr;
}

inline void live_census::add(std::uint64_t key, char const* type, std::size_t type_bytes,
                             std::size_t block_bytes) noexcept {
    group one;
    one.key = key;
    one.block_bytes = block_bytes;
    if (type != nullptr) {
        if (m_names.size == 0) push(m_names, '\0');
        one.name_at = m_names.size;
        for (std::size_t i = 0; i < type_bytes; ++i)
            push(m_names, type[i]);
        push(m_names, '\0');
    }
    push(m_groups, one);
}

inline void live_census::count() noexcept {
    constexpr std::size_t k_window = 16384;
    constexpr std::size_t k_recent = 1024;  // a power of two
    struct recent {
        std::uint64_t key;
        std::size_t group;
    };
    struct state {
        memory_window<k_window> blocks;
        memory_window<4096> vtables;
        own_symbols symbols;
        recent known[k_recent];  // by first word: found lately; a group of ~0: names no type
        char name[8192];
    };
    void* const memory = platform::map_pages(sizeof(state), platform::k_page_bytes);
    if (memory == nullptr) {
        m_doubt = "there is not enough memory to name types";
        return;
    }
    auto& s = *static_cast<state*>(memory);
    constexpr std::size_t k_none = ~std::size_t{0};
    copy_directory const* const all = detail::find_directory(false);
    for (std::size_t i = 0; i < m_blocks.size; ++i) {
        live_block const& b = m_blocks.first[i];
        if (b.is_other != 0 || b.found_free == 3) continue;
        if (b.found_free != 0) {
            ++m_uncertain;
            continue;
        }
        std::size_t const bytes = std::size_t{b.bytes_high} << 32 | b.bytes_low;
        ++m_objects;
        m_bytes += bytes;
        std::uint64_t words[2]{};
        if (POOLED_SANITIZE == 0)
            static_cast<void>(s.blocks.get(b.begin, words, sizeof(words),
                                           bytes >= k_window / 4 ? sizeof(words) : k_window));
        std::size_t of = k_none;
        // A vtable: not in a pool's memory, and below the addresses of the system.
        if (words[0] % alignof(void*) == 0 && words[0] >= 4096 && words[0] >> 56 == 0 &&
            g_page_map.find(reinterpret_cast<void*>(words[0])).empty()) {
            recent& known = s.known[words[0] / 8 * 0x9e3779b97f4a7c15 >> 54];
            if (known.key != words[0]) {
                known = {words[0], k_none};
                if (group const* const old = find_group(words[0])) {
                    known.group = static_cast<std::size_t>(old - m_groups.first);
                } else if (std::size_t const length = detail::read_class_name(words[0], s.vtables, s.symbols,
                                                                              s.name, sizeof(s.name));
                           length != 0) {
                    char const* const mangled = s.name + (s.name[0] == '*');  // of a type that is one file's
                    char* const whole = pooled_demangle(mangled, nullptr, nullptr, nullptr);
                    char* const object = whole != nullptr ? detail::object_of_control_block(whole) : nullptr;
                    char const* const shown = object != nullptr ? object : whole != nullptr ? whole : mangled;
                    known.group = m_groups.size;
                    add(words[0], shown, __builtin_strlen(shown), bytes);
                    std::free(whole);
                }
            }
            of = known.group;
        }
        // A header, first or behind an array's length or padding.
        for (int w = 0; of == k_none && w < 2 && all != nullptr; ++w) {
            std::uint64_t const number = words[w] >> (64 - 14);
            std::uint64_t const weak = words[w] >> 26 & 0xffffff;
            if (number < k_first_type_number || number >= k_type_numbers || weak == 0) continue;
            block_type const* const type = all->type_of(number);
            if (type == nullptr || type->name == nullptr) continue;
            std::uint64_t const key = number << 1 | 1;
            group* known = find_group(key);
            if (known == nullptr) {
                // "… [with T = name]" or "… [T = name]"
                char const* const begin = __builtin_strstr(type->name, "T = ");
                char const* const first = begin != nullptr ? begin + 4 : type->name;
                std::size_t length = 0;
                while (first[length] != '\0' && first[length] != ';' &&
                       (first[length] != ']' || first[length + 1] != '\0'))
                    ++length;
                of = m_groups.size;
                add(key, first, length, bytes);
            } else {
                of = static_cast<std::size_t>(known - m_groups.first);
            }
        }
        if (of == k_none) {
            std::uint64_t const key = std::uint64_t{bytes} << 2 | 2;
            group* const known = find_group(key);
            of = known != nullptr ? static_cast<std::size_t>(known - m_groups.first) : m_groups.size;
            if (known == nullptr) add(key, nullptr, 0, bytes);
        }
        if (of >= m_groups.size) continue;
        ++m_groups.first[of].objects;
        m_groups.first[of].bytes += bytes;
    }
    platform::unmap_pages(memory, sizeof(state));
}

// Of one type, there are several: the kinds of pointers, and the files that have a table of it.
inline void live_census::merge_groups() noexcept {
    for (std::size_t i = 0; i < m_groups.size; ++i)
        for (std::size_t j = i + 1; j < m_groups.size; ++j) {
            group& one = m_groups.first[i];
            group& other = m_groups.first[j];
            if (one.name_at == 0 || other.name_at == 0 || other.objects == 0 ||
                __builtin_strcmp(m_names.first + one.name_at, m_names.first + other.name_at) != 0)
                continue;
            one.objects += std::exchange(other.objects, 0);
            one.bytes += std::exchange(other.bytes, 0);
        }
}

POOLED_CODE live_census::live_census(pool_core const& core) noexcept {
    // The copy of the library that made the pool.
    copy_directory const* const all = detail::find_directory(false);
    inspect::record const* layout = nullptr;
    for (memory_copy const* one = all != nullptr ? all->first() : nullptr; one != nullptr; one = one->next)
        if (one->heap != nullptr && one->heap->registry == &core.made_by()) layout = one->heap;
    if (layout == nullptr || layout->layout != inspect::k_layout) return;
    using visitor = live_walk<live_census>;
    using walk = inspect::walk<own_memory, visitor>;
    void* const memory = platform::map_pages(sizeof(walk), platform::k_page_bytes);
    if (memory == nullptr) {
        m_doubt = "there is not enough memory for a census";
        return;
    }
    own_memory const own;
    visitor to(*this, core.id());
    auto* const one = ::new (memory) walk(own, *layout, to);
    one->read_pool(address_of(&core));
    one->for_each_slab(core.id());
    to.begin_second();
    one->read_pool(address_of(&core));
    platform::unmap_pages(memory, sizeof(walk));
    count();
    merge_groups();
}

POOLED_CODE live_census::~live_census() {
    free(m_blocks);
    free(m_groups);
    free(m_names);
}

POOLED_CODE live_group const* live_census::next() noexcept {
    group* largest = nullptr;
    for (std::size_t i = 0; i < m_groups.size; ++i) {
        group& one = m_groups.first[i];
        if (!one.is_returned && one.objects != 0 && (largest == nullptr || one.bytes > largest->bytes))
            largest = &one;
    }
    if (largest == nullptr) return nullptr;
    largest->is_returned = true;
    if (largest->name_at != 0) largest->type = m_names.first + largest->name_at;
    return largest;
}

#endif

}  // namespace detail
POOLED_END_NAMESPACE
