"""Pictures show the numbers of scores.json, all of them and nothing cut off."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from espnet_srupp.longform import plot, table
from espnet_srupp.longform.__main__ import main
from espnet_srupp.longform.table import ALL, Cell, Scores

pytestmark = pytest.mark.once

ONE = Cell("wer", "", "", 9, 9, 200, 5.0, 0, 0, 0, 0.0, 0.0, 0.0, 0, None, None)
# substitutions, deletions, insertions of 200 words
ERRORS = {
    ("0-10", "good"): (2, 4, 6),
    ("0-10", "poor"): (4, 4, 4),
    ("10+", "good"): (2, 2, 0),
    ("10+", "poor"): (10, 160, 20),
}


def cell(name, model, errors):
    rate = sum(errors) / 2
    kinds = dict(zip(("substitutions", "deletions", "insertions"), errors, strict=True))
    low, high = rate * 0.9, rate * 1.2
    return replace(ONE, bin=name, model=model, rate=rate, low=low, high=high, **kinds)


SETTINGS = {"reference": "ref", "samples": 9, "seed": 0}
CELLS = [cell(*key, errors) for key, errors in ERRORS.items()]


def test_rates_are_drawn_by_model():
    figure = plot.rate_by_length(CELLS)
    (axes,) = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[6, 2], [6, 95]]
    assert legend(figure) == ["good", "poor"]
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["0–10\n5.0 s\nn=9", "10+\n5.0 s\nn=9"]


def test_the_name_of_a_set_keeps_its_hyphen():
    (axes,) = plot.rate_by_length([replace(CELLS[0], bin="dev-clean")]).axes
    assert axes.get_xticklabels()[0].get_text().startswith("dev-clean\n")


def test_a_name_with_an_underscore_before_it_is_in_the_legend():
    hidden = [replace(c, model=f"_{c.model}") for c in CELLS]
    assert legend(plot.rate_by_length(hidden)) == ["_good", "_poor"]


@pytest.mark.parametrize(
    "name",
    ["seed ", "SRUPP_LARGE_DENSE_" * 3, "模型" * 30],
    ids=["short", "long", "Chinese"],
)
def test_the_legend_is_in_the_picture_and_not_on_the_lines(name):
    figure = plot.rate_by_length(
        [replace(c, model=f"{name}{n}") for n in range(10) for c in CELLS[::2]]
    )
    draw(figure)
    box, lines = (x.get_window_extent() for x in (figure.legends[0], *figure.axes))
    assert box.y0 >= lines.y1
    assert box.x0 >= 0
    # the lines have as much room as without it
    assert lines.height > 2.5 * figure.dpi


def legend(figure):
    (found,) = figure.legends
    return [text.get_text() for text in found.texts]


def draw(figure):
    with warnings.catch_warnings():
        # the usual font lacks Chinese, its boxes are narrower
        warnings.filterwarnings("ignore", "Glyph")
        FigureCanvasAgg(figure).draw()


def test_no_two_models_look_alike():
    many = [replace(CELLS[0], model=f"seed {n}") for n in range(36)]
    (axes,) = plot.rate_by_length(many).axes
    looks = {(line.get_color(), line.get_marker()) for line in axes.lines}
    assert len(looks) == 36


@pytest.mark.parametrize("picture", [plot.rate_by_length, plot.kinds_of_errors])
@pytest.mark.parametrize(
    "name", ["test_other_joined_{}", "TEST_OTHER_JOINED_{}", "会议录音长{}"]
)
def test_names_of_sets_do_not_overlap(picture, name):
    figure = picture([replace(CELLS[0], bin=name.format(n)) for n in range(9)])
    draw(figure)
    labels = [t.get_window_extent() for t in figure.axes[-1].get_xticklabels()]
    assert all(a.x1 < b.x0 for a, b in pairwise(labels))


def test_intervals_are_shaded_and_in_the_picture():
    (axes,) = plot.rate_by_length(CELLS).axes
    band = axes.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(band[:, 1].min(), 0.9 * 2)
    np.testing.assert_allclose(band[:, 1].max(), 1.2 * 6)
    bottom, top = axes.get_ylim()
    assert bottom == 0
    assert top >= 1.2 * 95


def test_the_marker_of_the_largest_rate_is_whole():
    high = [replace(c, rate=96.0, low=95.9, high=96.1) for c in CELLS]
    (axes,) = plot.rate_by_length(high).axes
    assert axes.get_ylim()[1] > 1.04 * 96.1


def test_a_bin_without_interval_is_drawn(tmp_path):
    alone = [replace(c, low=None, high=None) if c.bin == "10+" else c for c in CELLS]
    (axes,) = plot.rate_by_length(alone).axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[6, 2], [6, 95]]


def test_a_model_that_lacks_a_bin_keeps_its_place():
    some = [c for c in CELLS if (c.bin, c.model) != ("0-10", "good")]
    figure = plot.rate_by_length(some)
    (axes,) = figure.axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[0, 1], [1]]
    assert legend(figure) == ["poor", "good"]
    assert len(axes.get_xticklabels()) == 2
    _, good = plot.kinds_of_errors(some).axes
    assert [bar.get_x() + bar.get_width() / 2 for bar in good.patches[:1]] == [1]


def test_kinds_of_errors_are_stacked_by_model():
    figure = plot.kinds_of_errors(CELLS)
    good, poor = figure.axes
    assert (good.get_title("left"), poor.get_title("left")) == ("good", "poor")
    deletions, insertions, substitutions = (
        [(bar.get_y(), bar.get_height()) for bar in bars] for bars in poor.containers
    )
    assert deletions == [(0, 2), (0, 80)]
    assert insertions == [(2, 2), (80, 10)]
    assert substitutions == [(4, 2), (90, 5)]
    # one scale for all models, and the tallest bar fits
    assert good.get_ylim() == poor.get_ylim()
    assert good.get_ylim()[1] >= 95


def test_dollars_are_no_formula(tmp_path):
    priced = [
        replace(c, model=f"$a_{{ $ {c.model}", bin=f"${c.bin}_{{$") for c in CELLS
    ]
    for draw in (plot.rate_by_length, plot.kinds_of_errors):
        plot.save(draw(priced), tmp_path, "a")


@pytest.fixture
def scores(tmp_path):
    everything = replace(ONE, bin=ALL, model="good")
    characters = [replace(c, unit="cer", rate=1.0) for c in CELLS]
    settings = {"reference": "ref", "samples": 1, "seed": 0}
    found = Scores(settings, [], [*CELLS, everything, *characters], [])
    table.write(found, tmp_path)
    return tmp_path


def test_pictures_are_the_same_each_time(scores):
    words = ["plot", str(scores / "scores.json"), "--out", str(scores / "images")]
    assert main(words) == 0
    made = {path.name: path.read_bytes() for path in (scores / "images").iterdir()}
    assert sorted(made) == [
        f"wer_{name}.{suffix}"
        for name in ("by_length", "errors")
        for suffix in ("png", "svg")
    ]
    assert b"<svg" in made["wer_errors.svg"]
    image = imread(scores / "images" / "wer_by_length.png")
    assert image.shape[:2] == (630, 1050)
    assert main(words) == 0
    assert made == {p.name: p.read_bytes() for p in (scores / "images").iterdir()}


def test_characters_are_drawn_on_request(scores):
    words = [str(scores / "scores.json"), "--out", str(scores / "images")]
    assert main(["plot", *words, "--unit", "cer"]) == 0
    assert (scores / "images" / "cer_by_length.svg").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "is missing: make it with longform score"),
        ("{", "is not what longform score writes"),
        ("{}", "is not what longform score writes"),
        ("[]", "is not what longform score writes"),
        ("[" * 10**5, "is not what longform score writes"),
        (
            '{"settings": {}, "left_out": [], "cells": [], "differences": []}',
            "holds no scores by length",
        ),
        ('{"cells": [{"unit": "wer"}]}', "is not what longform score writes"),
    ],
    ids=["missing", "not-json", "empty", "list", "nested", "no-cells", "other"],
)
def test_what_is_no_scores_is_told(tmp_path, capsys, content, sentence):
    if content is not None:
        (tmp_path / "scores.json").write_text(content)
    words = [str(tmp_path / "scores.json"), "--out", str(tmp_path / "images")]
    assert main(["plot", *words]) == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "images").exists()


def test_the_bin_of_all_utterances_is_no_length(tmp_path, monkeypatch):
    everything = cell(ALL, "good", (4, 6, 6))
    table.write(Scores(SETTINGS, [], [*CELLS, everything], []), tmp_path)
    drawn, draw = [], plot.rate_by_length
    monkeypatch.setattr(
        plot, "rate_by_length", lambda cells: drawn.extend(cells) or draw(cells)
    )
    out = ["--out", str(tmp_path)]
    assert main(["plot", str(tmp_path / "scores.json"), *out]) == 0
    assert drawn == CELLS
