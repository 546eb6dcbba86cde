"""An Ogg file with a changed bit is no audio to train on."""

import numpy as np
import pytest
import soundfile

from espnet_srupp.recipe import ogg, sound
from espnet_srupp.recipe.errors import DataError


@pytest.fixture(params=["VORBIS", "OPUS"])
def path(request, tmp_path):
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 50_001)
    soundfile.write(tmp_path / "x.ogg", noise, 16000, request.param, format="OGG")
    return tmp_path / "x.ogg"


def test_a_changed_bit_anywhere_is_told(path):
    content = path.read_bytes()
    assert len(sound.load(str(path), "x")[0]) == 50_001
    random = np.random.default_rng(1)
    for place in [*range(0, 60, 3), *random.integers(len(content), size=30)]:
        changed = bytearray(content)
        changed[place] ^= 1 << int(random.integers(8))
        path.write_bytes(changed)
        with pytest.raises(DataError, match="x.ogg .utterance x. is (corrupt|trunc)"):
            sound.load(str(path), "x")


@pytest.mark.parametrize("more", [b"", b"TAG" + bytes(125), None])
def test_what_follows_the_last_page_is_no_damage(path, more):
    content = path.read_bytes()
    path.write_bytes(content + (content if more is None else more))
    assert not ogg.damaged(str(path))


def test_what_lies_between_pages_is_damage(path):
    content = path.read_bytes()
    second = content.index(b"OggS", 4)
    path.write_bytes(content[:second] + bytes(30) + content[second:])
    assert ogg.damaged(str(path))
