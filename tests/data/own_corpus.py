"""A corpus of the user's own, for the tests of recipes/own."""

import numpy as np
import soundfile


def record(path, seconds=1.0, rate=16000):
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, int(seconds * rate))
    soundfile.write(path, samples, rate)


def kaldi(folder, wav, text="a HELLO\n", **tables):
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in {"wav.scp": wav, "text": text, **tables}.items():
        (folder / name).write_text(lines)
