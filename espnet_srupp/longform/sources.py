"""What is to be transcribed: sound files, and data directories with segments."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from espnet_srupp.recipe.datadir import read_segments
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.letters import CONTROL, check_utf8, shown
from espnet_srupp.recipe.table import read_table


@dataclass(frozen=True)
class Source:
    """A recording, or a segment of one.

    Attributes:
        name: its id, without blanks and slashes.
        path: of the sound file.
        start, end: in seconds; an `end` of None is that of the file.
    """

    name: str
    path: str
    start: float = 0.0
    end: float | None = None

    def __str__(self) -> str:
        """How errors call it."""
        whole = self.name == Path(self.path).stem
        return self.path if whole else f"{self.path} ({self.name})"

    def state(self) -> dict:
        """What changes if the audio does."""
        stat = Path(self.path).stat()
        told = {"bytes": stat.st_size, "changed": stat.st_mtime_ns}
        # a folder's or a link's name that is not UTF-8 could not be written
        path = shown(str(Path(self.path).resolve()))
        return asdict(self) | {"path": path} | told


def find(inputs: Iterable[str], problems: list[str]) -> list[Source]:
    """Lists what AUDIO arguments name, in their order.

    Args:
        inputs: sound files and data directories; of the latter wav.scp and segments are
            read. The name of a sound file is that of the file without its suffix, with
            underscores for blanks.
        problems: gets a sentence for each input or segment that cannot be used.
    """
    found: dict[str, Source] = {}
    for path in inputs:
        try:
            if Path(path).is_dir():
                sources = listed(Path(path), problems)
            else:
                sources = [single(path)]
        except (RecipeError, OSError) as error:
            # as of a name that is too long for any file
            problems.append(str(error))
            continue
        for source in sources:
            if source.name in found:
                problems.append(
                    f"{source.path} and {found[source.name].path} have the same name "
                    f"{source.name}: left out {source.path}, rename one of them"
                )
            elif spoilt := CONTROL.search(f"{source.name} {source.path}"):
                problems.append(
                    f"{path}: {source.name!a} or its path holds the character U+"
                    f"{ord(spoilt[0]):04X}: rename it"
                )
            elif "/" in source.name:
                problems.append(
                    f"{path}: the id {source.name} holds a slash: rename it"
                )
            else:
                found[source.name] = source
    return list(found.values())


def single(path: str) -> Source:
    check_utf8([path])
    return Source(re.sub(r"\s", "_", Path(path).stem), path)


def listed(directory: Path, problems: list[str]) -> list[Source]:
    """The recordings of a data directory, or its segments where it has some.

    Adds to `problems` the segments that are none.
    """
    if not (directory / "wav.scp").exists():
        raise RecipeError(
            f"{directory} has no wav.scp: give a data directory, or sound files by name"
        )
    wav = read_table(directory / "wav.scp")
    if not (directory / "segments").exists():
        return [Source(name, path) for name, path in wav.items()]
    found = []
    segments = read_segments(directory / "segments")
    for name, (recording, start, end) in segments.items():
        if recording in wav and 0 <= start < end:
            found.append(Source(name, wav[recording], start, end))
        else:
            problems.append(
                f"{directory / 'segments'}: {name} goes from {start} to {end} s of "
                f"{recording}, which is not there in wav.scp or has no such part: "
                "correct or remove it"
            )
    return found
