# SPDX-License-Identifier: BSL-1.0
"""The module exports the public names of the API reference alone; its page shows the CMake of the tested consumer."""

import re

import reference

ROOT = reference.ROOT


def test_the_module_exports_each_public_name():
    text = (ROOT / "modules/pooled.cppm").read_text(encoding="utf-8")
    exported = set(re.findall(r"^using pooled::(\w+);", text, re.MULTILINE))
    assert exported == reference.listed_names()


def test_its_page_shows_the_build_of_the_consumer_that_is_tested():
    page = (ROOT / "docs/modules.md").read_text(encoding="utf-8")
    shown = re.search(r"```cmake\n(.*?)```", page, re.DOTALL)[1]
    assert shown in (ROOT / "test/consumer/module/CMakeLists.txt").read_text(encoding="utf-8")
