"""Pictures show what is there and do not fail on what is not."""

import numpy as np
import pytest
from PIL import Image

from espnet_srupp.recipe import pictures

pytestmark = pytest.mark.once

LINE = (
    "INFO: {0}epoch results: [train] {1}, time=3 seconds, [valid] {1}, time=1 second\n"
)
FULL = "loss=5.{0}, loss_ctc=6.0, loss_att=4.0, acc=0.{0}, cer_ctc=0.5, cer=0.6"


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved."""
    found = []
    save = pictures.save
    monkeypatch.setattr(
        pictures,
        "save",
        lambda figure, path: found.append(figure) or save(figure, path),
    )
    return found


def size(path):
    with Image.open(path) as picture:
        return picture.size


def values(axes):
    return [[*line.get_ydata()] for line in axes.lines]


@pytest.mark.parametrize(
    ("told", "curves"),
    [
        # of the last panel an error rate by CTC and one by the decoder
        pytest.param(FULL, [2, 2, 2, 2], id="all"),
        pytest.param("loss=5.{0}, loss_ctc=5.0, cer_ctc=nan", [2, 2], id="CTC only"),
        pytest.param("loss=5.{0}", [2], id="language model"),
    ],
)
@pytest.mark.parametrize("epochs", [1, 3])
def test_curves_of_any_training_are_drawn(tmp_path, drawn, told, curves, epochs):
    lines = [LINE.format(n, told.format(n)) for n in range(1, epochs + 1)]
    (tmp_path / "train.log").write_text("".join(lines))
    pictures.training_curves(tmp_path)
    width, height = size(tmp_path / "images" / "training_curves.png")
    # two panels in a row, and no empty ones
    assert width > 800 and height > 300 * (1 + (told == FULL))
    assert [len(axes.lines) for axes in drawn[0].axes] == curves
    assert values(drawn[0].axes[0]) == [[5 + n / 10 for n in range(1, epochs + 1)]] * 2


@pytest.mark.parametrize("line", ["starting\n", LINE.format(1, "loss=nan")])
def test_training_without_a_value_has_no_curves(tmp_path, line):
    (tmp_path / "train.log").write_text(line)
    pictures.training_curves(tmp_path)
    assert not (tmp_path / "images").exists()


def test_alpha_of_every_layer_is_drawn_by_epoch(tmp_path, drawn):
    (tmp_path / "alpha.csv").write_text("1,0,0.1\n2,0.2,0.3\n2,0.3,0.4\n")
    pictures.alpha_curves(tmp_path)
    width, height = size(tmp_path / "images" / "alpha.png")
    assert width > 500 and height > 300
    # of an epoch that was begun again the last counts; and the line at 0
    first, second, _ = values(*drawn[0].axes)
    assert (first, second) == ([0, 0.3], [0.1, 0.4])


def test_models_without_alpha_have_no_picture_of_it(tmp_path):
    pictures.alpha_curves(tmp_path)
    assert not (tmp_path / "images").exists()


def test_dollars_are_no_formula(tmp_path):
    exp = tmp_path / "$a_{ $"
    exp.mkdir()
    (exp / "train.log").write_text(LINE.format(1, FULL.format(1)))
    (exp / "alpha.csv").write_text("1,0,0.1\n")
    pictures.curves(exp)
    weights = np.random.rand(2, 24)
    arrays = {"features": np.random.randn(100, 80), "decoder": weights}
    np.savez(exp / "a.npz", tokens=["$a_{ $", "b"], seconds=np.array(1.0), **arrays)
    text = "IT IS $ 3 AND_{ $ 4"
    pictures.attention(exp / "a.npz", tmp_path / "a.png", "u1", text)


@pytest.mark.parametrize("text", ["WORDS OF A TRANSCRIPT " * 5, "ALL " * 99, "好" * 99])
def test_a_long_transcript_is_cut_to_two_lines(text):
    first, second = pictures.heading(f"u1: {text}").split("\n")
    assert first.startswith("u1: ") and second.endswith("…")
    assert max(len(first), len(second)) <= (25 if "好" in text else 50)


def test_a_short_transcript_is_there_whole():
    assert pictures.heading("u1: ONE TWO") == "u1: ONE TWO"


@pytest.mark.parametrize("parts", [["encoder", "decoder"], ["encoder"], []])
def test_attention_of_any_model_is_drawn(tmp_path, drawn, parts):
    arrays = {
        "features": np.random.randn(100, 80),
        "encoder": np.random.rand(24, 24),
        "decoder": np.random.rand(3, 24),
        "tokens": np.array(["_ONE", "_TWO", "<eos>"]),
        "seconds": np.array(1.0),
    }
    kept = {n: a for n, a in arrays.items() if n in [*parts, "features", "tokens"]}
    np.savez(tmp_path / "a.npz", seconds=arrays["seconds"], **kept)
    pictures.attention(tmp_path / "a.npz", tmp_path / "a.png", "u1", "ONE TWO")
    assert size(tmp_path / "a.png")[1] > 200
    shown = [image.get_array() for axes in drawn[0].axes for image in axes.images]
    expected = [arrays["features"].T, *(arrays[part] for part in parts)]
    assert len(shown) == len(expected)
    assert all(map(np.array_equal, shown, expected))


def test_the_utterance_to_show_is_the_middle_one_of_those_that_show_something():
    lengths = {"a": 3, "b": 900, "c": 100, "d": 500, "e": 4, "f": 5}
    assert pictures.middle(lengths, 100) == "d"
    assert pictures.middle({"a": 3, "b": 5, "c": 4}, 100) == "b"


def test_the_first_token_is_at_the_top_and_time_goes_to_the_right(tmp_path, drawn):
    arrays = {
        "features": np.random.randn(100, 80),
        "decoder": np.eye(3, 24),
        "tokens": np.array(["_ONE", "_TWO", "<eos>"]),
        "seconds": np.array(2.0),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    pictures.attention(tmp_path / "a.npz", tmp_path / "a.png", "u1", "ONE TWO")
    mels, decoder = drawn[0].axes
    assert mels.images[0].get_array().shape == (80, 100)
    # its first row is at 0, which is the upper end
    np.testing.assert_array_equal(decoder.images[0].get_array(), arrays["decoder"])
    assert decoder.images[0].origin == "lower"
    bottom, top = decoder.get_ylim()
    assert bottom > top and decoder.get_xlim() == mels.get_xlim() == (0, 2)
    assert [label.get_text() for label in decoder.get_yticklabels()] == [
        *("_ONE", "_TWO", "<eos>")
    ]
