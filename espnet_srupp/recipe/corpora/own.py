"""A corpus of one's own: Kaldi's data directories, or lhotse's manifests."""

import codecs
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.corpora import manifests
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.stamp import check_ours, stamp

TABLES = ("wav.scp", "text", "utt2spk", "segments")
KINDS = ("recordings", "supervisions")
# lines of wav.scp that are looked at for the folder that its paths begin at
LOOKED_AT = 100


def sources(folder: Path, name: str) -> list[Path]:
    """The files that hold a set.

    Args:
        folder: holds the set as a data directory of its name, or as manifests,
            called like `cv-en_recordings_NAME.jsonl.gz` and `cv-en_supervisions_...`.
        name: of the set.

    Returns:
        The tables of the data directory, or the recordings and the supervisions.

    Raises:
        RecipeError: there is neither, or there are several.
    """
    if (folder / name / "wav.scp").is_file():
        return [path for file in TABLES if (path := folder / name / file).is_file()]
    found = [
        [
            *folder.glob(f"*{kind}_{name}.jsonl"),
            *folder.glob(f"*{kind}_{name}.jsonl.gz"),
        ]
        for kind in KINDS
    ]
    if [len(files) for files in found] == [1, 1]:
        return [path for files in found for path in files]
    if any(found):
        names = ", ".join(path.name for files in found for path in files)
        raise RecipeError(
            f"{folder} has {names}, where one file of recordings and one of "
            f"supervisions make the set {name}: add the missing one, or move the "
            "others elsewhere"
        )
    raise RecipeError(
        f"{folder} has no set {name}, neither {name}/wav.scp, as Kaldi has it, nor "
        f"*_recordings_{name}.jsonl.gz, as lhotse has it: make it, or give other "
        "--train_set, --valid_set and --test_sets"
    )


def prepare(data: Path, folder: Path, name: str) -> None:
    """Stage 1: takes a set over; what is wrong with an utterance later stages tell.

    Args:
        data: where the data directories go.
        folder: where the set is. Relative paths of it begin at the nearest folder above
            it at which there is one of them.
        name: of the set.

    Raises:
        RecipeError: the set is not there, its audio is nowhere, it is no table or
            manifest, or it is the user's in `data` as well.
    """
    tables = sources(folder, name)
    if folder.resolve() == data.resolve():
        raise RecipeError(
            f"{folder} is where stage 1 writes: give --OWN another folder, or begin "
            "with --stage 2 if its sets are your own"
        )
    check_ours(data / name, 1)
    if tables[0].name == TABLES[0]:
        return take(tables, data / name)
    with manifests.reading(folder):
        made = convert(tables)
    with atomic_dir(data / name) as directory:
        datadir.write_tables(made, directory)
        stamp(directory)


def take(tables: Sequence[Path], target: Path) -> None:
    """Copies a data directory, sorted, with paths from the root."""
    lines = {path.name: lines_of(path) for path in tables}
    if "text" not in lines:
        raise RecipeError(
            f"{tables[0].parent} has no text: write the transcripts there, an id "
            "and its words on each line"
        )
    lines["wav.scp"] = from_root(lines["wav.scp"], tables[0].parent)
    if "utt2spk" not in lines:
        say(f"  {tables[0].parent} has no utt2spk: each utterance is its own speaker")
        ids = [line.split(maxsplit=1)[0] for line in lines["text"]]
        lines["utt2spk"] = [key + b" " + key for key in ids]
    with atomic_dir(target) as directory:
        for name, rows in lines.items():
            rows.sort(key=lambda line: line.split(maxsplit=1)[:1])
            (directory / name).write_bytes(b"".join(row + b"\n" for row in rows))
        stamp(directory)


def lines_of(table: Path) -> list[bytes]:
    """The lines that hold something, without what some editors put before them."""
    lines = table.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not (lines := [line for line in lines if line.strip()]):
        raise RecipeError(f"{table} is empty: fill it in")
    return lines


def from_root(lines: Sequence[bytes], source: Path) -> list[bytes]:
    rows = [line.split(maxsplit=1) for line in lines]
    paths = [os.fsdecode(row[1].strip()) for row in rows if len(row) == 2]
    top = os.fsencode(beginning(paths, source))
    return [
        # a command, which later stages refuse, or no path
        line
        if len(row) < 2 or row[1].rstrip().endswith(b"|")
        else row[0] + b" " + os.path.join(top, row[1].strip())
        for line, row in zip(lines, rows, strict=True)
    ]


def beginning(paths: Sequence[str], source: Path) -> Path:
    """The folder that relative paths of a set begin at."""
    # a set may be a link to where there is more space, but its paths be as before
    places = (Path(os.path.abspath(source)), source.resolve())
    above = [folder for place in places for folder in (place, *place.parents)]
    relative = [path for path in paths if not os.path.isabs(path)]
    relative = [path for path in relative if not path.endswith("|")]
    for path in relative[:LOOKED_AT]:
        for folder in above:
            # os.path's, as that of Path raises for a name that is too long
            if os.path.isfile(folder / path):
                return folder
    if relative:
        raise RecipeError(
            f"neither {source} nor a folder above it has {relative[0]}: write absolute "
            "paths of audio"
        )
    return source


def convert(tables: Sequence[Path]) -> DataDir:
    """The data directory of lhotse's manifests; what has no transcript is left out."""
    recordings, told = read_manifests(tables)
    heard = [s.recording_id for s in told]
    used = {*heard}
    wav = {r.id: source_of(r, tables[0]) for r in recordings if r.id in used}
    folder = beginning([*wav.values()], tables[0].parent)
    wav = {key: os.path.join(folder, path) for key, path in wav.items()}
    seconds = {r.id: r.duration for r in recordings}
    text = {s.id: s.text for s in told}
    # GigaSpeech's are N/A
    utt2spk = {s.id: one_word(s.speaker) or s.id for s in told}
    whole = all(
        s.start == 0 and abs(s.end - seconds[s.recording_id]) < 1e-2 for s in told
    )
    if whole and len({*heard}) == len(heard):
        return DataDir({s.id: wav[s.recording_id] for s in told}, text, utt2spk)
    times = {s.id: (s.recording_id, s.start, s.end) for s in told}
    return DataDir({key: wav[key] for key in heard}, text, utt2spk, times)


def read_manifests(tables: Sequence[Path]) -> tuple[list, list]:
    """Lhotse's recordings, and its supervisions that have text."""
    from lhotse import RecordingSet, SupervisionSet, load_manifest

    try:
        recordings = list(load_manifest(tables[0], RecordingSet))
        supervisions = list(load_manifest(tables[1], SupervisionSet))
    except ValueError as error:
        raise RecipeError(
            f"lhotse cannot read it ({error}): it is damaged, or not of recordings or "
            "supervisions but of cuts, say; prepare both again"
        ) from error
    for recording in recordings:
        recording.id = one_word(recording.id)
    for supervision in supervisions:
        supervision.id = one_word(supervision.id)
        supervision.recording_id = one_word(supervision.recording_id)
        # on one line
        supervision.text = " ".join(plain(supervision.text).split())
    check_once([r.id for r in recordings], tables[0])
    check_once([s.id for s in supervisions], tables[1])
    told = [s for s in supervisions if s.text]
    if untold := len(supervisions) - len(told):
        say(f"  {untold} of {len(supervisions)} of {tables[1]} have no text: left out")
    if not told:
        raise RecipeError(f"{tables[1]} has no text: give one with transcripts")
    known = {r.id for r in recordings}
    if lost := next((s for s in told if s.recording_id not in known), None):
        raise RecipeError(
            f"{tables[1]}: {lost.id} lies in {lost.recording_id}, which is not in "
            f"{tables[0].name}: prepare both again"
        )
    return recordings, told


def one_word(name: object) -> str:
    """An id as a data directory and names of files can have it."""
    return re.sub(r"[\s/]+", "_", plain(name))


def plain(value: object) -> str:
    """A text or number of JSON's as files can have it, "" for none.

    Halves of a letter become U+FFFD, which later stages tell.
    """
    text = "" if value is None else str(value)
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def check_once(ids: Sequence[str], manifest: Path) -> None:
    key, times = Counter(ids).most_common(1)[0] if ids else ("", 0)
    if times > 1:
        raise RecipeError(
            f"{manifest}: {key} is there {times} times: rename or remove all but one"
        )


def source_of(recording, path: Path) -> str:
    """The file of one of lhotse's recordings."""
    if len(recording.sources) == 1 and not recording.transforms:
        source = recording.sources[0]
        if source.type == "file":
            return source.source
    raise RecipeError(
        f"{path}: {recording.id} is not one file as it lies on disk: save its audio "
        "(lhotse's save_audios) and give the manifest of that"
    )
