"""How often the intervals hold the truth: tables of coverage at the points where they have it hardest.

    OMP_NUM_THREADS=1 python benchmarks/interval_coverage.py [--draws 2000]

Labels are drawn from known rates: independent prompts, and prompts in groups that share half of their draws. For each
interval of `analysis.mean_intervals` and `analysis.rate_intervals` the share of draws whose interval holds the truth is
printed beside the nominal .95 and the binomial error of that share. The score's interval is to hold at least .93 under
every reading of ambiguous labels; the bare bounds [SRR, SRR + AR] stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import pearsonr
from sizes import size_parser

from slmsafety.analysis.drivers.cluster_errors import slope_p
from slmsafety.analysis.drivers.model_metadata import family_difference
from slmsafety.analysis.judges.agreement import confusion
from slmsafety.analysis.judges.ar_difference import ar_difference
from slmsafety.analysis.judges.kappa import kappa_intervals, kappas
from slmsafety.analysis.mean_intervals import difference_interval, interval, score_interval
from slmsafety.analysis.prediction.families import over_families
from slmsafety.analysis.rate_intervals import decisive_intervals, rate_intervals

SIZES = {"draws": (2000, 20)}
SEED = 1337
Draw = tuple[Any, ...]


def main() -> None:
    draws = size_parser(__doc__, SIZES).parse_args().draws
    error = np.sqrt(0.95 * 0.05 / draws)
    print(f"{draws:,} draws each; the error of a share near .95 is {error:.3f}\n")
    for title, table in (
        ("Means (nominal .95)", means),
        ("Scores under every reading (at least .93); `bare`: the bounds alone, at t = 0", scores),
        ("Differences of two models on the same prompts (nominal .95)", differences),
        ("Adjusted score and decisive share (nominal .95)", functions),
        ("Two judges: kappa and the difference of their ambiguity rates (nominal .95)", judges),
        ("Tests of no slope, kinds of prompts with effects: share of p above .05 (nominal .95)", slopes),
        ("Claims about models: families with effects (nominal .95)", families),
    ):
        found = pd.DataFrame(list(table(draws, np.random.default_rng(SEED))))
        print(
            f"{title}\n\n{found.to_string(index=False, float_format=lambda value: format(value, '.3f'))}\n", flush=True
        )


def uniforms(rng: np.random.Generator, prompts: int, size: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One draw a prompt, uniform on 0..1; of `size` prompts in a group half the pairs share theirs."""
    own = rng.random(prompts)
    if size == 1:
        return own
    common = np.repeat(rng.random(prompts // size), size)
    return np.where(rng.random(prompts) < np.sqrt(0.5), common, own)


def means(draws: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    for prompts, size in ((20, 1), (100, 1), (400, 1), (100, 10), (400, 10), (300, 3)):
        for share in (0.02, 0.1, 0.5, 0.9):
            groups = np.arange(prompts) // size
            held = covered(
                draws, share, lambda n=prompts, s=size, p=share, g=groups: interval(uniforms(rng, n, s) < p, g)
            )
            yield {"prompts": prompts, "in a group": size, "rate": share, "covered": held}


def scores(draws: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    for prompts, size in ((100, 1), (400, 1), (5694, 1), (400, 10)):
        groups = np.arange(prompts) // size
        for ambiguous in (0.0, 0.02, 0.5, 0.95, 1.0):
            safe = (1 - ambiguous) / 2
            held = {"t = 0": 0, "t = .5": 0, "t = 1": 0, "bare": 0}
            for _ in range(draws):
                draw = uniforms(rng, prompts, size)
                least, most = draw < safe, draw < safe + ambiguous
                low, high = score_interval(least, most, groups)
                for name, t in (("t = 0", 0.0), ("t = .5", 0.5), ("t = 1", 1.0)):
                    held[name] += low - 1e-12 <= safe + t * ambiguous <= high + 1e-12
                held["bare"] += least.mean() - 1e-12 <= safe <= most.mean() + 1e-12
            yield {"prompts": prompts, "in a group": size, "AR": ambiguous, **{k: v / draws for k, v in held.items()}}


def differences(draws: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    for prompts, size in ((100, 1), (400, 1), (400, 10)):
        groups = np.arange(prompts) // size
        for one, two in ((0.5, 0.5), (0.5, 0.4), (0.05, 0.02)):

            def pair(n: int = prompts, s: int = size, a: float = one, b: float = two, g: Any = groups) -> Draw:
                shared, kept = uniforms(rng, n, s), rng.random((2, n)) < 0.7
                first, second = (np.where(keep, shared, uniforms(rng, n, s)) for keep in kept)
                return difference_interval((first < a).astype(float) - (second < b), g)

            held = covered(draws, one - two, pair)
            yield {"prompts": prompts, "in a group": size, "rate": one, "other": two, "covered": held}


def functions(draws: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    draws = max(draws // 10, 1)  # each draw makes a frame of labels
    for prompts, size in ((100, 1), (400, 10)):
        for harmful, safe in ((0.3, 0.3), (0.05, 0.05), (0.8, 0.1)):
            mean, ar = safe + (1 - harmful - safe) / 2, 1 - harmful - safe
            drawn = [labels(rng, (prompts, size), harmful, safe) for _ in range(draws)]
            found = pd.concat([rate_intervals(each) for each in drawn])
            shares = pd.concat([decisive_intervals(each) for each in drawn])
            row = {"prompts": prompts, "in a group": size, "harmful": harmful, "safe": safe, "draws": draws}
            yield row | {
                "s_adj": float(
                    found["s_adj_low"].le(mean * (1 - ar)).mul(found["s_adj_high"].ge(mean * (1 - ar))).mean()
                ),
                "decisive": float(shares["decisive_low"].le(1 - ar).mul(shares["decisive_high"].ge(1 - ar)).mean()),
            }


def judges(draws: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    """Six replies a group; in each group one chance of being ambiguous is drawn for both judges."""
    draws = max(draws // 4, 1)  # a bootstrap each
    for count in (12, 30, 60):
        code, held = np.repeat(np.arange(count), 6), {"kappa": 0, "ar_difference": 0}
        truth = float(kappas(confusion(*_verdicts(np.repeat(np.arange(20_000), 6), rng)))["kappa"])
        for _ in range(draws):
            first, second = _verdicts(code, rng)
            low, high = kappa_intervals(first, second, code, 500, int(rng.integers(2**31)))["kappa"]
            held["kappa"] += low <= truth <= high
            frame = pd.DataFrame({"suite": "s", "instance_id": code, "group": code, "first": first, "second": second})
            row = ar_difference(frame).iloc[0]
            held["ar_difference"] += row["ar_difference_low"] <= 0.2 <= row["ar_difference_high"]
        yield {"groups": count, "draws": draws, **{name: hits / draws for name, hits in held.items()}}


def _verdicts(code: np.ndarray[Any, Any], rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], ...]:
    chance = rng.beta(2, 2, code.max() + 1)[code] * 0.6
    draw = rng.random(len(code))
    return tuple(np.where(draw < each, 1, np.where(draw > 0.95, 0, 2)) for each in (chance, chance + 0.2))


def slopes(draws: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    """Nothing goes with anything, but metric and ambiguity differ by kind of prompt; the plain test beside."""
    for count, size in ((12, 10), (30, 10), (66, 20), (400, 1)):
        kind, held, plain = np.repeat(np.arange(count), size), 0, 0
        for _ in range(draws):
            x, y = (rng.standard_normal(count)[kind] + rng.standard_normal(len(kind)) for _ in range(2))
            held += slope_p(x, y, kind) > 0.05
            plain += pearsonr(x, y).pvalue > 0.05
        yield {"kinds": count, "prompts in a kind": size, "over kinds": held / draws, "over prompts": plain / draws}


def families(draws: int, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    """26 models of 15 families of 1 to 5: tuned against base, and the mean over families of a score."""
    sizes = np.array([5, 4, 3, 2, 2, *[1] * 10])
    family = np.repeat(np.arange(len(sizes)), sizes)
    names = pd.Series(family)
    for tuned, spread in ((0.5, 0.5), (0.5, 0.9), (0.25, 0.9)):
        held = {"tuned": 0, "mean": 0, "new model": 0}
        for _ in range(draws):
            flag = pd.Series((rng.random(len(family)) < tuned).astype(float))
            own = np.sqrt(spread) * rng.standard_normal(len(sizes))[family]
            values = own + np.sqrt(1 - spread) * rng.standard_normal(len(family))
            found = family_difference(pd.Series(values), flag, names)
            held["tuned"] += bool(np.isnan(found.low)) or found.low <= 0 <= found.high
            scores = over_families(0.6 + 0.05 * values, family)
            held["mean"] += scores.low <= 0.6 <= scores.high
            held["new model"] += scores.new_low <= 0.6 + 0.05 * rng.standard_normal() <= scores.new_high
        yield {"tuned share": tuned, "between families": spread, **{name: hits / draws for name, hits in held.items()}}


def labels(rng: np.random.Generator, sizes: tuple[int, int], harmful: float, safe: float) -> pd.DataFrame:
    """Labels of two models, whose prompts share what makes them harmful or safe."""
    prompts, size = sizes
    frames = []
    shared = uniforms(rng, prompts, size)
    for model in ("a", "b"):
        draw = np.where(rng.random(prompts) < 0.7, shared, uniforms(rng, prompts, size))
        label = 1 - (draw < harmful).astype(int) + (draw > 1 - safe)
        frames.append(pd.DataFrame({"model": model, "label": label, "instance_id": np.arange(prompts).astype(str)}))
    table = pd.concat(frames, ignore_index=True).assign(suite="s", expected="refuse", status="ok")
    return table.assign(group=(table["instance_id"].astype(int) // size).astype(str))


def covered(draws: int, truth: float, draw: Callable[[], Draw]) -> float:
    held = 0
    for _ in range(draws):
        low, high = draw()
        held += low - 1e-12 <= truth <= high + 1e-12
    return held / draws


if __name__ == "__main__":
    main()
