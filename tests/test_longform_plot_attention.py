"""Attention is drawn as the models have it, on the same axes."""

import argparse
import shutil
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch
from data.small_models import RATE, make
from matplotlib.image import imread

from espnet_srupp.longform import plot_attention
from espnet_srupp.longform.__main__ import main
from espnet_srupp.longform.plot_attention import Map
from espnet_srupp.longform.sources import Source
from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir

pytestmark = pytest.mark.once

SECONDS = {"a": 0.5, "b": 1.0, "c": 2.0}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """A recipe's folder with models of random parameters and three utterances."""
    folder = tmp_path_factory.mktemp("recipe")
    for encoder in ("srupp", "conformer", "rnn"):
        make(folder, encoder)
    (folder / "wav").mkdir()
    for name, seconds in SECONDS.items():
        samples = np.random.default_rng(0).uniform(-1, 1, round(seconds * RATE))
        soundfile.write(folder / f"wav/{name}.flac", samples, RATE)
    wav = {name: f"wav/{name}.flac" for name in SECONDS}
    text = dict.fromkeys(wav, "HELLO")
    datadir.write(DataDir(wav, text, dict.fromkeys(wav, "s")), folder / "data")
    return folder


@pytest.fixture
def look(recipe, monkeypatch):
    monkeypatch.chdir(recipe)
    return lambda model, name="b": plot_attention.look(
        model, Source(name, f"wav/{name}.flac"), None
    )


@pytest.mark.parametrize(
    ("encoder", "layer", "heads", "alpha"),
    [("srupp", 2, 1, 0.0), ("conformer", 1, 2, None)],
)
def test_last_layer_is_looked_at_frame_by_frame(look, encoder, layer, heads, alpha):
    found = look(f"exp/asr_{encoder}")
    assert (found.title, found.layer, found.heads) == (encoder, layer, heads)
    assert found.alpha == alpha
    frames = len(found.weights)
    # 200 steps of 20 samples and one, subsampled by conv2d
    assert frames == ((201 - 1) // 2 - 1) // 2
    np.testing.assert_allclose(found.weights.sum(1), np.ones(frames), rtol=1e-5)
    assert (found.end - found.begin) / frames == pytest.approx(4 * 20 / RATE)
    assert found.begin > 0 and found.end < SECONDS["b"]


def test_heads_are_averaged(look, monkeypatch):
    kept = []

    def of(espnet, *arguments):
        made = espnet(*arguments)
        module = made.espnet.encoder.encoders[-1].self_attn
        module.register_forward_hook(lambda m, *_: kept.append(m.attn.clone()))
        return made

    from espnet_srupp.longform import loading

    load = loading.load
    monkeypatch.setattr(loading, "load", lambda *words: of(load, *words))
    found = look("exp/asr_conformer")
    (weights,) = kept
    assert weights.shape[:2] == (1, 2)
    assert not torch.equal(weights[0, 0], weights[0, 1])
    np.testing.assert_allclose(found.weights, weights[0].mean(0))


MAPS = [
    Map("one", 4, 1, 0.01, np.eye(5), 0.1, 0.9),
    Map("two", 12, 8, None, np.full((10, 10), 0.1), 0.0, 1.0),
]


def test_panels_share_axes_and_colours():
    figure = plot_attention.draw(MAPS, 1.2, "u1: HELLO")
    one, two, bar = figure.axes
    assert one.get_title() == "one\nlayer 4, one head, alpha 0.01"
    assert two.get_title() == "two\nlayer 12, mean of 8 heads"
    assert one.get_xlim() == two.get_xlim() == (0, 1.2)
    assert one.get_ylim() == two.get_ylim() == (0, 1.2)
    first, second = one.images[0], two.images[0]
    assert first.get_extent() == [0.1, 0.9, 0.1, 0.9]
    assert second.get_extent() == [0, 1, 0, 1]
    assert first.get_clim() == second.get_clim() == (0, 1)
    np.testing.assert_array_equal(second.get_array(), MAPS[1].weights)
    assert bar.get_ylabel() == "attention weight"
    assert figure.get_suptitle() == "u1: HELLO"


@pytest.mark.parametrize("letters", ["WORD " * 300, "字" * 900])
def test_a_long_transcript_leaves_the_panels_their_place(letters, tmp_path):
    sizes = []
    for caption in ("u1: A", f"u1: {letters}"):
        figure = plot_attention.draw(MAPS, 1.2, caption)
        plot_attention.save(figure, tmp_path, "a")
        sizes.append(figure.axes[0].get_position().height)
        box = figure._suptitle.get_window_extent()
        assert 0 <= box.x0 and box.x1 <= figure.bbox.x1
    assert sizes[1] > 0.8 * sizes[0]


def test_dollars_are_no_formula(tmp_path):
    priced = [replace(each, title="$a_{ $") for each in MAPS]
    figure = plot_attention.draw(priced, 1.2, "u1: IT IS $ 3 AND_{ $ 4")
    plot_attention.save(figure, tmp_path, "a")


def test_both_formats_are_written_the_same_each_time(recipe, monkeypatch, capsys):
    monkeypatch.chdir(recipe)
    words = ["SRU++=exp/asr_srupp", "exp/asr_conformer", "--data", "data"]
    assert main(["plot-attention", *words, "--out", "images/a.png"]) == 0
    assert capsys.readouterr().out == "images/a.png\nimages/a.svg\n"
    svg = (recipe / "images/a.svg").read_bytes()
    image = imread(recipe / "images/a.png")
    assert image.shape[0] == 690 and image.shape[1] > 1200
    assert len(np.unique(image.reshape(-1, 4), axis=0)) > 100
    assert main(["plot-attention", *words, "--out", "images/a"]) == 0
    assert (recipe / "images/a.svg").read_bytes() == svg


@pytest.mark.parametrize(
    ("words", "caption", "seconds"),
    [
        (["--data", "data"], "b: HELLO", 1),
        (["--data", "data", "--utt", "c"], "c: HELLO", 2),
        (["--wav", "wav/a.flac"], "a", 0.5),
    ],
    ids=["median length", "by id", "file"],
)
def test_an_utterance_is_chosen(recipe, monkeypatch, words, caption, seconds):
    monkeypatch.chdir(recipe)
    shown = []
    monkeypatch.setattr(plot_attention, "look", lambda *_: MAPS[0])
    monkeypatch.setattr(plot_attention, "save", lambda *_: None)
    draw = plot_attention.draw
    monkeypatch.setattr(
        plot_attention, "draw", lambda *given: shown.append(given) or draw(*given)
    )
    assert main(["plot-attention", "model", *words, "--out", "x"]) == 0
    assert shown == [([MAPS[0]], seconds, caption)]


def test_what_cannot_be_read_is_not_of_median_length(recipe, tmp_path):
    rows = f"a {tmp_path}/none.wav\nb {recipe}/wav/b.flac\n"
    (tmp_path / "wav.scp").write_text(rows)
    given = argparse.Namespace(data=tmp_path, utt=None)
    assert plot_attention.chosen(given).name == "b"


def too_short(folder):
    soundfile.write(folder / "wav/a.flac", np.zeros(30), RATE)


def unknown_words(folder):
    (folder / "data/text").write_text("a\n")


def too_long(folder):
    soundfile.write(folder / "wav/a.flac", np.zeros(121 * RATE), RATE)


FILE = ["--wav", "wav/a.flac"]


@pytest.mark.parametrize(
    ("change", "model", "words", "sentence"),
    [
        (too_short, "exp/asr_srupp", FILE, "wav/a.flac is too short for exp/asr_srupp"),
        (too_long, "exp/asr_srupp", FILE, "is 121 s long, more than the 120 s"),
        (None, "exp/asr_rnn", FILE, "exp/asr_rnn: its encoder rnn has no attention"),
        (None, "exp/no", FILE, "exp/no is missing: give an experiment's folder"),
        (None, "a=exp/no", FILE, "exp/no is missing"),
        (None, "exp/asr_srupp", ["--wav", "no.wav"], "no.wav is missing"),
        (None, "exp/asr_srupp", ["--data", "wav"], "wav has no wav.scp"),
        (None, "x", ["--data", "data", "--utt", "d"], "data has no utterance d"),
        (None, "x", [*FILE, "--utt", "a"], "--utt names an utterance of --data"),
        (None, "x", [], "one of the arguments --wav --data is required"),
        # before any model is read
        (unknown_words, "x", ["--data", "data", "--utt", "a"], "text line 1: a has"),
        (None, "x", [*FILE, "--out", "."], "--out . is a folder: give a file"),
    ],
)
def test_a_mistake_is_one_sentence(
    recipe, tmp_path, monkeypatch, capsys, change, model, words, sentence
):
    shutil.copytree(recipe, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    if change:
        change(tmp_path / "copy")
    assert main(["plot-attention", model, "--out", "a", *words]) == 1
    assert sentence in capsys.readouterr().err.splitlines()[-1]
    assert not list((tmp_path / "copy").glob("a.*"))


def test_rows_attend_upwards_and_the_darkest_is_the_largest_of_all_weights():
    weights = np.array([[0.0, 1.0], [0.25, 0.75]])
    maps = [
        Map(title, 1, 1, None, share * weights, 0.0, 1.0)
        for title, share in (("a", 0.5), ("b", 1.0))
    ]
    panels = plot_attention.draw(maps, 1.0, "u").axes[:2]
    for axes, each in zip(panels, maps, strict=True):
        (image,) = axes.images
        np.testing.assert_array_equal(image.get_array(), each.weights)
        assert image.origin == "lower"
        assert (image.norm.vmin, image.norm.vmax) == (0, 1)


def test_a_path_may_hold_an_equals_sign(look, recipe):
    (recipe / "exp/lr=0.1").symlink_to("asr_srupp")
    assert look("SRU++=exp/lr=0.1").title == "SRU++"
    assert look("exp/lr=0.1").title == "srupp"
