"""Synthetic outcomes of two sizes, and what any figure must satisfy on the page."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

FAMILIES = ["Alder"] * 4 + ["Birch"] * 3 + ["Cedar"] * 3 + ["Elm"] * 2 + ["Fir"] * 2 + ["Hazel"] * 2 + ["Larch"] * 2


def make_outcomes(models: int, suites: int, seed: int = 7) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    families = [*FAMILIES, *(f"Single{i}" for i in range(models))][:models]
    rows = []
    for suite, (model, family) in itertools.product(range(suites), enumerate(families)):
        hcr, ar, srr = rng.dirichlet([2, 2, 2])
        rows.append(
            {
                "suite": f"suite{suite}",
                "suite_title": ["AirBench", "HarmBench", "SALAD-Bench", "SimpleSafetyTests", "BBQ"][suite],
                "model": f"m{model}",
                "model_name": f"{family} {model + 1}.5b chat",
                "family": family,
                "params_m": 124.0 + 155 * (models - model),
                "n": 100 * (suite + 1),
                "hcr": hcr,
                "ar": ar,
                "srr": srr,
                "mean": srr + ar / 2,
                "accuracy": np.nan,
            }
        )
    return pd.DataFrame(rows).sample(frac=1, random_state=seed)


@pytest.fixture(params=[(2, 2), (26, 3), (26, 5)], ids=["2x2", "26x3", "26x5"])
def outcomes(request: pytest.FixtureRequest) -> pd.DataFrame:
    return make_outcomes(*request.param)


@pytest.fixture
def tiny() -> pd.DataFrame:
    return make_outcomes(2, 2)


@pytest.fixture
def full() -> pd.DataFrame:
    return make_outcomes(26, 3)


@pytest.fixture
def with_choice(request: pytest.FixtureRequest) -> pd.DataFrame:
    """Outcomes in which the last suite is a part of BBQ: an accuracy, and no rates of labels."""
    frame = make_outcomes(*getattr(request, "param", (2, 3)))
    choice = frame["suite"] == frame["suite"].max()
    frame.loc[choice, ["suite_title", "accuracy"]] = ["BBQ-6 (60 items)", 0.0]
    frame.loc[choice, "accuracy"] = frame.loc[choice, "mean"]
    frame.loc[choice, ["hcr", "ar", "srr"]] = np.nan
    return frame


def shown_texts(fig: Figure) -> list[Text]:
    """Every text that is drawn: tick labels outside an axis's range are not."""
    FigureCanvasAgg(fig).draw()
    hidden = {
        id(label)
        for ax in fig.axes
        for axis in (ax.xaxis, ax.yaxis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not ax.axison or not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    return [
        text
        for text in fig.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip() and id(text) not in hidden
    ]


def assert_fits(fig: Figure) -> None:
    """The figure is as wide as the page and not higher, and no text is clipped or lies on another."""
    width, height = fig.get_size_inches()
    assert width == pytest.approx(122 / 25.4)
    assert height <= 7.5
    texts = shown_texts(fig)
    boxes = [Text.get_window_extent(text) for text in texts]  # without the arrow of an annotation
    for text, box in zip(texts, boxes, strict=True):
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= fig.bbox.x1 + 1 and box.y1 <= fig.bbox.y1 + 1
        assert inside, f"'{text.get_text()}' leaves the page"
    for (a, box_a), (b, box_b) in itertools.combinations(zip(texts, boxes, strict=True), 2):
        across = min(box_a.x1, box_b.x1) - max(box_a.x0, box_b.x0)
        along = min(box_a.y1, box_b.y1) - max(box_a.y0, box_b.y0)
        # Boxes include the empty space of ascenders: three pixels at 200 dpi are a third of a millimetre.
        assert across <= 1 or along <= 3, f"'{a.get_text()}' lies on '{b.get_text()}'"


@pytest.fixture
def fits() -> Callable[[Figure], None]:
    return assert_fits


@pytest.fixture
def words() -> Callable[[Figure], list[str]]:
    return lambda fig: [text.get_text() for text in shown_texts(fig)]
