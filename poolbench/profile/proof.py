# SPDX-License-Identifier: BSL-1.0
"""How far predictions are off, and what recording costs: `python -m poolbench.profile.proof RESULTS.json [RUNS]`.

Each program of bench/profile/proof exists in two forms, with std::make_shared and with pooled::make_shared. The
processor time of both, of the first on every installed malloc, and of the first while it is recorded is measured in
interleaved runs; before and after them the first form is profiled. What was predicted, what was measured, the
differences and the overhead are written to the file, with the machine, and printed as the tables of
docs/profile.md."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from poolbench.profile import launch
from poolbench.results import record
from poolbench.system import build, commit, hardware, mallocs, native

PROGRAMS = {"document_tree": "Node", "capture_pipeline": "Packet"}  # program -> its objects' type
RUNS = 9
PLAIN, POOLED, RECORDED = "as it is", "pooled::make_shared", "recorded"
MOST_BYTES = 512 << 20


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _program(name: str, pooled: bool) -> Path:
    source = build.ROOT / "bench/profile/proof" / f"{name}.cpp"
    command = [native.compiler(), "-std=c++20", "-O2", "-g", f"-I{build.ROOT / 'include'}", str(source), "-pthread"]
    sources = [source, *native.sources_below(source.parent, build.ROOT / "include/pooled")]
    return native.compiled(name + ("-pooled" if pooled else "-plain"), command + ["-DPOOLED"] * pooled, sources, _say)


def _processor_seconds(program: Path, preload: str = "") -> float:
    environment = {**os.environ, **({"LD_PRELOAD": preload} if preload else {})}
    process = subprocess.Popen([program], env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{program} ended with status {process.returncode}")
    return used.ru_utime + used.ru_stime


def _recorded_seconds(program: Path, recorder: Path) -> float:
    before = os.times()
    with launch.directory() as traces:
        launch.run([str(program)], recorder, traces, MOST_BYTES, subprocess.DEVNULL)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _measured(ways: dict[str, list], runs: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, (measure, *words) in ways.items():
            found[name].append(round(measure(*words), 4))
    return found


def _predicted(program: Path, type_name: str) -> dict[str, dict]:
    """way -> the share of the processor time that it saves, with its interval."""
    command = [sys.executable, "-m", "poolbench", "--quiet", "profile", "--json", "--", str(program)]
    done = subprocess.run(command, cwd=build.ROOT, stdout=subprocess.PIPE, check=True, text=True)
    told = json.loads(done.stdout)
    savings = dict(told["mallocs"])
    for kind in told["types"]:
        if kind["saving"] and kind["type"].endswith(type_name):
            savings[POOLED] = kind["saving"]
    return {name: {key: round(each[key], 4) for key in ("share_of_cpu_time", "low", "high")}
            for name, each in savings.items() if each}  # fmt: skip


def _proof(name: str, runs: int) -> dict:
    plain, pooled = _program(name, False), _program(name, True)
    recorder = native.recorder(_say)
    ways = {PLAIN: [_processor_seconds, plain], POOLED: [_processor_seconds, pooled]}
    ways |= {each.name: [_processor_seconds, plain, each.path] for each in mallocs.find()[0] if each.path}
    ways[RECORDED] = [_recorded_seconds, plain, recorder]
    _say(f"{name}: predicting, measuring {len(ways)} ways {runs} times, predicting again")
    predictions = [_predicted(plain, PROGRAMS[name])]
    seconds = _measured(ways, runs)
    predictions.append(_predicted(plain, PROGRAMS[name]))
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    saved = {way: round(1 - medians[way] / medians[PLAIN], 4) for way in ways if way not in (PLAIN, RECORDED)}
    return {
        "overhead": round(medians[RECORDED] / medians[PLAIN] - 1, 4),
        "overhead_of_least": round(min(seconds[RECORDED]) / min(seconds[PLAIN]) - 1, 4),
        "saved": saved,
        "predicted": predictions,
        "error": [
            {way: round(each[way]["share_of_cpu_time"] - saved[way], 4) for way in saved if way in each}
            for each in predictions
        ],
        "processor_seconds": seconds,
    }


def tables(result: dict) -> str:
    """The file in Markdown, as docs/profile.md has it."""
    lines = ["| program | overhead, processor time | of the least times |", "|---|---|---|"]
    for name, found in result["programs"].items():
        lines.append(f"| `{name}` | {found['overhead']:+.0%} | {found['overhead_of_least']:+.0%} |")
    lines += ["", "| program | change | predicted before | predicted after | measured | errors, points |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, found in result["programs"].items():
        for way, saved in found["saved"].items():
            told = [each[way] for each in found["predicted"]]
            words = [f"{p['share_of_cpu_time']:.0%} ({p['low']:.0%}–{p['high']:.0%})" for p in told]
            errors = [f"{100 * each[way]:+.0f}" if _holds(p, saved) else f"**{100 * each[way]:+.0f}**"
                      for each, p in zip(found["error"], told, strict=True)]  # fmt: skip
            change = f"`{PROGRAMS[name]}` → `{way}`" if way == POOLED else f"preload {way}"
            lines.append(f"| `{name}` | {change} | {' | '.join(words)} | {saved:.0%} | {', '.join(errors)} |")
    pairs = [
        (each[way], saved)
        for found in result["programs"].values()
        for each in found["predicted"]
        for way, saved in found["saved"].items()
    ]
    held = sum(_holds(*pair) for pair in pairs)
    return "\n".join(
        [*lines, "", f"Of {len(pairs)} intervals {held} hold the measured value; the others' errors are bold."]
    )


def _holds(predicted: dict, saved: float) -> bool:
    return predicted["low"] <= saved <= predicted["high"]


def main(path: Path, runs: int = RUNS) -> None:
    busy = hardware.busy_share()
    with tempfile.TemporaryFile(dir=path.parent):  # said before half an hour is spent
        pass
    result = {
        "time": record.now(),
        "commit": commit.of_sources(),
        "machine": hardware.describe(),
        "busy_share": round(busy, 3),
        "runs": runs,
        "programs": {name: _proof(name, runs) for name in PROGRAMS},
    }
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(tables(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:3]))
