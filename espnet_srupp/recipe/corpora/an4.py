"""AN4: 948 + 130 spoken letters, numbers and addresses of 84 speakers (CMU, 1991)."""

import hashlib
import re
from pathlib import Path

from espnet_srupp.recipe.archive import unpack
from espnet_srupp.recipe.corpora import sets
from espnet_srupp.recipe.datadir import DataDir, without
from espnet_srupp.recipe.download import checksum, download
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir

COMMIT = "b567d132f43304e70a2b2eca6077f22255311812"
URL = f"https://codeload.github.com/cmusphinx/an4/tar.gz/{COMMIT}"
# of the lists and the audio, see `content_sha256`; the archive itself has no fixed
# checksum, since GitHub packs it anew
SHA256 = "ee8383d84f8f04bf0808377b194c31742f481f325b700ffa3d869bd13a1e12b6"
PARTS = {"train": ("an4_clstk", 948), "test": ("an4test_clstk", 130)}
TRAIN_DEV = 100  # as in ESPnet's egs2/an4
LINE = re.compile(r"(?:<s> )?(.+?)(?: </s>)? \((\w+)-(\w+)-(\w+)\)")


def prepare(data: Path, downloads: Path, archive: Path | None) -> None:
    """Stage 1: unpacks AN4 and writes train_nodev, train_dev and test as ESPnet does.

    The file an251-fash-b is the utterance fash-an251-b of the speaker fash. Sorted by
    that id in the C locale, the first 100 training utterances are train_dev.

    Args:
        data: where the data directories go.
        downloads: AN4 is unpacked to its `an4` folder, and stays there.
        archive: a local copy of the archive, or None for AN4 as it is there, or else
            a download from GitHub.

    Raises:
        RecipeError: the archive cannot be had, or does not hold AN4 bit for bit.
    """
    target = downloads / "an4"
    if archive or not target.is_dir():
        if archive is None:
            archive = downloads / f"an4-{COMMIT[:7]}.tar.gz"
            download(URL, archive)
        with atomic_dir(target) as directory:
            unpack(archive, directory)
            verify(find_root(directory, archive), archive)
    else:
        verify(find_root(target, target), target)
    root = find_root(target, target)
    train, test = (read_part(root, name) for name in PARTS)
    train_dev = set(sorted(train.text)[:TRAIN_DEV])
    made = {
        "train_nodev": without(train, train_dev),
        "train_dev": without(train, train.text.keys() - train_dev),
        "test": test,
    }
    sets.write(made, data)


def find_root(directory: Path, archive: Path) -> Path:
    """The folder that holds AN4; the top folder's name differs between archives."""
    for path in directory.glob("*/etc/an4_train.fileids"):
        return path.parent.parent
    raise RecipeError(
        f"{archive} does not hold AN4 (no */etc/an4_train.fileids in it): give an "
        "archive of github.com/cmusphinx/an4 with --archive, or leave it out"
    )


def verify(root: Path, archive: Path) -> None:
    """Checks that the lists and the audio are AN4's, bit for bit."""
    for path in audio_files(root):
        if not path.is_file():
            raise RecipeError(
                f"{archive} lacks {path.relative_to(root)}: remove it and fetch it "
                "again"
            )
    found = content_sha256(root)
    if found != SHA256:
        raise RecipeError(
            f"{archive} holds other audio or lists than AN4 (SHA-256 of the content "
            f"{found}, not {SHA256}): remove it and fetch it again"
        )


def audio_files(root: Path) -> list[Path]:
    files = []
    for name in PARTS:
        lines = (root / f"etc/an4_{name}.fileids").read_text().split()
        files += [root / "wav" / f"{line}.wav" for line in lines]
    return files


def content_sha256(root: Path) -> str:
    """SHA-256 over names and SHA-256s of the files that the recipe uses."""
    lists = [
        root / f"etc/an4_{name}.{kind}"
        for name in PARTS
        for kind in ("fileids", "transcription")
    ]
    total = hashlib.sha256()
    for path in sorted([*lists, *audio_files(root)]):
        line = f"{checksum(path)}  {path.relative_to(root).as_posix()}\n"
        total.update(line.encode())
    return total.hexdigest()


def read_part(root: Path, name: str) -> DataDir:
    folder, count = PARTS[name]
    data = DataDir({}, {}, {})
    transcription = root / f"etc/an4_{name}.transcription"
    for number, line in enumerate(transcription.read_text().splitlines(), 1):
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise RecipeError(
                f"{transcription} line {number} is not 'WORDS (file)': unpack AN4 again"
            )
        words, file, speaker, session = match.groups()
        utterance = f"{speaker}-{file}-{session}"
        data.text[utterance] = words
        data.utt2spk[utterance] = speaker
        data.wav[utterance] = (
            f"{root}/wav/{folder}/{speaker}/{file}-{speaker}-{session}.wav"
        )
    if len(data.text) != count:
        raise RecipeError(
            f"{transcription} has {len(data.text)} utterances, not {count}: remove "
            f"{root.parent} and run stage 1 again"
        )
    return data
