# SPDX-License-Identifier: BSL-1.0
"""What an allocation is for: which type, created how, and where in the user's code."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poolprofile.symbols import UNKNOWN, Frame

SEPARATE = "shared_ptr(new T): control block"  # of an object that was allocated by itself
# Control blocks, by the standard library's names: the type that is behind them, and what created it. Where the object
# is not in its control block, the object itself is an allocation of its own.
CONTROL_BLOCKS = (
    (r"std::_Sp_counted_ptr_inplace<", "std::make_shared"),
    (r"std::_Sp_counted_deleter<", "std::shared_ptr(p, deleter): control block"),
    (r"std::_Sp_counted_ptr<", f"std::{SEPARATE}"),
    (r"std::(?:__\w+::)?__shared_ptr_emplace<", "std::make_shared"),
    (r"std::(?:__\w+::)?__shared_ptr_pointer<", f"std::{SEPARATE}"),
    (r"boost::detail::sp_counted_impl_pda?<(?=.*sp_ms_deleter)", "boost::make_shared"),
    (r"boost::detail::sp_counted_impl_pda?<", "boost::shared_ptr(p, deleter): control block"),
    (r"boost::detail::sp_counted_impl_p<", f"boost::{SEPARATE}"),
)
# Debug information names an inlined function without its namespace: then the file says whose it is.
CREATOR = re.compile(
    r"(?:\b(?P<owner>std|boost)::(?:__\w+::)?|^)(?P<how>make_shared|allocate_shared|make_unique)(?:_for_overwrite)?<"
)
ALLOCATED = re.compile(r"(?:__new_allocator|\bnew_allocator|\ballocator|__allocate_guarded|allocator_traits)<")
# By the header that asks for the memory, innermost of those that say more than "an allocator".
CONTAINERS = {
    r"basic_string\.(?:h|tcc)$|/string$": "std::string",
    r"stl_vector\.h$|vector\.tcc$|/vector$": "std::vector",
    r"stl_deque\.h$|deque\.tcc$|/deque$": "std::deque",
    r"stl_list\.h$|list\.tcc$|/list$": "std::list",
    r"stl_tree\.h$|/__tree$": "std::map or std::set",
    r"hashtable(?:_policy)?\.h$|/__hash_table$": "std::unordered_map or std::unordered_set",
    r"std_function\.h$": "std::function",
    r"sstream": "std::stringstream",
}
# Whose first argument is the type of its elements. Not from the function that only allocates: of those with the same
# code compilers and linkers keep one, under the name of any.
SEQUENCE = re.compile(
    r"(?:void )?std::(?:__\w+::)?(?:vector|_Vector_base|deque|_Deque_base|list|_List_base)<(?!.*::_M_allocate\()"
)
# What a container allocates for one element, around the element's type.
NODES = re.compile(
    r"^std::(?:__\w+::|__detail::)?(?:_Rb_tree_node|_List_node|_Hash_node|__tree_node|__hash_node|__list_node)<"
)
# Where Boost.Asio takes the memory of an operation whose handler has no allocator of its own.
ASIO = re.compile(r"asio::detail::thread_info_base::allocate\b|\basio_handler_allocate\b")
# Frames that are no call site: the standard library's, and functions that only forward.
LIBRARY = re.compile(r"std::|__gnu_cxx::|boost::|operator new|operator delete|__libc_|malloc$|calloc$|realloc$|_Zn")
LIBRARY_FILES = re.compile(r"/include/(?:c\+\+|boost)/|/libstdc\+\+-v3/|/bits/|/ext/")

# What to write instead, by how it was created, whoever's function did.
ADVICE = {
    "make_shared": "pooled::make_shared",
    SEPARATE: "pooled::make_shared, which needs none",
    "make_unique": "pooled::make_unique",
    "new": "pooled::make_unique or pooled::make_shared",
    "container": "pooled::allocator",
    "allocator": "pooled::allocator",
    "asio": "boost::asio::bind_allocator(pooled::allocator<>(), handler)",
}
LONGEST, LONG = 120, 80  # characters of a type, of a container's element: above, inner template arguments are left out


@dataclass(frozen=True)
class Purpose:
    type: str
    how: str  # "std::make_shared", "new", "container", "allocator", "malloc or new"
    where: str  # of the user's code

    @property
    def advice(self) -> str:
        """What to write instead; empty: nothing that pools by an object."""
        return ADVICE.get(re.sub("^(?:std|boost)::", "", self.how), "")


def _depths(text: str, brackets: str, begin: int = 0) -> Iterator[tuple[int, str, int]]:
    """Each letter with its place and the number of brackets around it; those of "->" are none."""
    depth = 0
    for at in range(begin, len(text)):
        depth -= text[at] in brackets[1::2] and text[at - 1 : at + 1] != "->"
        yield at, text[at], depth
        depth += text[at] in brackets[::2]


def first_argument(text: str, begin: int) -> str:
    """Of a template: what stands behind "<" at `begin`, until its comma or end."""
    for at, letter, depth in _depths(text, "<>(){}[]", begin):
        if depth < 0 or (depth == 0 and letter == ","):
            return text[begin:at].strip()
    return text[begin:].strip()


def tidy(name: str) -> str:
    """Without what a reader leaves out: inline namespaces, qualifiers, defaults of the standard's templates."""
    name = re.sub(r"\bstd::__(?:cxx11|1|8)::", "std::", name)
    name = name.replace("std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string")
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    name = re.sub(r"\s+>", ">", name).removesuffix(" const").removesuffix("*").strip()
    name = outline(name, LONGEST)
    return name if len(name) <= LONGEST else name[: LONGEST - 3] + "..."


def outline(name: str, length: int) -> str:
    """A long name without its inner template arguments: `std::pair<const int, my::tree<...>>`."""
    for most in (3, 2, 1, 0):
        if len(name) <= length:
            break
        kept = ""
        for _, letter, depth in _depths(name, "<>"):
            if depth <= most:
                kept += letter + "..." * (letter == "<" and depth == most)
        name = kept
    return name


def _of_container(container: str, element: str) -> str:
    if container == "std::string" or not element:
        return container
    if found := NODES.match(element):
        element = first_argument(element, found.end())
    pointer = "*" if element.endswith("*") else ""
    return f"{container} of {outline(tidy(element), LONG)}{pointer}"


def _of_control_block(name: str) -> tuple[str, str] | None:
    """(type, how) of what is behind a control block of that type."""
    how = next((how for pattern, how in CONTROL_BLOCKS if re.match(pattern, name)), None)
    return how and (tidy(first_argument(name, name.index("<") + 1)), how)


def of_type_info(name: str) -> tuple[str, str]:
    """(type, how) of the demangled type of an object with a virtual table."""
    return _of_control_block(name) or (tidy(name), "new")


def _of_function(frame: Frame) -> tuple[str, str] | None:
    found = CREATOR.search(frame.function)
    if not found:
        return None
    owner = found["owner"] or ("boost" if "/boost/" in frame.file else "std" if _of_library(frame) else "")
    how = "make_shared" if found["how"] == "allocate_shared" else found["how"]
    return (tidy(first_argument(frame.function, found.end())), f"{owner}::{how}") if owner else None


def _container(frame: Frame) -> str:
    if frame.line:
        return next((name for pattern, name in CONTAINERS.items() if re.search(pattern, frame.file)), "")
    found = re.match(
        r"(?:\S+ )?std::(?:__\w+::)?(?:_List_base|list|vector|deque|basic_string|_Rb_tree|_Hashtable|map|set)\b",
        frame.function,
    )
    return "" if not found else "std::string" if "basic_string" in found[0] else "std::" + found[0].rsplit("::", 1)[1]


def of_frames(frames: Sequence[Frame]) -> tuple[str, str]:
    """(type, how) from the calls around an allocation, innermost first: up to the user's own function."""
    container = element = asked = ""  # `asked`: the type whose allocator was asked
    for frame in frames:
        if found := _of_function(frame):
            # What a constructor allocates is no object of the call that constructs.
            return (_of_container(container, element or asked), "container") if container else found
        if ASIO.search(frame.function):
            return "Asio operation", "boost::asio"
        if found := ALLOCATED.search(frame.function):
            inner = first_argument(frame.function, found.end())
            inner = first_argument(inner, inner.index("<") + 1) if inner.startswith("std::allocator<") else inner
            if block := _of_control_block(inner):
                return block
            asked = asked or inner
        if not element and (found := SEQUENCE.match(frame.function)):
            element = first_argument(frame.function, found.end())
        container = container or _container(frame)
        if is_users(frame):
            break
    if container:
        return _of_container(container, element or asked), "container"
    return (outline(tidy(asked), LONG), "allocator") if asked else (UNKNOWN, "")


def _of_library(frame: Frame) -> bool:
    return bool(LIBRARY_FILES.search(frame.file))


def is_users(frame: Frame) -> bool:
    if frame.function == UNKNOWN:
        return False
    return not _of_library(frame) and not LIBRARY.match(_name_alone(tidy(frame.function)))


def _name_alone(function: str) -> str:
    """Without parameters, and without the result that a template's name begins with."""
    begin = 0
    for at, letter, depth in _depths(function, "<>[]"):
        if depth == 0 and letter == " " and not function.endswith("operator", 0, at):
            begin = at + 1
        if depth == 0 and letter == "(" and at > begin:
            return function[begin:at]
    return function[begin:]


def site(frames: Sequence[Frame]) -> str:
    """The user's line; without debug information the function, else the module."""
    for frame in frames:
        if is_users(frame):
            return frame.where if frame.line else _name_alone(tidy(frame.function)) + "()"
    known = [frame for frame in frames if "libstdc++" not in frame.module and "libc++" not in frame.module]
    return (known or list(frames))[0].where if frames else UNKNOWN


def purpose(frames: Sequence[Frame], type_info: str) -> Purpose:
    """`type_info`: the demangled type that the object's virtual table named, or ""."""
    type_name, how = of_frames(frames)
    if type_info:
        named, created = of_type_info(type_info)
        # The calls around it say how an object with virtual functions was created, the table which it is.
        type_name, how = (named, created if created != "new" or not how or how == "container" else how)
    return Purpose(type_name, how or "malloc or new", site(frames))
