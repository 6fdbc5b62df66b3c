// SPDX-License-Identifier: BSL-1.0
#include "graph.hpp"

#include <algorithm>

namespace poolheap {

namespace {

constexpr std::size_t k_red_zone = 128;          // below the stack pointer, of leaf functions
constexpr std::size_t k_thread_record = 0x1000;  // at the thread pointer: libc's record of a thread
constexpr std::size_t k_thread_locals = 0x1000;  // below it: the static block

std::string thread_name(thread const& t) {
    return "thread " + std::to_string(t.id) + (t.name.empty() ? "" : " (" + t.name + ")");
}

}  // namespace

std::string place(std::string const& type, std::uint64_t offset, std::string const& member) {
    if (!member.empty()) return type + (member[0] == '[' ? "" : "::") + member;
    return offset == 0 ? type : type + '+' + std::to_string(offset);
}

graph::graph(image const& from, heap const& blocks, naming& names)
    : m_image(from),
      m_heap(blocks),
      m_names(names),
      m_types(names.name_all()),
      m_edges(size()),
      m_reachable(size(), false) {
    for (type_id_t id = 0; id < names.types(); ++id)
        m_is_open.push_back(names[id].kind == kind::buffer);
    find_references();
    find_roots();
    // What has a type goes before what has a label, and owners before iterators and words on stacks.
    spread(false);
    name_by_roots(true);
    for (block_index b = 0; b < size(); ++b)
        if (is_label(b)) queue(b);
    spread(true);
    for (auto next = m_raw.take(); !next.empty(); next = m_raw.take())
        for (block_index const source : next)
            reader().in_block(source, [&](std::uint64_t offset, block_index target, address) {
                if (name_target(source, offset, target, true)) queue(target);
            });
    spread(true);
    name_by_roots(false);
    spread(true);
    reach(m_reachable, m_reached);
    m_typed = m_labelled = m_raw = m_reached = {};
}

// ---- references

void graph::find_references() {
    reference_reader reader = this->reader();
    reader.in_blocks([&](block_index source, std::uint64_t offset, block_index target, address) {
        if (source == target) return;
        m_edges.add(source, target, offset);
        // What lies behind its holder is named before it is read.
        if (!is_open(source) && !is_label(source) && name_target(source, offset, target, false) &&
            target < source && !is_label(target))
            queue(target);
    });
    m_edges.settle();
}

// ---- names of what does not name itself

std::uint32_t graph::add_holder(holder h, std::uint64_t key) {
    bool const is_root = h.root != k_no_root;
    std::string text = is_root ? m_roots[h.root].name + '\n' : m_names[h.type].name + '\0';
    text += h.member.empty() && !is_root ? std::to_string(h.offset) : h.member + '\n';
    auto const number = static_cast<std::uint32_t>(m_holders.size());
    auto const [at, is_new] = m_holder_by_text.try_emplace(std::move(text), number);
    if (is_new)
        m_holders.push_back(std::move(h));
    else
        m_holders[at->second].offset = std::min(m_holders[at->second].offset, h.offset);
    return m_holder_at[key] = at->second;
}

std::uint32_t graph::holder_of(type_id_t type, std::uint64_t offset) {
    poolheap::type const& t = m_names[type];
    if (t.owner != k_no_root) return t.owner;
    offset = t.member_offset(offset);
    std::uint64_t const key = std::uint64_t{type} << 32 | (offset & 0xffffffff);
    if (auto const known = m_holder_at.find(key); known != m_holder_at.end()) return known->second;
    std::string const member = t.is_nameless() ? "" : m_names.at(type, offset).name;
    return add_holder({k_no_root, type, t.shown_offset(offset), member}, key);
}

std::uint32_t graph::holder_of(root_reference const& r) {
    std::uint64_t const key = std::uint64_t{1} << 63 | std::uint64_t{r.from} << 32 | r.offset;
    if (auto const known = m_holder_at.find(key); known != m_holder_at.end()) return known->second;
    type_id_t const type = m_roots[r.from].type;
    return add_holder({r.from, type, r.offset, type == k_buffer ? "" : m_names.at(type, r.offset).name}, key);
}

type_id_t graph::buffer_of(std::uint32_t owner, type_id_t what) {
    auto const [at, is_new] = m_buffers.try_emplace(std::uint64_t{owner} << 16 | what, what);
    if (!is_new) return at->second;
    type t = m_names[what];
    t.owner = owner;
    if (holder const& h = m_holders[owner]; what == k_buffer)
        t.name = "buffer held by " + (h.root != k_no_root ? m_roots[h.root].label()
                                                          : place(m_names[h.type].name, h.offset, h.member));
    if (type_id_t const added = m_names.add(std::move(t)); added != k_buffer) at->second = added;
    return at->second;
}

bool graph::name_target(block_index source, std::uint64_t offset, block_index target, bool are_raw_named) {
    if (source == target || !is_open(target) || is_open(source)) return false;
    type_id_t const of = type_id(source);
    std::array const key{std::uint64_t{of} << 32 | std::uint64_t{m_types[target]} << 16 | 1, offset};
    if (key == m_last_named) {
        m_types.set(target, m_last_name);
        return true;
    }
    type const& t = m_names[of];
    member const at = t.is_nameless() ? member() : m_names.at(of, offset);
    // A plain pointer is an iterator, a view, a way back: it owns nothing if something else leads there.
    if (at.how == strength::raw && t.kind != kind::buffer && !are_raw_named) {
        m_raw.push(source);
        return false;
    }
    give(target, holder_of(of, offset), at.pointee);
    m_last_named = key, m_last_name = type_id(target);
    return true;
}

// Walks from what became named to the buffers that it holds, until nothing changes. What is reachable is marked on the way: in a walk in
// random order, each step waits for memory.
void graph::spread(bool are_labels_spread) {
    reference_reader reader = this->reader();
    block_index source = k_no_block;
    bool is_read = false;  // the source's edges do not say all
    auto const name = [&](std::uint64_t offset, block_index target, address = 0) {
        return name_target(source, offset, target, false) && queue(target);
    };
    auto const read = [&] {
        if (std::exchange(is_read, false)) reader.in_block(source, name);
    };
    auto const take_some = [&] {
        read();
        auto const found = m_typed.take();
        return found.empty() && are_labels_spread ? m_labelled.take() : found;
    };
    struct {
        decltype(take_some) const& take;
    } next{take_some};
    walk(
        next, [&](block_index to) { fetch(to); },
        [&](block_index from, edge const& e) {
            if (from != source) read();
            source = from;
            bool const is_known = e.word != edge::k_elsewhere || is_label(source);
            bool const is_queued = is_known && name(std::uint64_t{8} * e.word, e.target);
            is_read |= !is_known && is_open(e.target);
            if (!m_reachable[source] || m_reachable[e.target]) return;
            m_reachable[e.target] = true;
            if (!is_queued && has_edges(e.target)) m_reached.push(e.target);
        });
}

void graph::name_by_roots(bool are_owners) {
    for (root_reference const& r : m_root_references) {
        if (!is_open(r.target)) continue;
        root const& from = m_roots[r.from];
        member const at = from.type == k_buffer ? member() : m_names.at(from.type, r.offset);
        if ((from.kind < root_kind::stack) != are_owners) continue;
        give(r.target, holder_of(r), at.pointee);
        queue(r.target);
    }
}

// ---- roots

std::uint32_t graph::root_named(root_kind kind, std::string name, type_id_t type) {
    auto const [at, is_new] = m_root_by_name.try_emplace(name, static_cast<std::uint32_t>(m_roots.size()));
    if (is_new) m_roots.push_back({kind, std::move(name), type});
    return at->second;
}

// root_of(address where) -> root_reference without its target. Leaves out the pools' memory and the library's records.
void graph::scan_range(address begin, address end, auto&& root_of) {
    reference_reader reader = this->reader();
    auto const next_of = [&](std::span<heap::range const> ranges) {
        auto const next = std::ranges::upper_bound(ranges, begin, {}, &heap::range::second);
        return next == ranges.end() ? heap::range{~address{0}, ~address{0}} : *next;
    };
    while (begin < end) {
        heap::range const next = std::min(next_of(m_heap.pool_memory), next_of(m_heap.records));
        reader.in_range(begin, std::min(end, next.first), [&](address where, block_index target, address) {
            root_reference r = root_of(where);
            r.target = target;
            bool const is_known = !m_root_references.empty() && m_root_references.back().from == r.from &&
                                  m_root_references.back().target == target;
            if (!is_known) m_root_references.push_back(r);
        });
        begin = std::max(begin, next.second);
    }
}

void graph::scan_mapping(mapping const& m) {
    std::string const module =
        m.path.starts_with('/') ? m.path.substr(m.path.rfind('/') + 1) : m_names.module_name(m.begin);
    std::string const name = m.path == "[heap]" ? "memory of malloc"
                             : module.empty()   ? "other memory"
                                                : "data of " + module;
    auto const in_memory = [&](address) { return root_reference{root_named(root_kind::memory, name), 0}; };
    if (!m.path.empty() && m.path[0] != '[')
        return scan_range(m.begin, m.end, [&](address where) {
            auto const found = m_names.global(where);
            if (!found) return in_memory(where);
            return root_reference{root_named(root_kind::global, "global " + found->name, found->type),
                                  static_cast<std::uint32_t>(where - found->begin)};
        });
    // What is below a stack pointer is not in use. The static blocks of threads are in the stacks, and that of the first thread in memory
    // of its own.
    struct zone {
        address begin, end;
        std::string name;
        bool is_alone;  // what is below is this stack's, too, or not known (core file)
    };
    std::vector<zone> zones;
    bool const is_core =
        std::ranges::find(m_image.mappings(), "[stack]", &mapping::path) == m_image.mappings().end();
    for (thread const& t : m_image.threads()) {
        auto const is_here = [&](address at) { return at >= m.begin && at < m.end; };
        bool const has_stack = is_here(t.stack_pointer), has_record = is_here(t.thread_pointer);
        // Mostly both are in one mapping, the first frames just below the thread-local objects.
        bool const is_below = has_stack && (!has_record || t.stack_pointer < t.thread_pointer);
        if (!has_stack && !has_record) continue;
        address const begin = is_below ? t.stack_pointer - k_red_zone : t.thread_pointer - k_thread_locals;
        address const end = is_below != has_stack || !has_record ? m.end : t.thread_pointer + k_thread_record;
        zones.push_back({std::max(begin, m.begin), std::min(end, m.end),
                         (has_stack ? "stack of " : "thread-local storage of ") + thread_name(t),
                         is_below && (m.path == "[stack]" || has_record || is_core)});
    }
    std::ranges::stable_sort(zones, {}, &zone::begin);
    address begin = m.begin;
    for (std::size_t i = 0; i < zones.size(); ++i) {
        zone const& z = zones[i];
        address const end = i + 1 < zones.size() ? std::min(z.end, zones[i + 1].begin) : z.end;
        // A fibre's stack, or that of a signal handler, may lie among other objects.
        if (!z.is_alone) scan_range(begin, z.begin, in_memory);
        scan_range(std::max(begin, z.begin), end,
                   [&](address) { return root_reference{root_named(root_kind::stack, z.name), 0}; });
        begin = std::max(begin, end);
    }
    scan_range(begin, m.end, in_memory);
}

void graph::find_roots() {
    reference_reader reader = this->reader();
    for (thread const& t : m_image.threads())
        for (std::uint64_t const word : t.registers)
            if (block_index const target = reader.target(word); target != k_no_block)
                m_root_references.push_back(
                    {root_named(root_kind::registers, "registers of " + thread_name(t)), 0, target});
    for (mapping const& m : m_image.mappings()) {
        // A file's pages that cannot be written hold no address of a block.
        bool const is_constant = !m.writable && !m.path.empty();
        if (m.readable && !is_constant && m.path != "[vvar]" && m.path != "[vdso]") scan_mapping(m);
    }
    for (auto const& [b, state] : m_heap.others) {
        std::string const name = state == idle       ? "idle objects of a pool"
                                 : state == deferred ? "objects that are destroyed soon"
                                                     : "blocks of an unfinished refill";
        m_root_references.push_back({root_named(root_kind::idle, name), 0, b});
    }
    std::ranges::stable_sort(m_root_references, {}, [&](root_reference const& r) {
        return std::pair(m_roots[r.from].kind, r.from);
    });
    for (root_reference const& r : m_root_references) {
        if (!m_reachable[r.target]) m_reached.push(r.target);
        m_reachable[r.target] = true;
    }
}

void graph::reach(std::vector<bool>& found, worklist& next) const {
    walk(
        next, [&](block_index to) { poolheap::fetch(found, to); },
        [&](block_index, edge const& e) {
            if (found[e.target]) return;
            found[e.target] = true;
            if (has_edges(e.target)) next.push(e.target);
        });
}

std::vector<bool> graph::reached(std::vector<bool> const& without) const {
    std::vector<bool> found = without;
    worklist next;
    for (root_reference const& r : m_root_references) {
        if (!found[r.target]) next.push(r.target);
        found[r.target] = true;
    }
    reach(found, next);
    return found;
}

graph::chain graph::path_to(block_index b) const {
    if (!m_reachable[b]) return {};
    // Breadth first; what a root leads to is linked to itself.
    std::vector<block_index> link(size(), k_no_block), queue;
    auto const reach = [&](block_index to, block_index from) {
        if (link[to] != k_no_block) return;
        link[to] = from;
        queue.push_back(to);
    };
    for (root_reference const& r : m_root_references)
        reach(r.target, r.target);
    for (std::size_t i = 0; i < queue.size() && link[b] == k_no_block; ++i)
        for (auto const [to, word] : edges(queue[i]))
            reach(to, queue[i]);
    chain found{.begin = {}, .blocks = {b}};
    for (; link[b] != b; b = link[b])
        found.blocks.push_back(link[b]);
    found.begin = *std::ranges::find(m_root_references, b, &root_reference::target);
    std::reverse(found.blocks.begin(), found.blocks.end());
    return found;
}

}  // namespace poolheap
