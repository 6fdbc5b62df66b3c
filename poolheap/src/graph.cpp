// SPDX-License-Identifier: BSL-1.0
#include "graph.hpp"

#include <algorithm>

namespace poolheap {

namespace {

constexpr std::size_t k_sixteen = 16;
constexpr std::uint8_t k_large = 255;
constexpr std::size_t k_red_zone = 128;          // below the stack pointer, of leaf functions
constexpr std::size_t k_thread_record = 0x1000;  // at the thread pointer: libc's record of a thread
constexpr std::size_t k_thread_locals = 0x1000;  // below it: the static block, as far as symbols reach

std::string thread_name(thread const& t) {
    return "thread " + std::to_string(t.id) + (t.name.empty() ? "" : " (" + t.name + ")");
}

// Without debug information the name is the offset.
std::string known_name(std::string const& name) { return name.starts_with('+') ? std::string() : name; }

}  // namespace

std::string place(std::string const& type, std::uint64_t offset, std::string const& member) {
    if (!member.empty()) return type + (member[0] == '[' ? "" : "::") + member;
    return offset == 0 ? type : type + '+' + std::to_string(offset);
}

graph::graph(image const& from, heap const& blocks, naming& names)
    : m_image(from), m_heap(blocks), m_names(names) {
    m_types = names.name_all();
    find_references();
    find_roots();
    name_buffers();
    m_to_walk = {};
    mark();
}

// ---- edges

std::uint32_t graph::degree(block_index b) const {
    return m_degrees[b] == k_large ? m_large_degrees.at(b) : m_degrees[b];
}

std::span<block_index const> graph::targets(block_index b) const {
    std::size_t first = m_first[b / k_sixteen];
    for (block_index i = b / k_sixteen * k_sixteen; i < b; ++i)
        first += degree(i);
    return std::span(m_edges).subspan(first, degree(b));
}

void graph::add_edge(block_index source, block_index target) {
    std::uint32_t const before = degree(source);
    // Words that lead to the same block mostly are neighbours: the two of a shared_ptr, the links of a node.
    for (std::uint32_t i = 1; i <= std::min<std::uint32_t>(before, 4); ++i)
        if (m_edges[m_edges.size() - i] == target) return;
    m_edges.push_back(target);
    if (before + 1 < k_large) {
        m_degrees[source] = static_cast<std::uint8_t>(before + 1);
    } else {
        m_degrees[source] = k_large;
        m_large_degrees[source] = before + 1;
    }
}

void graph::find_references() {
    std::size_t const n = size();
    m_degrees.assign(n, 0);
    m_first.assign(n / k_sixteen + 2, 0);
    m_edges.reserve(4 * n);  // of address space: pages count when they are written
    block_index next_group = 0;
    reference_reader reader = this->reader();
    reader.in_blocks([&](block_index source, std::uint64_t offset, block_index target, address) {
        while (next_group <= source / k_sixteen)
            m_first[next_group++] = m_edges.size();
        if (source != target) add_edge(source, target);
        bool const is_named = m_types[source] != k_buffer && !is_label(m_types[source]);
        if (is_named && name_buffer(source, offset, target) && target < source) m_to_walk.push_back(target);
    });
    while (next_group < m_first.size())
        m_first[next_group++] = m_edges.size();
}

std::uint64_t graph::offset_of(block_index source, block_index target) const {
    std::uint64_t found = 0;
    bool is_found = false;
    reader().in_block(source, [&](std::uint64_t offset, block_index to, address) {
        if (to != target || is_found) return;
        found = offset;
        is_found = true;
    });
    return found;
}

// ---- names of what does not name itself

bool graph::is_label(type_id_t t) const { return t < m_is_label.size() && m_is_label[t]; }

type_id_t graph::add_label(std::string name) {
    auto const [at, is_new] = m_label_by_name.try_emplace(name, k_buffer);
    if (!is_new) return at->second;
    type label;
    label.name = std::move(name);
    type_id_t const added = m_names.add(std::move(label));
    m_is_label.resize(m_names.types());
    m_is_label[added] = true;
    return at->second = added;
}

// True if `target` was a nameless buffer and now is named by what leads to it.
bool graph::name_buffer(block_index source, std::uint64_t offset, block_index target) {
    if (m_types[target] != k_buffer || source == target) return false;
    type_id_t const holder = m_types[source];
    if (is_label(holder)) {
        m_types[target] = holder;  // a buffer that a nameless buffer holds: of the same holder
        return true;
    }
    std::uint64_t const member = member_offset(holder, offset);
    auto const [at, is_new] =
        m_labels.try_emplace(std::uint64_t{holder} << 32 | (member & 0xffffffff), k_buffer);
    if (is_new) {
        if (auto const known = m_names.pointee(holder, member); known && *known != k_buffer) {
            at->second = *known;
        } else {
            at->second =
                add_label("buffer held by " + place(m_names[holder].name, shown_offset(holder, member),
                                                    member_name(holder, member)));
        }
    }
    m_types[target] = at->second;
    return true;
}

// Walks from what became named to the buffers that it holds, until nothing changes. What names itself goes first, then globals, then
// other roots; among labels the first one stays.
void graph::name_buffers() {
    reference_reader reader = this->reader();
    std::vector<block_index> labelled;
    auto const walk = [&](std::vector<block_index>& from) {
        while (!from.empty()) {
            block_index const source = from.back();
            from.pop_back();
            if (is_label(m_types[source]) && &from != &labelled) {
                labelled.push_back(source);
                continue;
            }
            if (is_label(m_types[source])) {
                for (block_index const target : targets(source))
                    if (name_buffer(source, 0, target)) from.push_back(target);
                continue;
            }
            reader.in_block(source, [&](std::uint64_t offset, block_index target, address) {
                if (name_buffer(source, offset, target)) from.push_back(target);
            });
        }
    };
    for (block_index b = 0; b < size(); ++b)
        if (is_label(m_types[b]) && m_degrees[b] != 0) labelled.push_back(b);
    walk(m_to_walk);
    // Threads come and go: their buffers are one type.
    auto const label_of = [](root const& r) {
        if (r.kind == root_kind::stack || r.kind == root_kind::registers)
            return std::string("stacks of threads");
        if (r.kind == root_kind::local) return r.global;
        return r.kind == root_kind::thread_local_object ? r.name.substr(0, r.name.rfind(" of thread "))
                                                        : r.name;
    };
    std::unordered_map<std::uint64_t, type_id_t> of_roots;
    for (root_reference const& r : m_root_references) {
        if (m_types[r.target] != k_buffer) continue;
        root const& holder = m_roots[r.from];
        auto const [at, is_new] = of_roots.try_emplace(std::uint64_t{r.from} << 32 | r.offset, k_buffer);
        if (is_new) {
            std::optional<type_id_t> known;
            if (!holder.global.empty()) known = m_names.global_pointee(holder.global, r.offset);
            if (known && *known != k_buffer) {
                at->second = *known;
            } else {
                at->second = add_label("buffer held by " + label_of(holder));
            }
        }
        m_types[r.target] = at->second;
        m_to_walk.push_back(r.target);
    }
    walk(m_to_walk);
    walk(labelled);
}

std::uint64_t graph::member_offset(type_id_t holder, std::uint64_t offset) const {
    type const& t = m_names[holder];
    if (t.element_bytes != 0 && offset >= t.object_offset)
        return t.object_offset + (offset - t.object_offset) % t.element_bytes;
    return t.kind == kind::buffer && t.layout < 0 ? 0 : offset;
}

std::string graph::member_name(type_id_t holder, std::uint64_t offset) const {
    type const& t = m_names[holder];
    if (t.kind == kind::buffer && t.layout < 0) return {};
    return known_name(m_names.at(holder, offset).name);
}

std::uint64_t graph::shown_offset(type_id_t holder, std::uint64_t offset) const {
    std::uint64_t const begin = m_names[holder].object_offset;
    return offset < begin ? offset : offset - begin;
}

std::string graph::member_name(root_reference const& r) const {
    root const& from = m_roots[r.from];
    return from.global.empty() ? std::string() : known_name(m_names.at_global(from.global, r.offset).name);
}

// ---- roots

std::uint32_t graph::root_named(root_kind kind, std::string name, std::string global) {
    auto const [at, is_new] = m_root_by_name.try_emplace(name, static_cast<std::uint32_t>(m_roots.size()));
    if (is_new) m_roots.push_back({kind, std::move(name), std::move(global)});
    return at->second;
}

// root_of(address where) -> root_reference without its target. Leaves out the pools' memory and the library's records.
void graph::scan_range(address begin, address end, auto&& root_of) {
    reference_reader reader = this->reader();
    auto const known = [&](std::span<heap::range const> ranges, address at) {
        auto const next = std::upper_bound(ranges.begin(), ranges.end(), at,
                                           [](address a, heap::range const& r) { return a < r.second; });
        return next == ranges.end() ? heap::range{~address{0}, ~address{0}} : *next;
    };
    while (begin < end) {
        heap::range const pool = known(m_heap.pool_memory(), begin);
        heap::range const record = known(m_heap.records(), begin);
        heap::range const& next = pool.first < record.first ? pool : record;
        if (next.first <= begin) {
            begin = next.second;
            continue;
        }
        address const stop = std::min(end, next.first);
        reader.in_range(begin, stop, [&](address where, block_index target, address) {
            root_reference r = root_of(where);
            r.target = target;
            if (!m_root_references.empty()) {
                root_reference const& last = m_root_references.back();
                if (last.from == r.from && last.target == target) return;
            }
            m_root_references.push_back(r);
        });
        begin = stop;
    }
}

void graph::scan_mapping(mapping const& m) {
    auto const in_memory = [&](root_kind kind, std::string const& name) {
        return [this, kind, name, from = ~std::uint32_t{0}](address) mutable {
            if (from == ~std::uint32_t{0}) from = root_named(kind, name);
            return root_reference{from, 0, 0};
        };
    };
    if (!m.path.empty() && m.path[0] != '[') {
        std::string const module = m.path.substr(m.path.rfind('/') + 1);
        scan_range(m.begin, m.end, [&](address where) {
            auto const found = m_names.global(where);
            if (!found) return root_reference{root_named(root_kind::memory, "data of " + module), 0, 0};
            return root_reference{root_named(root_kind::global, "global " + found->name, found->name),
                                  static_cast<std::uint32_t>(where - found->begin), 0};
        });
        return;
    }
    auto const on_stack = [&](thread const& t, address where) {
        std::string const of = thread_name(t);
        auto const found = m_names.local_of(t, where);
        if (!found) return root_reference{root_named(root_kind::stack, "stack of " + of), 0, 0};
        return root_reference{root_named(root_kind::local, of + ", " + found->name, found->name),
                              static_cast<std::uint32_t>(where - found->begin), 0};
    };
    std::string const module = m_names.module_name(m.begin);
    std::string const name = m.path == "[heap]" ? "memory of malloc"
                             : module.empty()   ? "other memory"
                                                : "data of " + module;
    // Stacks lie in it: what is below a stack pointer is not in use.
    std::vector<thread const*> inside;
    for (thread const& t : m_image.threads())
        if (t.stack_pointer >= m.begin && t.stack_pointer < m.end) inside.push_back(&t);
    std::sort(inside.begin(), inside.end(),
              [](thread const* a, thread const* b) { return a->stack_pointer < b->stack_pointer; });
    address begin = m.begin;
    for (thread const* t : inside) {
        address const frames =
            std::max(begin, t->stack_pointer - std::min<address>(t->stack_pointer, k_red_zone));
        bool const has_locals = t->thread_pointer > t->stack_pointer && t->thread_pointer < m.end;
        address const locals = has_locals ? std::max(frames, t->thread_pointer - k_thread_locals) : m.end;
        scan_range(frames, locals, [&](address where) { return on_stack(*t, where); });
        begin = locals;
    }
    // The static blocks of threads: in the stacks, and that of the first thread in memory of its own.
    std::vector<thread const*> locals;
    for (thread const& t : m_image.threads())
        if (t.thread_pointer > begin && t.thread_pointer < m.end) locals.push_back(&t);
    std::sort(locals.begin(), locals.end(),
              [](thread const* a, thread const* b) { return a->thread_pointer < b->thread_pointer; });
    for (thread const* t : locals) {
        address const low =
            std::max(begin, t->thread_pointer - std::min<address>(t->thread_pointer, k_thread_locals));
        address const high = std::min(m.end, t->thread_pointer + k_thread_record);
        scan_range(begin, low, in_memory(root_kind::memory, name));
        scan_range(low, high, [&](address where) {
            // The first frames of a thread lie just below its thread-local objects.
            auto const found = m_names.thread_local_of(*t, where);
            if (!found && where < t->thread_pointer && t->stack_pointer >= m.begin &&
                t->stack_pointer < where)
                return on_stack(*t, where);
            // What has no name may be the library's own, or a word of no meaning: it comes after locals.
            return root_reference{
                found ? root_named(root_kind::thread_local_object,
                                   "thread_local " + found->name + " of " + thread_name(*t))
                      : root_named(root_kind::stack, "thread-local storage of " + thread_name(*t)),
                0, 0};
        });
        begin = high;
    }
    scan_range(begin, m.end, in_memory(root_kind::memory, name));
}

void graph::find_roots() {
    reference_reader reader = this->reader();
    for (thread const& t : m_image.threads()) {
        for (std::uint64_t const word : t.registers)
            if (block_index const target = reader.target(word); target != k_no_block)
                m_root_references.push_back(
                    {root_named(root_kind::registers, "registers of " + thread_name(t)), 0, target});
    }
    for (mapping const& m : m_image.mappings()) {
        // A file's pages that cannot be written hold no address of a block.
        bool const is_constant = !m.writable && !m.path.empty();
        if (m.readable && !is_constant && m.path != "[vvar]" && m.path != "[vdso]") scan_mapping(m);
    }
    for (block_index b = 0; b < size(); ++b) {
        block_state const state = m_heap.states[b];
        if (state == in_use || state == no_block) continue;
        m_root_references.push_back(
            {root_named(root_kind::idle, state == idle       ? "idle objects of a pool"
                                         : state == deferred ? "objects that are destroyed soon"
                                                             : "blocks of an unfinished refill"),
             0, b});
    }
    std::stable_sort(m_root_references.begin(), m_root_references.end(),
                     [&](root_reference const& a, root_reference const& b) {
                         auto const rank = [&](root_reference const& r) {
                             return std::pair(m_roots[r.from].kind, r.from);
                         };
                         return rank(a) < rank(b);
                     });
}

void graph::mark() {
    m_reachable.assign(size(), false);
    std::vector<block_index> next;
    auto const reach = [&](block_index b) {
        if (m_reachable[b]) return;
        m_reachable[b] = true;
        if (m_degrees[b] != 0) next.push_back(b);
    };
    for (root_reference const& r : m_root_references) {
        reach(r.target);
        while (!next.empty()) {
            block_index const b = next.back();
            next.pop_back();
            for (block_index const to : targets(b))
                reach(to);
        }
    }
}

std::optional<graph::chain> graph::path_to(block_index b) const {
    if (!m_reachable[b]) return {};
    // Breadth first; the link of a block that a root leads to is the number of that reference, with the highest bit set.
    constexpr std::uint32_t k_root = std::uint32_t{1} << 31;
    constexpr std::uint32_t k_unseen = ~std::uint32_t{0};
    std::vector<std::uint32_t> link(size(), k_unseen);
    std::vector<block_index> queue;
    for (std::size_t i = 0; i < m_root_references.size(); ++i) {
        block_index const to = m_root_references[i].target;
        if (link[to] != k_unseen) continue;
        link[to] = k_root | static_cast<std::uint32_t>(i);
        queue.push_back(to);
    }
    for (std::size_t i = 0; i < queue.size() && link[b] == k_unseen; ++i)
        for (block_index const to : targets(queue[i]))
            if (link[to] == k_unseen) {
                link[to] = queue[i];
                queue.push_back(to);
            }
    chain found;
    while (!(link[b] & k_root)) {
        found.blocks.push_back(b);
        b = static_cast<block_index>(link[b]);
    }
    found.blocks.push_back(b);
    found.begin = m_root_references[link[b] & ~k_root];
    std::reverse(found.blocks.begin(), found.blocks.end());
    return found;
}

}  // namespace poolheap
