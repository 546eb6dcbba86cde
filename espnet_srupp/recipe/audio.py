"""Stages 2 and 3 on audio: perturb the speed, check and format."""

from collections.abc import Collection
from pathlib import Path

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.faults import Faults, refuse, settle
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.letters import check_length
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.recording import Recording, hear, recordings
from espnet_srupp.recipe.stamp import stamp
from espnet_srupp.recipe.table import write_table

FILES_PER_FOLDER = 1000  # more are slow to list


def perturb_speed(
    source: Path,
    target: Path,
    factors: list[float],
    fs: int,
    nj: int,
    scheduler: str = "",
    strict: bool = False,
    resample: bool = False,
) -> None:
    """Stage 2: a set at several speeds, tempo and pitch together, as by `sox speed`.

    Args:
        source: a data directory.
        target: the data directory to make; at speed 0.9 the utterance `u` of speaker
            `s` is `sp0.9-u` of `sp0.9-s`, its audio FLAC under `target/audio`. Speed
            1.0 is the original: same ids, and same files unless there are segments.
        factors: the speeds, each above 0 and there once.
        fs: the sampling rate that all audio must have, in Hz.
        nj: number of processes.
        scheduler: of Dask, in their place; see `parallel.executor`.
        strict: stop at an utterance that cannot be used, instead of leaving it out;
            `target/dropped` lists those.
        resample: bring audio of another rate to it, and write a file of each utterance
            for that, at speed 1.0 too.

    Raises:
        RecipeError: too much of the source or its audio is bad, or an id is that of
            another utterance at a speed.
    """
    faults: Faults = {}
    data = datadir.read(source, faults)
    check_names(data, factors, source, faults)
    data = datadir.without(data, faults)
    refuse(faults, len(data.text), source, strict)
    with atomic_dir(target) as directory:
        made, jobs = at_speeds(data, factors, directory, target, fs, resample)
        title = (
            f"{source} at {fs} Hz" if resample else f"speed perturbation of {source}"
        )
        faults |= hear(jobs, nj, title, scheduler).faults
        # what is left out already may be called as another one is at a speed
        lost = data.text.keys() & faults.keys()
        bad = {speed_prefix(f) + utterance for f in factors for utterance in lost}
        settle(faults, len(data.text.keys() - faults.keys()), source, strict)
        write_kept(made, bad, faults, directory, target)
        stamp(directory)


def check_names(
    data: DataDir, factors: list[float], source: Path, faults: Faults
) -> None:
    """Notes the utterances whose files could not be called by their ids at a speed."""
    longest = max(map(speed_prefix, factors), key=len, default="")
    for utterance, speaker in data.utt2spk.items():
        for word in (utterance, speaker):
            check_length(longest + word, utterance, source, faults)


def at_speeds(
    data: DataDir,
    factors: list[float],
    directory: Path,
    target: Path,
    fs: int,
    resample: bool,
) -> tuple[DataDir, list[Recording]]:
    """The set at all speeds, and what writes its files to `directory` for `target`."""
    made = DataDir({}, {}, {})
    jobs: list[Recording] = []
    for factor in factors:
        prefix = speed_prefix(factor)
        if taken := sorted(made.text.keys() & {prefix + u for u in data.text}):
            raise RecipeError(
                f"{taken[0]} would be two utterances, as it is also the name of one at "
                f"speed {factor:g}: rename it"
            )
        made.text |= {prefix + u: text for u, text in data.text.items()}
        made.utt2spk |= {prefix + u: prefix + s for u, s in data.utt2spk.items()}
        if factor == 1 and data.segments is None and not resample:
            made.wav |= data.wav
            continue
        files = {
            u: f"audio/speed{factor:g}/{n // FILES_PER_FOLDER + 1}/{prefix}{u}.flac"
            for n, u in enumerate(data.text)
        }
        made.wav |= {prefix + u: f"{target}/{file}" for u, file in files.items()}
        paths = {u: directory / file for u, file in files.items()}
        jobs += recordings(data, paths, fs, factor=factor, resample=resample)
    return made, jobs


def speed_prefix(factor: float) -> str:
    """What ids begin with at a speed."""
    return "" if factor == 1 else f"sp{factor:g}-"


def format_audio(
    source: Path,
    target: Path,
    fs: int,
    audio_format: str,
    nj: int,
    scheduler: str = "",
    strict: bool = False,
    whole: bool = False,
    resample: bool = False,
) -> None:
    """Stage 3: reads every sample once and leaves one file per utterance.

    An utterance that has its own file in the wanted format stays where it is; others
    are written to `target/data`. utt2num_samples tells the length of each, and
    utt2hash is by what later stages see that a file holds other audio than before.

    Args:
        source: a data directory.
        target: the data directory to make; it has no segments.
        fs: the sampling rate that all audio must have, in Hz.
        audio_format: "flac" or "wav", 16 bits.
        nj: number of processes.
        scheduler: of Dask, in their place; see `parallel.executor`.
        strict: stop at an utterance that cannot be used, instead of leaving it out;
            `target/dropped` lists those.
        whole: the set is for tests, which compare only as a whole: stop as well, but
            not at silence, which can be decoded.
        resample: bring audio of another rate to `fs`, and write a file of each
            utterance for that.

    Raises:
        RecipeError: audio is missing, corrupt, truncated, empty, silent, of several
            channels or of another rate, or a line of the source is bad, and it stops
            at that or more than a tenth is so; names file and utterance.
    """
    faults: Faults = {}
    data = datadir.read(source, faults)
    refuse(faults, len(data.text), source, strict or whole)
    with atomic_dir(target) as directory:
        made, paths = in_format(data, audio_format, directory, target, resample)
        jobs = recordings(data, paths, fs, resample=resample)
        heard = hear(jobs, nj, f"audio of {source}", scheduler)
        faults |= heard.faults
        if whole:
            faults = {u: f for u, f in faults.items() if f.kind != "silent"}
        left = data.text.keys() - faults.keys()
        settle(faults, len(left), source, strict or whole)
        write_kept(made, faults, faults, directory, target)
        for name, found in (("num_samples", heard.samples), ("hash", heard.hashes)):
            write_table({u: found[u] for u in left}, directory / f"utt2{name}")
        (directory / "feats_type").write_text("raw\n")
        (directory / "audio_format").write_text(f"{audio_format}\n")
    if heard.clipped:
        say(f"  {len(heard.clipped)} utterances of {source} are clipped, and kept")


def in_format(
    data: DataDir, audio_format: str, directory: Path, target: Path, anew: bool
) -> tuple[DataDir, dict[str, Path | None]]:
    """The set with a file for each utterance, and where to write it, if it is to be.

    With `anew` every utterance is written, whatever its file is like.
    """
    whole = data.segments is None and not anew
    made = DataDir({}, data.text, data.utt2spk)
    paths: dict[str, Path | None] = {}
    for number, utterance in enumerate(data.text):
        path = data.wav.get(utterance, "")
        if whole and path.lower().endswith(f".{audio_format}"):
            made.wav[utterance], paths[utterance] = path, None
            continue
        folder = f"data/format.{number // FILES_PER_FOLDER + 1}"
        file = f"{folder}/{utterance}.{audio_format}"
        made.wav[utterance], paths[utterance] = f"{target}/{file}", directory / file
    return made, paths


def write_kept(
    data: DataDir,
    bad: Collection[str],
    faults: Faults,
    directory: Path,
    target: Path,
) -> None:
    """Writes `data` without the utterances `bad`, and why in the file `dropped`."""
    datadir.write_files(datadir.without(data, bad), directory, target)
    write_table(faults, directory / "dropped")
