# SPDX-License-Identifier: BSL-1.0
"""What changed between two sessions, apart from what the sessions themselves changed.

A session is a level of its own: all of its samples share the state of the machine, so the cells of two files differ
together and are not independent. Contenders that cannot change (the mallocs, raw pointers, other people's pools) are
controls: they show how far, and how unevenly, the second session moved. In logarithms, for cell i of workload w:

    change(i) = shift(w) + contender(i) + cell(i) + sampling(i)      [+ what we changed, for our cells alone]

    shift      of the workload, from its controls (from all controls where it has none); none within one session
    contender  variance kappa²: sessions do not treat all contenders alike; from the controls' means
    cell       variance tau²: nor all cells; from the controls' scatter within a workload
    sampling   from the runs of one cell, moderated by those of the others

This is the random-effects model of meta-analysis with the variances of Paule and Mandel ("Consensus values and
weighting factors", 1982). A change of ours is significant when these do not explain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from poolbench.analysis.stats import by_length

PRIOR_RUNS = 4  # the weight of the other cells' spread in a cell's own, which five runs tell badly
FEWEST_CONTROLS = 4  # beyond one a workload: fewer do not tell how unevenly a session moves
MEDIAN_VARIANCE = np.pi / 2  # of a median over that of a mean
SMALLEST_VARIANCE, LARGEST_VARIANCE = 1e-12, 10.0


@dataclass(frozen=True)
class Changes:
    """Of paired cells, all arrays in their order; logarithms of after over before."""

    change: np.ndarray
    sampling: np.ndarray  # variances, never less than the cell's own runs show
    smooth: np.ndarray  # variances for weights: a spread that is small by chance must not count for more
    freedom: np.ndarray  # of the variances
    runs: np.ndarray  # of the side that has fewer


@dataclass(frozen=True)
class Estimate:
    """A logarithm with its standard error."""

    value: float
    error: float
    freedom: float

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        half = float(special.stdtrit(self.freedom, 0.5 + confidence / 2)) * self.error
        return self.value - half, self.value + half

    def p(self) -> float:
        """Two-sided."""
        if self.error == 0:
            return 1.0 if self.value == 0 else 0.0
        return float(2 * special.stdtr(self.freedom, -abs(self.value) / self.error))


def changes(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], paired: bool) -> Changes:
    """`paired`: run k of both sides were neighbours in time, so that their quotient is free of what both met."""
    cells = len(before)
    change, spread, share, freedom, runs = (np.zeros(cells) for _ in range(5))
    for rows in by_length(before, after).values():
        x, y = (np.log(np.array([side[row] for row in rows], dtype=float)) for side in (before, after))
        runs[rows] = n = min(x.shape[1], y.shape[1])
        if paired:
            quotients = y[:, :n] - x[:, :n]
            change[rows], squares = np.median(quotients, axis=1), _squares(quotients)
            share[rows], freedom[rows] = 1 / n, n - 1
        else:
            change[rows] = np.median(y, axis=1) - np.median(x, axis=1)
            squares = _squares(x) + _squares(y)
            share[rows], freedom[rows] = 1 / x.shape[1] + 1 / y.shape[1], x.shape[1] + y.shape[1] - 2
        spread[rows] = squares / np.maximum(freedom[rows], 1)
    known = spread[freedom > 0]
    usual = float(np.median(known)) if len(known) else LARGEST_VARIANCE  # one run a side tells nothing
    moderated = (freedom * spread + PRIOR_RUNS * usual) / (freedom + PRIOR_RUNS)
    scale = MEDIAN_VARIANCE * share
    sampling = np.maximum(np.maximum(spread, moderated) * scale, SMALLEST_VARIANCE)
    return Changes(change, sampling, np.maximum(moderated * scale, SMALLEST_VARIANCE), np.maximum(freedom, 1), runs)


def _squares(rows: np.ndarray) -> np.ndarray:
    return ((rows - rows.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)


def _weighted(values: np.ndarray, weights: np.ndarray, of: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and its variance of each group; NaN of an empty one."""
    total = np.bincount(of, weights, groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.bincount(of, weights * values, groups) / total, 1 / total


def _between(excess, freedom: float) -> float:
    """The variance at which the weighted squares are what chance makes them (Paule and Mandel); 0 when less."""
    if freedom <= 0 or excess(0.0) <= freedom:
        return 0.0
    if excess(LARGEST_VARIANCE) >= freedom:
        return LARGEST_VARIANCE
    return float(optimize.brentq(lambda variance: excess(variance) - freedom, 0.0, LARGEST_VARIANCE, xtol=1e-8))


class Model:
    """What the sessions did, from the controls. `block` numbers each cell's workload, `kind` its contender."""

    def __init__(self, found: Changes, block: np.ndarray, kind: np.ndarray, control: np.ndarray, same_session: bool):
        self._found, self._block, self._kind = found, block, kind
        controls, blocks = np.flatnonzero(control), int(block.max(initial=-1)) + 1
        change, sampling, where = found.change[controls], found.smooth[controls], block[controls]
        self.controls = len(controls)
        there = len(np.unique(where))
        # Two sides of one session were interleaved: nothing was shifted. What the controls differ by, about zero, is
        # then their places in memory.
        self._freedom = len(controls) - (0 if same_session else there)
        self.can_judge = same_session or self._freedom >= FEWEST_CONTROLS

        def squares(variance: float) -> float:
            weights = 1 / (sampling + variance)
            middle, _ = _weighted(change, weights, where, blocks)
            return float((weights * (change - (0 if same_session else middle[where])) ** 2).sum())

        self.cell_variance = _between(squares, self._freedom)
        weights = 1 / (sampling + self.cell_variance)
        shift, shift_variance = _weighted(change, weights, where, blocks)
        self.shift = self._over_all(shift[np.isfinite(shift)], shift_variance[np.isfinite(shift)])
        if same_session:
            shift, shift_variance = np.zeros(blocks), np.zeros(blocks)
        self.contender_variance, self._contenders = self._of_contenders(
            change - shift[where] if len(controls) else change, weights, kind[controls]
        )
        # A reference is made of few contenders: what the session did to those is missing from their scatter about it,
        # and is in every comparison with it.
        of_reference = np.zeros(blocks)
        if not same_session:
            of_reference = self._concentration(weights, where, kind[controls], blocks)
        self.contender_variance /= max(0.2, 1 - float(np.mean(of_reference[where]))) if len(controls) else 1.0
        self._reference = np.where(of_reference > 0, of_reference, of_reference.max(initial=0.0))
        # A workload without a control moved as the others did, as far as they did so alike.
        alone = ~np.isfinite(shift)
        between = float(np.var(shift[~alone], ddof=1)) if (~alone).sum() > 1 else 0.0
        self._shift = np.where(alone, self.shift.value, np.nan_to_num(shift))
        self._shift_variance = np.where(alone, between + self.shift.error**2, np.nan_to_num(shift_variance, posinf=0.0))

    @staticmethod
    def _of_contenders(residual: np.ndarray, weights: np.ndarray, kind: np.ndarray) -> tuple[float, float]:
        """The variance between contenders, and the degrees of freedom that it is known with."""
        names, of = np.unique(kind, return_inverse=True)
        if len(names) < FEWEST_CONTROLS:
            return 0.0, 1.0
        middle, variance = _weighted(residual, weights, of, len(names))
        between = _between(lambda more: float((middle**2 / (variance + more)).sum()), len(names) - 1)
        # A contender of one noisy cell tells little of it.
        return between, max(1.0, float((between / (between + variance)).sum()) - 1)

    @staticmethod
    def _concentration(weights: np.ndarray, where: np.ndarray, kind: np.ndarray, blocks: int) -> np.ndarray:
        """Of each workload, the sum of the squared shares of its controls' contenders: 1 when all are one."""
        found = np.zeros(blocks)
        for block in np.unique(where):
            here = where == block
            shares = np.bincount(np.unique(kind[here], return_inverse=True)[1], weights[here])
            found[block] = ((shares / shares.sum()) ** 2).sum()
        return found

    @staticmethod
    def _over_all(shift: np.ndarray, variance: np.ndarray) -> Estimate:
        if len(shift) == 0:
            return Estimate(0.0, 0.0, 1.0)
        error = shift.std(ddof=1) / np.sqrt(len(shift)) if len(shift) > 1 else np.sqrt(variance[0])
        return Estimate(float(shift.mean()), float(error), max(1, len(shift) - 1))

    def of(self, cells: np.ndarray) -> Estimate:
        """What changed in these cells together beyond what the sessions explain."""
        weights = 1 / (self._found.smooth[cells] + self.cell_variance)
        share = weights / weights.sum()
        relative = self._found.change[cells] - self._shift[self._block[cells]]
        of_blocks = np.bincount(self._block[cells], share, len(self._shift))
        of_kinds = np.bincount(np.unique(self._kind[cells], return_inverse=True)[1], share)
        sampling = share**2 * self._found.sampling[cells]
        # The parts of the error, each with the degrees of freedom that it is known with.
        parts = [
            (sampling.sum(), sampling.sum() ** 2 / (sampling**2 / self._found.freedom[cells]).sum()),
            ((share**2).sum() * self.cell_variance + (of_blocks**2 * self._shift_variance).sum(), self._freedom),
            (((of_kinds**2).sum() + of_blocks @ self._reference) * self.contender_variance, self._contenders),
        ]
        error = sum(part for part, _ in parts)
        # Satterthwaite: as sure as its least known part allows.
        freedom = error**2 / sum(part**2 / max(1, known) for part, known in parts)
        return Estimate(float((share * relative).sum()), float(np.sqrt(error)), float(freedom))

    def alone(self, cell: int) -> Estimate:
        """A cell's plain change, the session's included."""
        return Estimate(
            float(self._found.change[cell]),
            float(np.sqrt(self._found.sampling[cell])),
            float(self._found.freedom[cell]),
        )
