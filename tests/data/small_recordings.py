"""Chapters of noise to join, and what `join` made of them."""

import csv

import numpy as np
import soundfile

from espnet_srupp.longform.__main__ import main
from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir

RATE = 1000


def noise(samples, seed, dtype="int16"):
    info = np.iinfo(dtype)
    random = np.random.default_rng(seed)
    return random.integers(info.min, info.max + 1, samples, dtype)


def save(path, samples, rate=RATE, subtype="PCM_16"):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, subtype)
    return str(path)


def write_chapters(folder):
    """Four utterances of a chapter and one of another, 0.1 s to 0.5 s long."""
    data = DataDir({}, {}, {})
    for number, word in enumerate(["ONE", "TWO", "THREE", "FOUR", "FIVE"]):
        chapter = "1-20" if number < 4 else "1-21"
        utterance = f"{chapter}-{number:04}"
        samples = noise(100 * (number + 1), number)
        data.wav[utterance] = save(folder / f"wav/{utterance}.flac", samples)
        data.text[utterance] = word
        data.utt2spk[utterance] = "1"
    datadir.write(data, folder / "source")
    return folder


def join(folder, *words):
    return main(["join", str(folder / "source"), str(folder / "target"), *words])


def audio(folder):
    wav = datadir.read(folder / "target").wav
    return {name: soundfile.read(path, dtype="int16")[0] for name, path in wav.items()}


def provenance(folder):
    with open(folder / "target" / "provenance.csv", newline="") as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]
