"""LibriSpeech: 960 hours of English audio books (Panayotov et al., ICASSP 2015).

The sets are ESPnet's; a speaker is a reader, in ESPnet a chapter of a reader.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_srupp.recipe.corpora import manifests, sets
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.download import download
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import open_text
from espnet_srupp.recipe.options import cores

URL = f"{manifests.OPENSLR}/12"
LM_URL = f"{manifests.OPENSLR}/11/librispeech-lm-norm.txt.gz"
# utterances of each part
SIZES = {
    "train-clean-100": 28539,
    "train-clean-360": 104014,
    "train-other-500": 148688,
    "dev-clean": 2703,
    "dev-other": 2864,
    "test-clean": 2620,
    "test-other": 2939,
}
# of the archives, the same that torchaudio checks
SHA256 = {
    "train-clean-100": (
        "d4ddd1d5a6ab303066f14971d768ee43278a5f2a0aa43dc716b0e64ecbbbf6e2"
    ),
    "train-clean-360": (
        "146a56496217e96c14334a160df97fffedd6e0a04e66b9c5af0d40be3c792ecf"
    ),
    "train-other-500": (
        "ddb22f27f96ec163645d53215559df6aa36515f26e01dd70798188350adcb6d2"
    ),
    "dev-clean": "76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3",
    "dev-other": "12661c48e8c3fe1de2c1caa4c3e135193bfb1811584f11f569dd12645aa84365",
    "test-clean": "39fde525e59672dc6d1551919b1478f724438a95aa55f874b576be21967e6c23",
    "test-other": "d09c181bba5cf717b3dee7d4d592af11a3ee3a09e08ae025c5506f6ebe961c29",
}
SETS = {
    "train_960": ["train-clean-100", "train-clean-360", "train-other-500"],
    "dev": ["dev-clean", "dev-other"],
    "dev_clean": ["dev-clean"],
    "dev_other": ["dev-other"],
    "test_clean": ["test-clean"],
    "test_other": ["test-other"],
}


def prepare(data: Path, downloads: Path, folder: Path | None, partial: bool) -> None:
    """Stage 1: writes ESPnet's sets, of those parts that there are if `partial`.

    Args:
        data: where the data directories go.
        downloads: LibriSpeech is unpacked to its `LibriSpeech` folder if there is no
            other; an archive such as dev-clean.tar.gz in it is not downloaded.
        folder: LibriSpeech on disk, or the folder that holds `LibriSpeech`.
        partial: take a corpus that is not whole, and say what is missing.

    Raises:
        RecipeError: it cannot be had, is not whole, or is not readable.
    """
    from lhotse.recipes.librispeech import prepare_librispeech

    if folder is None:
        for part in SIZES:
            url = f"{URL}/{part}.tar.gz"
            manifests.fetch(url, downloads, f"LibriSpeech/{part}", SHA256[part])
    root = locate(folder or downloads)
    parts = manifests.present(root, folders(root), partial)
    with manifests.reading(root):
        found = prepare_librispeech(root, dataset_parts=parts, num_jobs=cores())
    made = {part: manifests.utterances(manifest) for part, manifest in found.items()}
    sizes = {part: len(utterances.text) for part, utterances in made.items()}
    manifests.check_whole(root, sizes, SIZES, partial)
    sets.write(
        {
            name: joined([made[part] for part in parts if part in made])
            for name, parts in SETS.items()
        },
        data,
    )


def sentences(downloads: Path, folder: Path | None) -> Iterator[str]:
    """The corpus's text for language models, 40 million sentences of other books.

    Args:
        downloads: librispeech-lm-norm.txt.gz is fetched to here, unless it is there.
        folder: LibriSpeech on disk, where that file may lie as well.

    Raises:
        RecipeError: it cannot be had, or is empty.
    """
    name = LM_URL.rpartition("/")[2]
    path = downloads / name
    for place in (folder, locate(folder)) if folder else ():
        if (place / name).is_file():
            path = place / name
    download(LM_URL, path)
    if path.stat().st_size == 0:
        # gzip takes it for a text without a line
        raise RecipeError(f"{path} is empty: remove it, and it is fetched again")
    with open_text(path) as lines:
        yield from lines


def content(folder: Path) -> str:
    """What there is in a folder, for the record of stage 1."""
    root = locate(folder)
    return manifests.content(root, folders(root).values())


def locate(folder: Path) -> Path:
    return manifests.locate(folder, "LibriSpeech")


def folders(root: Path) -> dict[str, Path]:
    return {part: root / part for part in SIZES}


def joined(parts: Sequence[DataDir]) -> DataDir | None:
    """Several data directories as one; None of none."""
    result = DataDir({}, {}, {})
    for part in parts:
        result.wav |= part.wav
        result.text |= part.text
        result.utt2spk |= part.utt2spk
    return result if parts else None
