"""Stage 4: leaves out what is too short or too long to train on."""

from collections.abc import Mapping
from pathlib import Path

from espnet_srupp.recipe import datadir, stage
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.table import read_table, write_table


def filter_length(
    source: Path, target: Path, fs: int, min_seconds: float, max_seconds: float
) -> None:
    """Makes a set of the utterances whose length is within limits.

    Args:
        source: a data directory that `audio.format_audio` made.
        target: the data directory to make; the file `dropped` lists what was left out
            with its length in seconds.
        fs: the sampling rate in Hz.
        min_seconds: utterances of this length or less are left out.
        max_seconds: utterances of this length or more are left out.

    Raises:
        RecipeError: nothing is left, or the source is bad.
    """
    data = datadir.read(source)
    samples = {u: int(n) for u, n in read_table(source / "utt2num_samples").items()}
    if samples.keys() != data.text.keys():
        raise RecipeError(
            f"{source / 'utt2num_samples'} lists other utterances than text: make both "
            "again with stage 3 (--stage 3)"
        )
    dropped = data.text.keys() - within(samples, fs, min_seconds, max_seconds).keys()
    if dropped == data.text.keys():
        raise RecipeError(
            f"{source}: no utterance is longer than {min_seconds} s and shorter than "
            f"{max_seconds} s: change --min_wav_duration or --max_wav_duration"
        )

    left = datadir.without(data, dropped)
    with atomic_dir(target) as directory:
        datadir.write_files(left, directory, target)
        for name in ("utt2num_samples", "utt2hash"):
            table = read_table(source / name)
            write_table({u: table[u] for u in left.text}, directory / name)
        seconds = {u: f"{samples[u] / fs:.3f}" for u in dropped}
        write_table(seconds, directory / "dropped")
        for name in ("feats_type", "audio_format"):
            (directory / name).write_bytes((source / name).read_bytes())
    if dropped:
        say(f"  {len(dropped)} left out for their length, see {target / 'dropped'}")


def within(
    samples: Mapping[str, int], fs: int, min_seconds: float, max_seconds: float
) -> dict[str, int]:
    """The utterances whose length in samples is within limits."""
    low, high = int(min_seconds * fs), int(max_seconds * fs)
    return {u: n for u, n in samples.items() if low < n < high}


def check_filter(path: Path, filtered: bool) -> None:
    """Sees that a set in the dump is as stage 4 leaves it, or as stage 3.

    What one command has for training or validation, and so filters, may be a test set
    of another under the same name.

    Raises:
        RecipeError: another run.sh has made it otherwise.
    """
    options = (stage.read(stage.marker(path)) or {}).get("options")
    if not options or ("max_wav_duration" in options) == filtered:
        return
    what = "whole, for tests" if filtered else "filtered by length, for training"
    raise RecipeError(
        f"{path} was made {what}, by another command: make it anew with --stage 3 "
        "--stop_stage 4, or keep the two apart by --dumpdir"
    )
