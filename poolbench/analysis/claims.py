# SPDX-License-Identifier: BSL-1.0
"""The claims of claims.toml, judged on what was measured here."""

import enum
import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from poolbench.analysis import stats
from poolbench.analysis.estimate import Rows, fastest, matching
from poolbench.plan.description import ALL, MAIN_TOOLCHAIN, TIME, Where
from poolbench.system.mallocs import OURS as OURS_PRELOADED

FILE = Path(__file__).resolve().parent.parent / "claims.toml"
OURS_BY = "pooled"  # of a claim that is our own promise
USUAL = {"toolchain": MAIN_TOOLCHAIN, "optimisation": "-O3", "malloc": "glibc"}


class Verdict(enum.StrEnum):
    holds = "holds"
    fails = "does not hold"
    unknown = "undecided"
    missing = "not measured"


@dataclass(frozen=True)
class Test:
    what: str  # "new / make_shared"
    bounds: str  # "1.6 to 2"
    verdict: Verdict
    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""  # nothing is shown


@dataclass(frozen=True)
class Claim:
    by: str
    text: str
    workload: str
    variant: str
    verdict: Verdict
    tests: list[Test]


@cache
def load(path: Path = FILE) -> list[dict]:
    return tomllib.loads(path.read_text())["claims"]


def _label(where: Where, other: Where) -> str:
    """A side in words: its contender, and what sets it apart from the usual or from the other side."""
    parts = [_join(where.get("contender", "")), f"({where['payload']} B)" if "payload" in where else ""]
    for name in ("malloc", "toolchain", "optimisation"):
        value = where.get(name, USUAL[name])
        if value == "all":
            parts.append(f"on the fastest {name}")
        elif value != USUAL[name] or other.get(name, USUAL[name]) not in (value, "all"):
            parts.append(f"on {_join(value)}" if name == "malloc" else _join(value))
    return " ".join(part for part in parts if part)


def _join(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _number(value: float) -> str:
    return f"{value:,.4g}"


def _bounds(test: dict) -> str:
    low, high = test.get("at_least"), test.get("at_most")
    if low is not None and high is not None:
        return f"{_number(low)} to {_number(high)}"
    return f"at least {_number(low)}" if low is not None else f"at most {_number(high)}"


def _judge(test: dict, low: float, high: float) -> Verdict:
    least, most = test.get("at_least", -math.inf), test.get("at_most", math.inf)
    if least <= low and high <= most:
        return Verdict.holds
    if high < least or low > most:
        return Verdict.fails
    return Verdict.unknown


def _cell(estimated: Rows, sides: list[Where], common: Where, installed: Sequence[str]) -> dict | None:
    """The fastest of the cells that the sides name. None when one of them was not measured: without it "the fastest"
    would be another."""
    found = []
    for side in sides:
        lists = {name: value for name, value in side.items() if isinstance(value, list)}
        for values in product(*lists.values()):
            one = matching(estimated, {**common, **side, **dict(zip(lists, values, strict=True))})
            if not one:
                return None
            if {**common, **side}["malloc"] == ALL:
                if set(installed) - {row["malloc"] for row in one}:
                    return None
                one = [row for row in one if row["malloc"] != OURS_PRELOADED]  # it is no rival of ours
            found += one
    return fastest(found)


def _test(test: dict, estimated: Rows, common: Where, installed: Sequence[str]) -> Test:
    above, below = test["above"], test.get("below", [])
    below = below if isinstance(below, list) else [below]
    what, bounds = _label(above, below[0] if below else {}), _bounds(test)
    if below:
        what += " / " + " or ".join(_label(side, above) for side in below)

    def unknown(why: str, *figures: float) -> Test:
        return Test(what, bounds, Verdict.unknown, *figures, why=why)

    upper = _cell(estimated, [above], common, installed)
    lower = _cell(estimated, below, common, installed) if below else None
    if upper is None or (below and lower is None):
        return Test(what, bounds, Verdict.missing, why="not measured")
    if lower is not None:
        if lower["median"] <= 0:
            return unknown("nothing was measured below the line")
        value = upper["median"] / lower["median"]
        low, high = stats.ratio_interval([upper["values"]], lower["values"])
    else:
        value, low, high = upper["median"], upper["low"], upper["high"]
    if not math.isfinite(high):
        return unknown("one run shows no interval", value)
    verdict = _judge(test, low, high)
    if verdict is Verdict.unknown:
        return unknown("the interval lies across a bound: more samples decide", value, low, high)
    return Test(what, bounds, verdict, value, low, high)


def judge(estimated: Rows, claims: list[dict] | None = None, installed: Sequence[str] = ()) -> Iterator[Claim]:
    """`installed`: the mallocs there were, measured or not."""
    for claim in load() if claims is None else claims:
        here = matching(estimated, {"workload": claim["workload"], "measure": claim.get("measure", TIME)})
        for variant in claim.get("variants", [""]):
            common = {**USUAL, **({"variant": variant} if variant else {}), **claim.get("where", {})}
            tests = [_test(test, here, common, installed) for test in claim["tests"]]
            verdicts = {test.verdict for test in tests} or {Verdict.holds}
            order = (Verdict.fails, Verdict.unknown, Verdict.missing, Verdict.holds)
            worst = next(each for each in order if each in verdicts)
            yield Claim(claim["by"], claim["text"], claim["workload"], variant, worst, tests)


def counted(claims: list[Claim]) -> str:
    """For instance "8 hold, 1 does not hold, 20 are undecided and 1 was not measured"."""
    several = {Verdict.holds: "hold", Verdict.fails: "do not hold", Verdict.unknown: "are undecided"}
    several[Verdict.missing] = "were not measured"
    one = {Verdict.unknown: "is undecided", Verdict.missing: "was not measured"}  # of the others, their own words
    of = {verdict: sum(claim.verdict is verdict for claim in claims) for verdict in Verdict}
    said = [f"{count} {several[each] if count > 1 else one.get(each, each)}" for each, count in of.items() if count]
    return " and ".join(filter(None, [", ".join(said[:-1]), *said[-1:]]))
