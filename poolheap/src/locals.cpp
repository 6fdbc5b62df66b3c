// SPDX-License-Identifier: BSL-1.0
// find_locals: libdwfl unwinds the stack.
#include "dwarf_index.hpp"

#include <algorithm>
#include <cstdlib>

namespace poolheap {
namespace {

constexpr int k_most_frames = 256;
// Where the registers of DWARF's numbers are in thread::registers, and the program counter.
#if defined(__aarch64__)
constexpr std::uint8_t k_registers[]{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                     16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
constexpr std::size_t k_counter = 32;
#else
constexpr std::uint8_t k_registers[]{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0};
constexpr std::size_t k_counter = 16;
#endif

struct unwinding {
    image const& from;
    thread const& of;
    Dwfl* dwfl;
    std::vector<local> found;
    int frames = 0;

    void add_variables(Dwfl_Frame* frame, Dwfl_Module* in, address at);
};

// The only operation that says where something is at an address of the code; null: there are more, or none.
Dwarf_Op const* location(Dwarf_Die die, unsigned attribute, address at) {
    Dwarf_Attribute found;
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    bool const is_one = dwarf_attr_integrate(&die, attribute, &found) != nullptr &&
                        dwarf_getlocation_addr(&found, at, &ops, &count, 1) == 1 && count == 1;
    return is_one ? ops : nullptr;
}

// The frame's address, from which locals count.
std::optional<address> canonical_frame(Dwfl_Frame* frame, Dwfl_Module* in, address at) {
    Dwarf_Addr bias = 0;
    Dwarf_Frame* rules = nullptr;
    Dwarf_CFI* const all = dwfl_module_eh_cfi(in, &bias);
    if (all == nullptr || dwarf_cfi_addrframe(all, at - bias, &rules) != 0) return {};
    std::unique_ptr<Dwarf_Frame, decltype(&std::free)> const owner(rules, std::free);
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    Dwarf_Word value = 0;
    if (dwarf_frame_cfa(rules, &ops, &count) != 0 || count != 1 || ops[0].atom != DW_OP_bregx ||
        dwfl_frame_reg(frame, static_cast<unsigned>(ops[0].number), &value) != 0)
        return {};
    return value + ops[0].number2;
}

// The function that has the address, and the inlined functions and blocks in it that have it: from the outside inwards. dwarf_getscopes
// leaves out the function around an inlined one.
bool find_scopes(Dwarf_Die in, address at, std::vector<Dwarf_Die>& found) {
    for (Dwarf_Die& child : children(in)) {
        unsigned const tag = tag_of(child);
        if (tag == DW_TAG_namespace && find_scopes(child, at, found)) return true;
        bool const is_scope =
            tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block;
        if (!is_scope || dwarf_haspc(&child, at) <= 0) continue;
        found.push_back(child);
        find_scopes(child, at, found);
        return true;
    }
    return false;
}

void unwinding::add_variables(Dwfl_Frame* frame, Dwfl_Module* in, address at) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = nullptr;
    // Not every compiler writes a table of the units' addresses.
    while ((unit = dwfl_module_nextcu(in, unit, &bias)) != nullptr && dwarf_haspc(unit, at - bias) <= 0) {}
    std::vector<Dwarf_Die> scopes;
    if (unit != nullptr) find_scopes(*unit, at - bias, scopes);
    std::optional<address> base;
    char const* function = nullptr;
    for (Dwarf_Die& scope : scopes) {
        if (unsigned const tag = tag_of(scope); tag != DW_TAG_lexical_block) function = dwarf_diename(&scope);
        if (Dwarf_Op const* const op = location(scope, DW_AT_frame_base, at - bias)) {
            Dwarf_Word value = 0;
            if (op->atom == DW_OP_call_frame_cfa)
                base = canonical_frame(frame, in, at);
            else if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31 &&
                     dwfl_frame_reg(frame, op->atom - DW_OP_reg0, &value) == 0)
                base = value;
        }
        if (function == nullptr || !base) continue;
        for (Dwarf_Die& child : children(scope)) {
            unsigned const is = tag_of(child);
            if (is != DW_TAG_variable && is != DW_TAG_formal_parameter) continue;
            char const* const name = dwarf_diename(&child);
            Dwarf_Op const* const op = location(child, DW_AT_location, at - bias);
            auto type = type_of(child);
            Dwarf_Word bytes = 0;
            if (name != nullptr && op != nullptr && op->atom == DW_OP_fbreg && type &&
                dwarf_aggregate_size(&*type, &bytes) == 0)
                found.push_back({{std::string(function) + "(): " + name, *base + op->number, bytes}, child});
        }
    }
}

constexpr Dwfl_Thread_Callbacks k_callbacks{
    .next_thread = [](Dwfl*, void*, void**) -> pid_t { return 0; },
    .get_thread =
        [](Dwfl*, pid_t, void* all, void** of) {
            *of = all;
            return true;
        },
    .memory_read =
        [](Dwfl*, Dwarf_Addr at, Dwarf_Word* to, void* all) {
            auto const word = (*static_cast<unwinding**>(all))->from.get<address>(at);
            *to = word.value_or(0);
            return word.has_value();
        },
    .set_initial_registers =
        [](Dwfl_Thread* to, void* all) {
            auto const& known = (*static_cast<unwinding**>(all))->of.registers;
            Dwarf_Word words[std::size(k_registers)];
            if (known.size() <= k_counter) return false;
            std::ranges::transform(k_registers, words, [&](std::size_t i) { return known[i]; });
            dwfl_thread_state_register_pc(to, known[k_counter]);
            return dwfl_thread_state_registers(to, 0, std::size(words), words);
        },
    .detach = nullptr,
    .thread_detach = nullptr};

}  // namespace

std::vector<local> find_locals(symbols const& names, image const& from, thread const& of) {
    // libdwfl keeps one pointer for good, so that leads to what is unwound now.
    static unwinding* now = nullptr;
    unwinding all{from, of, names.dwfl(), {}};
    now = &all;
    dwfl_attach_state(all.dwfl, nullptr, 1, &k_callbacks, &now);  // fails the second time: it is attached
    dwfl_getthread_frames(
        all.dwfl, of.id,
        [](Dwfl_Frame* frame, void* to) -> int {
            auto& all = *static_cast<unwinding*>(to);
            Dwarf_Addr at = 0;
            bool is_activation = false;
            if (++all.frames > k_most_frames || !dwfl_frame_pc(frame, &at, &is_activation))
                return DWARF_CB_ABORT;
            if (!is_activation) --at;  // the call, behind which it returns
            if (Dwfl_Module* const in = dwfl_addrmodule(all.dwfl, at)) all.add_variables(frame, in, at);
            return DWARF_CB_OK;
        },
        &all);
    return std::move(all.found);
}

}  // namespace poolheap
