"""Pictures show transcripts in any script that some font of the machine has."""

import io
import warnings
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

from espnet_srupp.recipe import fonts

# circled numbers, which of the fonts that come with matplotlib STIX has
OTHER = "\u24b6\u24b7"
NOWHERE = "\u4e2d"


@pytest.fixture(autouse=True)
def no_other_fonts(monkeypatch):
    manager = fonts.font_manager.fontManager
    own = Path(matplotlib.get_data_path())
    fitting = [font for font in manager.ttflist if own in Path(font.fname).parents]
    monkeypatch.setattr(manager, "ttflist", fitting)


@pytest.mark.parametrize(
    "text, chosen, missing",
    [
        pytest.param("Grüße $x", [], "", id="usual"),
        pytest.param(f"a{OTHER}", ["STIXGeneral"], "", id="other font"),
        pytest.param(f"a{OTHER}{NOWHERE}\n", ["STIXGeneral"], NOWHERE, id="no font"),
    ],
)
def test_fonts_are_found_by_their_letters(text, chosen, missing):
    usual, *others = fonts.families(text)[0]
    assert (usual, others) == ("DejaVu Sans", chosen)
    assert fonts.families(text)[1] == set(missing)


def drawn(text):
    figure = Figure()
    figure.text(0.5, 0.5, text)
    file = io.BytesIO()
    figure.savefig(file)
    return file.getvalue()


def test_letters_of_another_font_are_drawn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        boxes = drawn(OTHER)
    with fonts.having(OTHER):
        letters = drawn(OTHER)
    assert letters != boxes


def test_what_cannot_be_drawn_is_told_in_a_line(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fonts.having(NOWHERE):
            drawn(NOWHERE)
    printed = capsys.readouterr().err
    assert f"no font here has {NOWHERE}" in printed and printed.count("\n") == 1
