# SPDX-License-Identifier: BSL-1.0
"""Runs in gdb, at stop() in main.cpp: each expression of the natvis file is evaluated for a variable of its type.

gdb does not read natvis, but the expressions are C++. So a member that was renamed is noticed."""

import os
import re
from xml.etree import ElementTree

import gdb

VARIABLES = {"pooled::*::rc_ptr<*>": "answer", "pooled::*::pool": "packets", "pooled::*::object_pool<*,*>": "numbers"}
NAMESPACE = "{http://schemas.microsoft.com/vstudio/debugger/natvis/2010}"
MEMBER = re.compile(r"(?<![\w.>])(m_\w+)")


def expressions(entry):
    for node in entry.iter():
        if "Condition" in node.attrib:
            yield node.attrib["Condition"]
        if node.tag == NAMESPACE + "DisplayString":
            yield from re.findall(r"\{([^{}]*)\}", node.text)
        elif node.tag == NAMESPACE + "Item":
            yield node.text


count = 0
for entry in ElementTree.parse(os.environ["NATVIS"]).getroot():
    variable = VARIABLES.pop(entry.attrib["Name"])
    for expression in expressions(entry):
        # ,s says that the value is text; $T1 is the first template argument.
        words = MEMBER.sub(rf"{variable}.\1", expression.removesuffix(",s")).replace("$T1", "int")
        gdb.parse_and_eval(words).fetch_lazy()
        count += 1
print(f"natvis: {count} expressions, types left: {sorted(VARIABLES)}")
