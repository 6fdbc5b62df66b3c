# SPDX-License-Identifier: BSL-1.0
"""A compile-fail test must itself fail when its program compiles, or is refused for another reason."""

import shutil

import compile_fail
import pytest


def program(expect="static assertion", control="", mistake='static_assert(false, "no");'):
    condition = f"#ifdef MISTAKE_wrong\n{mistake}\n#endif"
    return f"// expect wrong: {expect}\nint main() {{\n{control}\n{condition}\n}}\n"


SECOND = "// expect second: {expect}\n#ifdef MISTAKE_second\nunknown x;\n#endif\n"


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (program(), 0, "wrong is refused as expected"),
        (program(mistake=""), 1, "compiles, but must be refused"),
        (program(expect="no such words"), 1, "does not match"),
        (program(control="undeclared();"), 1, "without a mistake"),
        ("int main() {}\n", 1, "expect NAME"),
        ("// expect other: error\n" + program(), 1, "MISTAKE_other"),
        (SECOND.format(expect="no such type") + program(), 1, "wrong is refused as expected"),
        (SECOND.format(expect="unknown") + program(), 0, "second is refused as expected"),
    ],
)
def test_each_mistake_must_be_refused_alone_and_with_its_own_message(text, status, said, tmp_path, capsys):
    source = tmp_path / "program.cpp"
    source.write_text(text, encoding="utf-8")
    assert compile_fail.check(source, ["g++", "-std=c++20"]) == status
    assert said in capsys.readouterr().out
