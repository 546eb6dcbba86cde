"""mini: an hour of English commands spoken by espeak-ng, made on the spot.

Every word is in train; no sentence and no voice of one set is in another.
The same samples come out of every run on the same machine, for any number of processes.
"""

import os
import random
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from espnet_srupp.recipe import sound
from espnet_srupp.recipe.corpora import sets
from espnet_srupp.recipe.corpora.espeak import Voice, speak
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.options import cores
from espnet_srupp.recipe.parallel import begin, parallel_map

SAMPLING_RATE = 16000
SEED = 2021
SENTENCES_PER_SPEAKER = 40
RATES = range(140, 201)  # words per minute
PITCHES = range(25, 76)
PEAK = 0.5
NOISE_DB = (-50, -30)  # white noise below the peak of the speech

ACCENTS = ["en-us", "en", "en-gb-x-rp", "en-gb-scotland"]
ACCENTS += ["en-029", "en-us-nyc", "en-gb-x-gbcwmd", "en-gb-x-gbclan"]
# espeak-ng's natural variants; the set that owns one is the only set that hears it.
# None has "breath", whose noise espeak-ng starts from memory that it never wrote
VARIANTS = {
    "train": [
        *("m1", "m2", "m4", "m5", "m7", "m8", "f1", "Alex", "Andy", "Annie"),
        *("Denis", "Gene", "Henrique", "Hugo", "Jacky", "Lee", "Mario", "Michael"),
        *("Mike", "adam", "anika", "antonio", "aunty", "benjamin", "zac", "edward2"),
        *("david", "ed", "edward", "iven", "iven2", "john", "kaukovalta", "klatt"),
        *("klatt2", "klatt3", "linda", "marcelo", "max", "michel", "norbert"),
        *("pablo", "paul", "pedro", "rob", "robert", "shelby", "steph"),
    ],
    "dev": ["m6", "belinda", "ian", "gustave"],
    "test": ["m3", "f4", "miguel", "quincy", "boris", "travis"],
}

PATTERNS = [
    "{switch} {on} the {colour} {thing} in the {room}",
    "bring {number} {colour} {goods} to the {room}",
    "{meet} {name} at {number} in the {noon}",
    "what is {number} {plus} {number}",
    "remind {name} to {clean} the {thing} on {day}",
    "set the {thing} in the {room} to {number}",
    "is the {thing} in the {room} {on}",
    "play {music} in the {room} for {number} minutes",
]
WORDS = {
    "switch": ["turn", "switch"],
    "on": ["on", "off"],
    "colour": ["red", "green", "blue", "white", "black", "yellow"],
    "thing": ["lamp", "fan", "heater", "radio", "camera", "oven"],
    "room": ["kitchen", "garden", "bedroom", "bathroom", "office", "garage"],
    "number": [
        *("one", "two", "three", "four", "five", "six"),
        *("seven", "eight", "nine", "ten", "eleven", "twelve"),
    ],
    "goods": ["cups", "plates", "lemons", "chairs", "books", "boxes"],
    "meet": ["call", "meet", "wake"],
    "name": ["anna", "peter", "maria", "david"],
    "noon": ["morning", "evening"],
    "plus": ["plus", "times", "minus"],
    "clean": ["clean", "check", "move"],
    "day": ["monday", "tuesday", "thursday", "friday", "sunday"],
    "music": ["music", "news", "songs"],
}


@dataclass(frozen=True)
class Speaker:
    """What one process speaks: sentences by utterance id, written into `folder`."""

    voice: Voice
    sentences: dict[str, str]
    folder: Path


def prepare(data: Path, downloads: Path, archive: Path | None) -> None:
    """Stage 1: speaks the corpus and writes data/{train,dev,test}.

    Args:
        data: where the data directories go.
        downloads: the audio goes to its `mini` folder.
        archive: None; there is no archive of this corpus.

    Raises:
        RecipeError: an archive was given, or espeakng-loader is not usable.
    """
    if archive is not None:
        raise RecipeError(f"mini is spoken on the spot: leave out --archive {archive}")
    for name, scripts in cast().items():
        folder = downloads / "mini" / name
        with atomic_dir(folder) as directory:
            jobs = [Speaker(v, lines, directory) for v, lines in scripts.items()]
            parallel_map(speak_alone, jobs, cores(), f"speaking {name}", "speaker")
        made = DataDir({}, {}, {})
        for voice, lines in scripts.items():
            made.text |= lines
            made.utt2spk |= dict.fromkeys(lines, str(voice))
            made.wav |= {u: f"{folder}/{voice}/{u}.flac" for u in lines}
        sets.write({name: made}, data)


def cast() -> dict[str, dict[Voice, dict[str, str]]]:
    """Who says what in each set: voices and their sentences by utterance id.

    Each variant of a set is one speaker; the accents take turns.
    """
    rng = random.Random(SEED)
    sets: dict[str, dict[Voice, dict[str, str]]] = {}
    for name, variants in VARIANTS.items():
        sets[name] = {}
        for number, variant in enumerate(variants):
            accent = ACCENTS[number % len(ACCENTS)]
            voice = Voice(accent, variant, rng.choice(RATES), rng.choice(PITCHES))
            sets[name][voice] = {
                f"{voice}-{i:03d}": sentence(rng, name)
                for i in range(SENTENCES_PER_SPEAKER)
            }
    return sets


def sentence(rng: random.Random, name: str) -> str:
    """A sentence of the set `name`; which set owns a sentence hangs on its letters."""
    while True:
        words = [
            rng.choice(WORDS[word[1:-1]]) if word.startswith("{") else word
            for word in rng.choice(PATTERNS).split()
        ]
        line = " ".join(words)
        share = random.Random(line).randrange(10)
        if name == {0: "dev", 1: "test"}.get(share, "train"):
            return line


def speak_alone(speaker: Speaker) -> None:
    # a new process per speaker: only its first words are the same every time
    with ProcessPoolExecutor(1, initializer=begin, initargs=(os.getpid(),)) as pool:
        pool.submit(record, speaker).result()


def record(speaker: Speaker) -> None:
    folder = speaker.folder / str(speaker.voice)
    folder.mkdir(parents=True)
    spoken = speak(speaker.voice, list(speaker.sentences.values()))
    for utterance, (samples, rate) in zip(speaker.sentences, spoken, strict=True):
        noise = np.random.default_rng(zlib.crc32(utterance.encode()))
        x = soxr.resample(samples / 32768, rate, SAMPLING_RATE)
        x = x * (PEAK / np.abs(x).max())
        level = PEAK * 10 ** (noise.uniform(*NOISE_DB) / 20)
        x += level * noise.standard_normal(len(x))
        sound.save(folder / f"{utterance}.flac", x, SAMPLING_RATE)
