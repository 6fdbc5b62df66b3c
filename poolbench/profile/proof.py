# SPDX-License-Identifier: BSL-1.0
"""The errors of the predictions, and the overhead of recording:

    python -m poolbench.profile.proof RESULTS.json [RUNS [PROGRAM...]]

Each program, those of bench/profile/proof and two examples, has two forms: its objects on malloc, and in pools. The
processor time of both, of the first on every installed malloc, and of the first while it is recorded is measured in
interleaved runs; before and after them the first form is profiled. What was predicted, what was measured, the
differences and the overhead are written to the file, with the machine, and printed as the tables of
docs/profile.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poolbench.analysis import stats
from poolbench.profile import launch
from poolbench.results import record
from poolbench.system import build, commit, hardware, mallocs, native

PLAIN, POOLED, RECORDED = "as it is", "pooled", "recorded"
RUNS = 9
MOST_BYTES = 512 << 20


@dataclass(frozen=True)
class Program:
    """A program with two forms, objects by malloc or from pools, chosen by a macro or by an argument."""

    change: str
    only: str  # what the change pools, as `profile --only` has it
    source: str  # below the checkout
    words: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()  # further arguments of each form; none: the macro POOLED
    pooled: tuple[str, ...] = ()


PROOF = "bench/profile/proof"
PROGRAMS = {
    "document_tree": Program("`Node` → `pooled::make_shared`", "^Node at", f"{PROOF}/document_tree.cpp", ("500",)),
    "capture_pipeline": Program(
        "`Packet` → `pooled::make_shared`", "^Packet at", f"{PROOF}/capture_pipeline.cpp", ("3000000",)
    ),
    "json_documents": Program(
        "objects, arrays, strings and documents → `pool_allocator`",
        r"^(std::(map|string|vector<).* at json(_sax)?\.hpp|std::vector of nlohmann\S*> at json_sax|nlohmann)",
        "examples/json_documents.cpp", ("--mib", "20"), ("--malloc",), ("--pool",),
    ),
    "asio_server": Program(
        "messages, operations and queues → `make_rc`, `bind_allocator`", "^(message|Asio operation|std::deque)",
        "examples/asio_server.cpp", ("--messages", "40000"), ("--malloc",), ("--pool",),
    ),
}  # fmt: skip


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _command(name: str, is_pooled: bool) -> list[str]:
    program = PROGRAMS[name]
    source = build.ROOT / program.source
    # E14's directory first: malloc is not to be counted here.
    places = [f"-I{build.ROOT / each}" for each in ("bench/e14_programs/include", "include")]
    compile_it = [native.compiler(), "-std=c++20", "-O2", "-g", *places, str(source), "-pthread"]
    sources = [*native.sources_below(source, source.parent, build.ROOT / "include/pooled")]
    by_macro = not program.pooled
    form = ("-pooled" if is_pooled else "-plain") if by_macro else ""
    path = native.compiled(name + form, compile_it + ["-DPOOLED"] * (by_macro and is_pooled), sources, _say)
    return [str(path), *program.words, *(program.pooled if is_pooled else program.plain)]


def _processor_seconds(command: list[str], preload: str = "") -> float:
    environment = {**os.environ, **({"LD_PRELOAD": preload} if preload else {})}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with status {process.returncode}")
    return used.ru_utime + used.ru_stime


def _recorded_seconds(command: list[str], recorder: Path) -> float:
    before = os.times()
    with launch.directory() as traces:
        launch.run(command, recorder, traces, MOST_BYTES, subprocess.DEVNULL)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _measured(ways: dict[str, list], runs: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, (measure, *words) in ways.items():
            found[name].append(round(measure(*words), 4))
    return found


def _predicted(name: str) -> dict[str, dict]:
    """From the way to the share of the processor time that it saves, with its interval."""
    command = [sys.executable, "-m", "poolbench", "--quiet", "profile", "--json", "--top", "20"]
    command += ["--only", PROGRAMS[name].only, "--", *_command(name, False)]
    done = subprocess.run(command, cwd=build.ROOT, stdout=subprocess.PIPE, check=True, text=True)
    told = json.loads(done.stdout)
    savings = {POOLED: told["all_pooled"], **told["mallocs"]}
    return {way: {key: round(each[key], 4) for key in ("share_of_cpu_time", "low", "high")}
            for way, each in savings.items() if each}  # fmt: skip


def _saved(shares: list[float]) -> dict[str, float]:
    low, high = stats.median_interval(shares)
    return {"median": round(1 - stats.median(shares), 4), "low": round(1 - high, 4), "high": round(1 - low, 4)}


def prove(name: str, runs: int) -> dict:
    """What the results file has of one program."""
    plain, pooled = _command(name, False), _command(name, True)
    recorder = native.recorder(_say)
    ways = {PLAIN: [_processor_seconds, plain], POOLED: [_processor_seconds, pooled]}
    ways |= {each.name: [_processor_seconds, plain, each.path] for each in mallocs.find()[0] if each.path}
    ways[RECORDED] = [_recorded_seconds, plain, recorder]
    _say(f"{name}: predicting, measuring {len(ways)} ways {runs} times, predicting again")
    predictions = [_predicted(name)]
    seconds = _measured(ways, runs)
    predictions.append(_predicted(name))
    # The quotient is taken within each round, because other load changes between rounds.
    shares = {
        way: [of / plain for of, plain in zip(times, seconds[PLAIN], strict=True)] for way, times in seconds.items()
    }
    saved = {way: _saved(shares[way]) for way in ways if way not in (PLAIN, RECORDED)}
    return {
        "overhead": round(stats.median(shares[RECORDED]) - 1, 4),
        "overhead_of_least": round(min(seconds[RECORDED]) / min(seconds[PLAIN]) - 1, 4),
        "saved": saved,
        "predicted": predictions,
        "error": [
            {way: round(each[way]["share_of_cpu_time"] - saved[way]["median"], 4) for way in saved if way in each}
            for each in predictions
        ],
        "processor_seconds": seconds,
    }


def tables(result: dict) -> str:
    """The Markdown tables of docs/profile.md."""
    lines = ["| program | overhead, processor time | of the least times |", "|---|---|---|"]
    for name, found in result["programs"].items():
        lines.append(f"| `{name}` | {found['overhead']:+.0%} | {found['overhead_of_least']:+.0%} |")
    lines += ["", "| program | change | predicted before | predicted after | measured | errors, points |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, found in result["programs"].items():
        for way, saved in found["saved"].items():
            told = [each[way] for each in found["predicted"]]
            words = [_percent(p["share_of_cpu_time"], p) for p in told]
            errors = [f"{100 * each[way]:+.0f}" if _agree(p, saved) else f"**{100 * each[way]:+.0f}**"
                      for each, p in zip(found["error"], told, strict=True)]  # fmt: skip
            change = PROGRAMS[name].change if way == POOLED else f"preload {way}"
            measured = _percent(saved["median"], saved)
            lines.append(f"| `{name}` | {change} | {' | '.join(words)} | {measured} | {', '.join(errors)} |")
    pairs = [
        (each[way], saved)
        for found in result["programs"].values()
        for each in found["predicted"]
        for way, saved in found["saved"].items()
    ]
    agree, holds = (sum(does(*pair) for pair in pairs) for does in (_agree, _holds))
    summary = (
        f"Of {len(pairs)} predictions {agree} agree with what was measured: their intervals overlap. "
        f"The others' errors are bold.\nAs lower bounds, {holds} hold: the measured interval does not end below them."
    )
    return "\n".join([*lines, "", summary])


def examples_of(result: dict) -> dict:
    """The part of a file of tools/prove_profile.py that `tables` shows."""
    found = {name.removeprefix("example "): part for name, part in result["parts"].items()}
    return {"programs": {name: part for name, part in found.items() if name in PROGRAMS}}


def written_into(text: str, result: dict) -> str:
    """The page with the tables, and the sentence below them, of this file in place of those that it has."""
    for table in tables(result).split("\n\n"):
        begin = re.escape(table.splitlines()[0]) if table.startswith("|") else r"Of \d+ predictions "
        text, count = re.subn(
            rf"^{begin}.*?(?=\n\n)", lambda _, table=table: table, text, flags=re.MULTILINE | re.DOTALL
        )
        if count != 1:
            raise ValueError(f"the page has {count} places for: {table.splitlines()[0]}")
    return text


def _percent(middle: float, ends: dict) -> str:
    return f"{middle:.0%} ({ends['low']:.0%}–{ends['high']:.0%})"


def _holds(predicted: dict, measured: dict) -> bool:
    """As a lower bound: a prediction is of malloc and free alone."""
    return predicted["low"] <= measured["high"]


def _agree(predicted: dict, measured: dict) -> bool:
    return predicted["low"] <= measured["high"] and measured["low"] <= predicted["high"]


def main(path: Path, runs: int = RUNS, names: Sequence[str] = ()) -> None:
    """`names`: only these are measured; the file keeps what it has of the others."""
    if unknown := set(names) - PROGRAMS.keys():
        raise SystemExit(f"no program {', '.join(unknown)}; there are: {', '.join(PROGRAMS)}")
    result = json.loads(path.read_text()) if names and path.exists() else {"programs": {}}
    with tempfile.TemporaryFile(dir=path.parent):  # an error now, not after half an hour
        pass
    result |= {"commit": commit.of_sources(), "machine": hardware.describe()}
    for name in names or PROGRAMS:
        session = {"time": record.now(), "busy_share": round(hardware.busy_share(), 3), "runs": runs}
        result["programs"][name] = session | prove(name, runs)
        path.write_text(json.dumps(result, indent=1) + "\n")  # each as it comes: none is lost with a later one
    print(tables(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:3]), names=sys.argv[3:])
