"""TED-LIUM 3, legacy split: 452 hours of English talks (Hernandez et al., 2018).

Utterances, their padding and their words are those of ESPnet's egs2/tedlium3, which has
them from Kaldi's s5_r3, but for what recipes/tedlium3/asr1/README.md tells.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path

from espnet_srupp.recipe.corpora import manifests, sets
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import open_text
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.truncation import truncated

URL = f"{manifests.OPENSLR}/51/TEDLIUM_release-3.tgz"
# the same that torchaudio checks
SHA256 = "ad1e454d14d1ad550bc2564c462d87c7a7ec83d4dc2b9210f22ab4973b9eccdb"
NAME = "TEDLIUM_release-3"
# utterances of each part
SIZES = {"train": 268263, "dev": 507, "test": 1155}
# seconds; the training segments are cut too close to the speech
START_PADDING, END_PADDING = 0.15, 0.1
LM_WORDS = 100
BRACKETS = str.maketrans("{}<>", "[][]")


def prepare(data: Path, downloads: Path, folder: Path | None, partial: bool) -> None:
    """Stage 1: writes train, dev and test, with segments.

    Args:
        data: where the data directories go.
        downloads: TED-LIUM is unpacked to its `TEDLIUM_release-3` folder if there is no
            other; an archive TEDLIUM_release-3.tgz in it is not downloaded.
        folder: `TEDLIUM_release-3` on disk, or the folder that holds it.
        partial: take a corpus that is not whole, and say what is missing.

    Raises:
        RecipeError: it cannot be had, is not whole, or is not readable.
    """
    from lhotse.recipes.tedlium import prepare_tedlium

    if folder is None:
        manifests.fetch(URL, downloads, NAME, SHA256)
    root = manifests.locate(folder or downloads, NAME)
    parts = manifests.present(root, folders(root), partial)
    with manifests.reading(root):
        found = prepare_tedlium(root, dataset_parts=parts)
    made = {
        part: talks(found[part], part, partial) if part in parts else None
        for part in SIZES
    }
    sizes = {part: len(made[part].text) for part in parts}
    manifests.check_whole(root, sizes, SIZES, partial)
    sets.write(made, data)


def sentences(downloads: Path, folder: Path | None) -> Iterator[str]:
    """The corpus's text for language models: news and more, filtered as ESPnet's.

    Args:
        downloads: where stage 1 has unpacked TED-LIUM, if there is no `folder`.
        folder: as for `prepare`.

    Raises:
        RecipeError: it is not there.
    """
    files = lm_files(downloads, folder)
    if not files:
        raise RecipeError(
            f"{manifests.locate(folder or downloads, NAME) / 'LM'} has no text for a "
            "language model: unpack it there, or name other text by --lm_train_text"
        )
    for path in files:
        with open_text(path) as lines:
            # as ESPnet's, without what is there twice in a row
            for line, _ in groupby(lines):
                sentence = words(line.replace(" </s>", ""))
                if sentence.isascii() and len(sentence.split()) < LM_WORDS:
                    yield sentence


def lm_files(downloads: Path, folder: Path | None) -> list[Path]:
    """The files of that text."""
    root = manifests.locate(folder or downloads, NAME)
    return sorted((root / "LM").glob("*.en.gz"))


def content(folder: Path) -> str:
    """What there is in a folder, for the record of stage 1."""
    root = manifests.locate(folder, NAME)
    # audio as well, as its length counts; by name, as those of training can be links
    stm = folders(root).values()
    return manifests.content(root, [*stm, *(path.with_name("sph") for path in stm)])


def folders(root: Path) -> dict[str, Path]:
    return {part: root / "legacy" / part / "stm" for part in SIZES}


def talks(manifest: dict, part: str, partial: bool) -> DataDir:
    """The data directory of a part; what has no words is left out.

    So are, if `partial`, training talks that are shorter than their headers say.
    """
    wav = manifests.sources(manifest)
    lengths = {r.id: r.duration for r in manifest["recordings"]}
    for talk in [talk for talk, path in wav.items() if truncated(path)]:
        path = wav.pop(talk)
        if part != "train":
            raise RecipeError(f"{path} is truncated: unpack the corpus again")
        if not partial:
            raise RecipeError(
                f"{path} is truncated: unpack the corpus again, or leave it out with "
                "--partial true"
            )
        say(f"  {path} is truncated, and left out")
    made = DataDir(wav, {}, {}, {})
    by_talk: dict[str, list] = {}
    for supervision in manifest["supervisions"]:
        if supervision.recording_id in wav:
            by_talk.setdefault(supervision.recording_id, []).append(supervision)
    for talk, supervisions in by_talk.items():
        supervisions.sort(key=lambda s: s.start + s.end)
        times = [(s.start, s.end) for s in supervisions]
        if part == "train":
            times = padded(times, lengths[talk])
        for supervision, (start, end) in zip(supervisions, times, strict=True):
            if text := words(supervision.text):
                utterance = utterance_id(talk, supervision.start, supervision.end)
                made.text[utterance] = text
                made.utt2spk[utterance] = talk
                made.segments[utterance] = (talk, start, end)
    return made


def utterance_id(talk: str, start: float, end: float) -> str:
    """ESPnet's id: the talk, and its times before padding in hundredths of a second.

    Those are cut off, not rounded, as ESPnet's awk does.
    """
    return f"{talk}-{int(100 * start):07d}-{int(100 * end):07d}"


def padded(
    times: Iterable[tuple[float, float]], length: float
) -> list[tuple[float, float]]:
    """Longer segments, as by Kaldi's extend_segment_times.py.

    Args:
        times: (start, end) of the segments of a talk in seconds, in their order.
        length: of the talk in seconds.

    Returns:
        The same with padding; where that would overlap, each gets half of the overlap.
    """
    result = [
        [max(0.0, start - START_PADDING), min(length, end + END_PADDING)]
        for start, end in times
    ]
    for this, following in pairwise(result):
        if this[1] > following[0]:
            this[1] = following[0] = (this[1] + following[0]) / 2
    return [(round(start, 6), round(end, 6)) for start, end in result]


def words(text: str) -> str:
    """A transcript without marks of pronunciation and silence.

    "it 's" becomes "it's" and "<unk>" "[unk]", which --bpe_nlsyms keeps whole.
    """
    text = re.sub(r"\([0-9]\)|<sil>|\([^ ]*\)$", "", text)
    text = re.sub(r"(\S+) ('\S*)", r"\1\2", " ".join(text.split()))
    return text.translate(BRACKETS)
