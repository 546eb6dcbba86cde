"""Joins consecutive utterances into long recordings, sample by sample.

SOURCE is a data directory, with or without segments; TARGET becomes one that the stages
of ESPnet and of run.sh take as it is. Utterances are joined within a chapter, talk or
speaker; those left over at its end make a shorter recording, so that each utterance is
there once. TARGET/provenance.csv says where each of them lies. The same command gives
the same files, byte by byte. Bad utterances are named and left out; the exit code is
then 1.
"""

import argparse
import csv
import math
from collections.abc import Collection
from pathlib import Path

from espnet_srupp.longform import audio, plan
from espnet_srupp.longform.audio import Format
from espnet_srupp.longform.groups import IDS
from espnet_srupp.longform.lengths import Span, limited, spans
from espnet_srupp.longform.plan import Recording
from espnet_srupp.longform.words import UNSPACED
from espnet_srupp.recipe import datadir, files
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.faults import Faults
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.letters import check_utf8
from espnet_srupp.recipe.options import cores
from espnet_srupp.recipe.table import read_lines, write_table

PROVENANCE = "provenance.csv"
COLUMNS = ("recording", "utterance", "start_sample", "samples", "start", "seconds")


def options(parser: argparse.ArgumentParser) -> None:
    """The command line of `join`."""
    parser.add_argument("source", metavar="SOURCE", type=Path, help="data directory")
    parser.add_argument("target", metavar="TARGET", type=Path, help="the new one")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--num-utts", metavar="N", type=int, help="utterances per recording"
    )
    how.add_argument(
        "--target-seconds",
        metavar="S",
        type=float,
        help="as many utterances per recording as make S seconds or more",
    )
    how.add_argument(
        "--whole",
        action="store_true",
        help="each recording of SOURCE/segments, from its first segment to its last",
    )
    parser.add_argument(
        "--gap",
        metavar="SECONDS",
        type=float,
        default=0.0,
        help="silence (zeros) between utterances (default: 0)",
    )
    parser.add_argument(
        "--group",
        metavar="REGEX",
        help="searched in each id: utterances whose first group is the same belong "
        "together, '()' joins all; default: the recording of a segment, else the "
        f"chapter, talk or speaker by ids of {', '.join(IDS)}",
    )
    parser.add_argument(
        "--no-space",
        action="store_true",
        help="no blank between texts; the default where most have none and are "
        "Chinese, Japanese, Thai, Lao, Burmese or Khmer",
    )
    parser.add_argument(
        "--nj",
        metavar="N",
        type=int,
        default=cores(),
        help="processes (default: %(default)s)",
    )


def run(given: argparse.Namespace) -> None:
    """Joins as the command line says.

    Raises:
        RecipeError: options contradict; or, once all else is joined, with a sentence
            for each utterance that could not be.
    """
    check(given)
    faults: Faults = {}
    data = datadir.read(given.source, faults)
    problems = [str(fault) for fault in faults.values()]
    if given.whole and data.segments is None:
        raise RecipeError(
            f"{given.source} has no segments, which --whole needs: give --num-utts or "
            "--target-seconds"
        )
    found = audio.mono(spans(data, problems), problems)
    if not found:
        raise RecipeError(*limited(problems))
    form, rate, found = audio.common_format(found, problems)
    data = datadir.without(data, data.text.keys() - found.keys())
    recordings = planned(given, data, found, rate, problems)
    blank = "" if given.no_space or unspaced(data.text.values()) else " "
    with atomic_dir(given.target) as directory:
        recordings = audio.write_all(
            recordings, form, directory / "audio", given.nj, problems
        )
        if not recordings:
            raise RecipeError(*limited(problems))
        texts = {r.name: blank.join(data.text[u] for u in r.parts) for r in recordings}
        write_tables(recordings, texts, form, directory, given.target)
        write_provenance(recordings, found, rate, directory / PROVENANCE)
    longest = max(recording.samples for recording in recordings) / rate
    joined = sum(len(recording.parts) for recording in recordings)
    print(
        f"{given.target}: {joined} utterances in {len(recordings)} recordings, "
        f"the longest {longest:.1f} s"
    )
    if blank and not any(" " in text for text in data.text.values()):
        print(
            f"no transcript of {given.source} has a blank: where the script has none, "
            "give --no-space"
        )
    if problems:
        raise RecipeError(*limited(problems))


def unspaced(texts: Collection[str]) -> bool:
    """Whether most of them are of such a script, and without blanks."""
    found = sum(" " not in text and bool(UNSPACED.search(text)) for text in texts)
    return 2 * found > len(texts)


def planned(
    given: argparse.Namespace,
    data: DataDir,
    found: dict[str, Span],
    rate: int,
    problems: list[str],
) -> list[Recording]:
    if given.whole:
        # their audio has words that the text would lack
        lost = incomplete(given.source / "segments", found)
        problems += [f"{r} is left out, as a segment of it is" for r in sorted(lost)]
        bad = {u for u, (recording, *_) in data.segments.items() if recording in lost}
        return plan.whole(datadir.without(data, bad), found)
    return plan.join(
        data,
        found,
        given.group,
        given.num_utts or math.inf,
        (given.target_seconds or math.inf) * rate,
        round(given.gap * rate),
        problems,
    )


def incomplete(segments: Path, found: dict[str, Span]) -> set[str]:
    """The recordings of which a segment is not `found`, be its line ever so broken."""
    lines = [
        line.decode("utf-8", "backslashreplace").split()
        for line in read_lines(segments)
    ]
    return {
        recording
        for utterance, recording, *_ in filter(lambda words: len(words) > 1, lines)
        if utterance not in found
    }


def check(given: argparse.Namespace) -> None:
    check_utf8([str(given.target)])
    for name in ("num_utts", "target_seconds", "nj"):
        value = getattr(given, name)
        if value is not None and not 0 < value < math.inf:
            option = name.replace("_", "-")
            raise RecipeError(f"--{option} {value} is not a number above 0: correct it")
    if not 0 <= given.gap < math.inf:
        raise RecipeError(f"--gap {given.gap} is not 0 or more seconds: correct it")
    if given.whole and (given.gap or given.group is not None):
        raise RecipeError(
            "--whole takes talks as they are: leave out --gap and --group"
        )
    source, target = given.source.resolve(), given.target.resolve()
    if source == target or target in source.parents:
        raise RecipeError(
            f"{given.target} holds {given.source}, and would be replaced: give another "
            "TARGET"
        )
    files.claim(given.target.parent, "the folder of TARGET,")
    if given.target.exists() and not (given.target / PROVENANCE).exists():
        raise RecipeError(
            f"{given.target} is there and was not made by join: remove it or give "
            "another TARGET"
        )


def write_tables(
    recordings: list[Recording],
    texts: dict[str, str],
    form: Format,
    directory: Path,
    target: Path,
) -> None:
    """Writes what a data directory and what stage 3 makes of one consist of."""
    wav = {r.name: f"{target}/audio/{r.name}.{form.suffix}" for r in recordings}
    made = DataDir(wav, texts, {r.name: r.speaker for r in recordings})
    datadir.write_files(made, directory, target)
    samples = {recording.name: recording.samples for recording in recordings}
    write_table(samples, directory / "utt2num_samples")
    (directory / "feats_type").write_text("raw\n")
    (directory / "audio_format").write_text(f"{form.suffix}\n")


def write_provenance(
    recordings: list[Recording], found: dict[str, Span], rate: int, path: Path
) -> None:
    """Writes where each utterance lies, in samples and in seconds."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for recording in recordings:
            for utterance, start in recording.parts.items():
                samples = found[utterance].samples
                times = (f"{n / rate:.6f}" for n in (start, samples))
                row = (recording.name, utterance, start, samples, *times)
                table.writerow(row)
