# SPDX-License-Identifier: BSL-1.0
"""What was found, in words: the first thing that a reader of the page sees."""

from dataclasses import dataclass

from poolbench.analysis.claims import OURS_BY, Claim, counted
from poolbench.analysis.compare import judge, main_samples
from poolbench.analysis.headlines import MARGIN, OURS, Lead, lead
from poolbench.analysis.headlines import Row as HeadlineRow
from poolbench.analysis.headlines import Verdict as LeadVerdict
from poolbench.analysis.rows import Group, Row
from poolbench.plan.description import MAIN_TOOLCHAIN, TIME, Description, is_ours
from poolbench.results.read import Results
from poolbench.system.mallocs import OURS as OURS_PRELOADED
from poolbench.tables import BUSY, number, times


@dataclass(frozen=True)
class Answer:
    """One of the three that the page begins with."""

    question: str
    figure: str  # the first thing read
    said: list[str]
    kind: str  # "ahead", "behind", "undecided": its colour


@dataclass(frozen=True)
class Loss:
    """A contender that is significantly faster than ours at the same work."""

    where: str
    contender: str
    theirs: float
    ours: float
    ratio: float
    low: float
    high: float


def _against(question: str, whom: str, found: list[tuple[HeadlineRow, Lead]]) -> Answer:
    if not found:
        why = f"No work was measured both with pooled and with {whom}: nothing to compare."
        return Answer(question, "not measured", [why], "undecided")
    verdicts = [lead.verdict for _, lead in found]
    counts = {verdict: verdicts.count(verdict) for verdict in LeadVerdict}
    counted_so = ", ".join(f"{verdict} in {count}" for verdict, count in counts.items() if count)
    least, most = (
        f"{times(lead)} as fast in “{row.headline.work}”"
        for row, lead in (choose(found, key=lambda pair: pair[1].ratio) for choose in (min, max))
    )
    ratios = [lead.ratio for _, lead in found]
    ends = f"From {number(min(ratios))}× to {number(max(ratios))}× as fast."
    said = f"Against {whom}, of {len(found)} works pooled is {counted_so}: from {least} to {most}."
    ahead = counts[LeadVerdict.ahead]
    kind = "ahead" if ahead * 2 > len(found) else "behind" if counts[LeadVerdict.behind] else "undecided"
    return Answer(question, f"ahead in {ahead} of {len(found)} works", [ends, said], kind)


def first(rows: list[HeadlineRow], busy: bool = False) -> list[Answer]:
    """Preload or edit? Nothing where our own library was not measured."""
    found = [row for row in rows if row.preload_over_best and row.edit_over_preload]
    if busy or not found:
        return []

    def count(leads: list[Lead], verdict: LeadVerdict) -> int:
        return sum(lead.verdict is verdict for lead in leads)

    preload, edit = [row.preload_over_best for row in found], [row.edit_over_preload for row in found]
    ahead, behind = (count(preload, verdict) for verdict in (LeadVerdict.ahead, LeadVerdict.behind))
    gains, costs = (count(edit, verdict) for verdict in (LeadVerdict.ahead, LeadVerdict.behind))
    most = max(found, key=lambda row: row.edit_over_preload.ratio)
    is_open = count(preload, LeadVerdict.undecided) * 2 > len(found)
    advice = "not decided" if is_open else f"preload {OURS_PRELOADED}" if ahead >= behind else "preload the best malloc"
    if gains * 2 > len(found):
        advice = "edit what is hot" + ("" if is_open else f", and {advice} for the rest")
    said = (
        f"With no edit, std::make_shared on {OURS_PRELOADED} is ahead of the best other malloc in {ahead} "
        f"of {len(found)} works and behind in {behind}; the edit to pooled::make_shared is ahead of that in {gains} "
        f"and behind in {costs}, at most {times(most.edit_over_preload)} as fast, in “{most.headline.work}”."
    )
    return [Answer("Preload or edit?", advice, [said], "ahead" if ahead >= behind and not is_open else "undecided")]


def answers(rows: list[HeadlineRow], lost: list[Loss], busy: bool = False) -> list[Answer]:
    """What a reader wants to know first: the gain over glibc, over the best malloc, and where there is none."""
    if busy:
        return [Answer("What pooling gains here", "not decided", [BUSY], "undecided")]
    over_glibc = [(row, row.over_glibc) for row in rows if row.over_glibc]
    over_best = [(row, row.over_best) for row in rows if row.over_best]
    best = _against("Against the best malloc measured", "the best malloc of each", over_best)
    if missing := [f"“{row.headline.work}”" for row in rows if row.not_measured]:
        best.said.append(f"Not every installed malloc was measured in {', '.join(missing)}: no ratio is given there.")
    worst: dict[str, Loss] = {}
    for loss in sorted(lost, key=lambda loss: -loss.ratio):
        worst.setdefault(loss.where, loss)
    said = [f"{loss.contender} is {times(loss)} as fast in “{loss.where}”." for loss in worst.values()]
    several = f"{len(worst)} measurements" if len(worst) > 1 else "one measurement"
    figure = f"{several} where something is faster" if worst else "nothing measured is surely faster"
    return [
        _against("Against glibc's malloc, the better of new and make_shared", "glibc's malloc", over_glibc),
        best,
        Answer("Where not to use it", figure if rows else "not measured", said, "behind" if said else "undecided"),
    ]


def change(before: Results | None, after: Results, descriptions: dict[str, Description]) -> str:
    """Of our contenders, against the run before on the same machine, beside that of all others: the machine's own."""

    def judged(ours: bool):
        def is_meant(cell):  # operator new on the pool is neither
            return is_ours(cell.contender) == ours and (ours or cell.malloc != OURS_PRELOADED)

        runs = [each.only({c for c in each.cells() if is_meant(c)}) for each in (before, after)]
        return judge(*(main_samples(each, descriptions) for each in runs), paired=False)

    if before and (before.is_busy() or after.is_busy()):
        return "there is no comparison with the run before: the machine was busy with other work"
    groups, cells = judged(ours=True) if before else ([], [])
    if not groups:
        return "there is no earlier run on the same machine to compare with"
    verdicts = [each.verdict(MARGIN) for each in cells]
    ours, *others = (
        f"{group.ratio - 1:+.1%} ({group.low - 1:+.1%}…{group.high - 1:+.1%})"
        for group in (groups[0], *judged(ours=False)[0][:1])
    )
    return (
        f"against the run before on the same machine ({before.measured_on()}) pooled's times changed by {ours}, "
        + "".join(f"those of all others by {by}, " for by in others)
        + f"{verdicts.count('faster')} of pooled's {len(cells)} cells are faster and {verdicts.count('slower')} slower"
    )


def sentences(rows: list[HeadlineRow], claims: list[Claim], changed: str, busy: bool = False) -> list[str]:
    """With which a run ends: preload or edit, against glibc, against the best malloc, and what became of promises and
    time. On a busy machine the last alone, behind what would decide the others."""
    ours, others = ([each for each in claims if (each.by == OURS_BY) is of_us] for of_us in (True, False))
    last = f"Of pooled's own promises {counted(ours)}, of the claims of others {counted(others)}; {changed}."
    told = [BUSY] if busy else [(each.said[1:2] or each.said)[0] for each in answers(rows, [])[:2]]
    return [*(f"{each.question} {each.figure.capitalize()}. {each.said[0]}" for each in first(rows, busy)), *told, last]


def in_one(rows: list[HeadlineRow], changed: str, busy: bool = False) -> str:
    """The sentence with which the page ends."""
    if busy:
        return f"In a sentence: {BUSY}"
    glibc, best, _ = (answer.figure for answer in answers(rows, []))
    return f"In a sentence: against glibc's malloc pooled is {glibc}, against the best malloc {best}; {changed}."


def losses(groups: list[Group], samples: dict, headlines: list[HeadlineRow] = ()) -> list[Loss]:
    """Where a contender behind a smart pointer is significantly faster than ours, on any malloc. The limits (raw
    pointers, one fixed slot) are no contenders in this sense. And where a headline of another measure is behind."""

    def estimate(row: Row) -> dict:
        return {"median": row.time.median, "values": samples[row.cell, TIME]}

    found = []
    for group in groups:
        built = (MAIN_TOOLCHAIN, "-O3")
        main = [row for row in group.rows if row.time and (row.cell.toolchain, row.cell.optimisation) == built]
        ours = next((row for row in main if row.cell.contender == OURS and row.cell.malloc == "glibc"), None)
        if ours is None or group.description.measure_of(group.variant) != TIME or group.description.base:
            continue
        for row in main:
            if row.cell.contender.startswith(OURS) or row.cell.contender in group.description.limits:
                continue
            if row.time.median >= ours.time.median or row.cell.cut_short != ours.cell.cut_short:
                continue
            name = row.cell.contender + ("" if row.cell.malloc == "glibc" else f" on {row.cell.malloc}")
            over = lead(name, [estimate(row)], estimate(ours))
            if over.verdict is LeadVerdict.behind:
                bounds = (1 / over.high, 1 / over.low)
                found.append(Loss(group.title, name, row.time.median, ours.time.median, 1 / over.ratio, *bounds))
    for row in headlines:
        if (over := row.over_best) and over.verdict is LeadVerdict.behind and row.headline.measure != TIME:
            theirs, ours = row.mallocs[row.best]["median"], row.ours[OURS]["median"]
            bounds = (1 / over.high, 1 / over.low)
            found.append(Loss(row.headline.work, f"make_shared on {row.best}", theirs, ours, 1 / over.ratio, *bounds))
    return found
