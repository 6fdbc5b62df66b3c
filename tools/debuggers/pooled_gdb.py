# SPDX-License-Identifier: BSL-1.0
"""gdb's view of pooled: pools, object pools, rc_ptr and its relatives, pool_allocator.

In gdb, or in ~/.gdbinit:  source <prefix>/share/pooled/pooled_gdb.py

A printer reads the program's memory and calls no function in it, so it also works for core files; so do *p and p->m of
a counted pointer. A unique_ptr is the standard library's, whose own printer shows it. docs/debugging.md has examples.
"""

from functools import partial

import gdb
import gdb.printing
import gdb.xmethod

# The layouts of rc_ptr.hpp and smart/counted_object.hpp.
ADDRESS_BITS = 48
STRONG_BITS = 26  # one less than the owners
WEAK_BITS = 24
TYPE_BITS = 14
NO_WEAK = 0x15554
UNBOUNDED = (1 << 64) - 1
INSIDE = r"^pooled::(?:v\w+::)?"


def member(value, name):
    """A data member, wherever in the base classes it is."""
    found = value[name]
    return found.referenced_value() if found.type.code == gdb.TYPE_CODE_REF else found


def number(atomic):
    """What an atomic holds: the library's own, or that of libstdc++ or libc++; a plain number as it is."""
    if atomic.type.strip_typedefs().code == gdb.TYPE_CODE_INT:
        return int(atomic)
    for path in (("m_value",), ("_M_i",), ("__a_", "__a_value")):
        try:
            inner = atomic
            for name in path:
                inner = inner[name]
            return int(inner)
        except gdb.error:
            continue
    raise gdb.error("an atomic has an unknown layout")


def pool_of(core):
    """Name, bytes from upstream and their bound; the bound is empty when there is none."""
    array = core["m_name"]
    name = array[array.type.strip_typedefs().fields()[0]].string()  # the only member of a std::array
    upstream = core["m_memory"]["m_upstream"]
    bound = int(upstream["m_max"])
    return name, number(upstream["m_used"]), "" if bound == UNBOUNDED else f" of at most {bound}"


def described(value):
    name, used, bound = pool_of(member(value, "m_core").dereference())
    return f'{value.type.name.rpartition("::")[2]} "{name}", {used} bytes{bound} from upstream'


def allocator(value):
    return f'pool_allocator of pool "{pool_of(value["m_core"].dereference())[0]}"'


def object_pool(value):
    recycler = member(value, "m_recycler").dereference()
    bound = int(recycler["m_limits"]["bound"])
    most = "" if bound == UNBOUNDED else f" of at most {bound}"
    name = pool_of(member(recycler, "m_core"))[0]
    return f'object_pool "{name}", {number(recycler["m_objects"]["m_value"])} objects{most}'


class Printer:
    """Shows what a function says of the value."""

    def __init__(self, text, value):
        self._text = text
        self._value = value

    def to_string(self):
        try:
            return self._text(self._value)
        except gdb.error as error:  # a program has no description of the pool's core
            kind = self._value.type.strip_typedefs().name.partition("<")[0].rpartition("::")[2]
            return f"{kind} (not shown: {error} Build libpooled with -g.)"


class CountedPrinter:
    """Counts, and the object as a child; a weak pointer whose object is gone shows no child."""

    def __init__(self, value):
        self._name = value.type.strip_typedefs().name.partition("<")[0].rpartition("::")[2]
        self._element = value.type.strip_typedefs().template_argument(0)
        bits = int(value["m_handle"]["m_bits"])
        self._address = bits & ((1 << ADDRESS_BITS) - 1)
        self._strong = self._weak = 0
        if self._address:
            header = self._address - (bits >> ADDRESS_BITS) - 8
            word = int(gdb.Value(header).cast(gdb.lookup_type("unsigned long").pointer()).dereference())
            self._strong = ((word >> (TYPE_BITS + WEAK_BITS)) + 1) & ((1 << STRONG_BITS) - 1)
            # All owners together hold one.
            weak = (word >> TYPE_BITS & ((1 << WEAK_BITS) - 1)) - NO_WEAK
            self._weak = weak - (1 if self._strong else 0)

    def to_string(self):
        if not self._address:
            return f"{self._name} (empty)"
        state = f"use count {self._strong}, weak count {self._weak}" if self._strong else "expired"
        return f"{self._name} ({state})"

    def children(self):
        if not self._address or not self._strong:
            return
        element = self._element.strip_typedefs()
        if element.code != gdb.TYPE_CODE_ARRAY:
            yield "get()", gdb.Value(self._address).cast(element.pointer()).dereference()
            return
        # The number of elements, those of inner arrays included, lies in front of the counts.
        count = int(gdb.Value(self._address - 16).cast(gdb.lookup_type("unsigned long").pointer()).dereference())
        while element.code == gdb.TYPE_CODE_ARRAY:
            element = element.target().strip_typedefs()
        if count:
            yield "get()", gdb.Value(self._address).cast(element.array(count - 1).pointer()).dereference()


def object_of(this):
    """What a counted pointer points to; its operator-> for gdb."""
    pointer = this.dereference()
    address = int(pointer["m_handle"]["m_bits"]) & ((1 << ADDRESS_BITS) - 1)
    return gdb.Value(address).cast(pointer.type.template_argument(0).pointer())


printers = gdb.printing.RegexpCollectionPrettyPrinter("pooled")
printers.add_printer("pool", INSIDE + r"(?:local_)?pool$", partial(Printer, described))
printers.add_printer("pool_allocator", INSIDE + r"pool_allocator<.*>$", partial(Printer, allocator))
printers.add_printer("object_pool", INSIDE + r"(?:local_)?object_pool<.*>$", partial(Printer, object_pool))
printers.add_printer("rc_ptr", INSIDE + r"(?:weak_)?(?:local_)?rc_ptr<.*>$", CountedPrinter)
gdb.printing.register_pretty_printer(None, printers, replace=True)
COUNTED = INSIDE + r"(?:local_)?rc_ptr<.*>$"
for name, function in ((r"operator\*", lambda this: object_of(this).dereference()), ("operator->", object_of)):
    matcher = gdb.xmethod.SimpleXMethodMatcher(f"pooled.{name}", COUNTED, f"^{name}$", function)
    gdb.xmethod.register_xmethod_matcher(None, matcher, replace=True)
