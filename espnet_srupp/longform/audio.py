"""Audio of joined recordings: copied bit by bit."""

import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import soundfile

from espnet_srupp.longform.groups import shortened
from espnet_srupp.longform.lengths import Span
from espnet_srupp.longform.plan import Recording
from espnet_srupp.recipe import sound
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.parallel import parallel_map


@dataclass(frozen=True)
class Format:
    """How audio is written: libsndfile's subtype, the type in memory, the suffix."""

    subtype: str
    dtype: str
    suffix: str


# what 16 bits cannot hold; FLAC knows no more than 24
DEEP = Format("PCM_24", "int32", "flac")
DEEPEST = Format("PCM_32", "int32", "wav")
WIDE = {
    "PCM_24": DEEP,
    "ALAC_20": DEEP,
    "ALAC_24": DEEP,
    "PCM_32": DEEPEST,
    "ALAC_32": DEEPEST,
    "FLOAT": Format("FLOAT", "float32", "wav"),
    "DOUBLE": Format("DOUBLE", "float64", "wav"),
}
NARROW = Format("PCM_16", "int16", "flac")


@dataclass(frozen=True)
class Job:
    """A recording to write."""

    recording: Recording
    path: Path
    form: Format


def mono(found: dict[str, Span], problems: list[str]) -> dict[str, Span]:
    """What has one channel; adds other files to `problems`."""
    left: dict[str, Span] = {}
    told: dict[str, str] = {}
    for utterance, span in found.items():
        try:
            sound.check_mono(span.channels, f"{span.path} (utterance {span.recording})")
            left[utterance] = span
        except RecipeError as error:
            told[span.recording] = str(error)
    problems += told.values()
    return left


def common_format(
    found: dict[str, Span], problems: list[str]
) -> tuple[Format, int, dict[str, Span]]:
    """How to write audio that came like this, its rate in Hz, and which is so.

    Adds to `problems` what differs from most in its rate, or in what its samples hold.
    """
    kinds: dict[tuple[Format, int], list[str]] = {}
    for utterance, span in found.items():
        kind = (WIDE.get(span.subtype, NARROW), span.rate)
        kinds.setdefault(kind, []).append(utterance)
    if len(kinds) > 1:
        # the odd ones first
        each = [
            f"{shortened(utterances)} {form.subtype} at {rate} Hz"
            for (form, rate), utterances in sorted(
                kinds.items(), key=lambda item: len(item[1])
            )
        ]
        problems.append(
            f"audio of different kinds cannot be joined: {', '.join(each)}: convert or "
            "remove some"
        )
    form, rate = max(kinds, key=lambda kind: len(kinds[kind]))
    return form, rate, {utterance: found[utterance] for utterance in kinds[form, rate]}


def write_all(
    recordings: list[Recording],
    form: Format,
    folder: Path,
    nj: int,
    problems: list[str],
) -> list[Recording]:
    """Writes recordings and returns those whose sources are good.

    Adds to `problems` what is wrong with the others.
    """
    folder.mkdir()
    jobs = [Job(r, folder / f"{r.name}.{form.suffix}", form) for r in recordings]
    told = parallel_map(write, jobs, nj, "joining", "recordings")
    bad = [r for r, some in zip(recordings, told, strict=True) if some]
    problems += [
        f"{r.name} is not made, and {shortened(list(r.parts))} left out: mend the "
        "audio, or remove what is bad from the source"
        for r in bad
        if len(r.parts) > 1
    ]
    # a file of segments can be part of several recordings
    problems += dict.fromkeys(sentence for some in told for sentence in some)
    return [r for r, some in zip(recordings, told, strict=True) if not some]


def write(job: Job) -> list[str]:
    """Writes one recording; returns what is wrong with its sources."""
    problems = []
    # by way of memory, because libsndfile does not say that the disk is full
    encoded = io.BytesIO()
    form, (_, first) = job.form, job.recording.audio[0]
    position = 0
    with soundfile.SoundFile(
        encoded, "w", first.rate, 1, form.subtype, format=form.suffix
    ) as file:
        for start, span in job.recording.audio:
            try:
                samples = load(span.path, span.recording, form.dtype)
            except RecipeError as error:
                problems.append(str(error))
            if problems:
                continue
            file.write(np.zeros(start - position, form.dtype))
            file.write(samples[span.begin : span.end])
            position = start + span.samples
    if not problems:
        job.path.write_bytes(encoded.getvalue())
    return problems


# a file of segments is read for all its recordings at once
@lru_cache(maxsize=1)
def load(path: str, recording: str, dtype: str) -> np.ndarray:
    """Checks a file and reads it in the type that keeps every bit."""
    samples, _ = sound.load(path, recording)
    if dtype == NARROW.dtype:
        # libsndfile's own 16 bits of Vorbis and Opus wrap around beyond full scale
        return sound.pcm(samples)
    return soundfile.read(path, dtype=dtype)[0]
