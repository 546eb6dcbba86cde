"""AISHELL-1: 178 hours of read Mandarin (Bu et al., O-COCOSDA 2017).

Transcripts have no spaces, and letters as lhotse has them.
"""

from pathlib import Path

from espnet_srupp.recipe.corpora import manifests, sets
from espnet_srupp.recipe.errors import RecipeError

# no SHA-256 of it is known: gzip's own checksums and the sizes of the parts serve
URL = f"{manifests.OPENSLR}/33/data_aishell.tgz"
NAME = "data_aishell"
# utterances of each part that have a transcript
SIZES = {"train": 120098, "dev": 14326, "test": 7176}


def prepare(data: Path, downloads: Path, folder: Path | None, partial: bool) -> None:
    """Stage 1: writes train, dev and test.

    Args:
        data: where the data directories go.
        downloads: AISHELL-1 is unpacked to its `data_aishell` folder if there is no
            other; an archive data_aishell.tgz in it is not downloaded.
        folder: `data_aishell` on disk, or the folder that holds it.
        partial: take parts that are not whole, and say what is missing.

    Raises:
        RecipeError: it cannot be had, is not whole, or is not readable.
    """
    from lhotse.recipes.aishell import prepare_aishell

    if folder is None:
        manifests.fetch(URL, downloads, NAME)
    root = manifests.locate(folder or downloads, NAME)
    check_unpacked(root)
    # lhotse prepares all parts or none
    remedy = "at least some of each"
    manifests.present(root, folders(root), partial=False, remedy=remedy)
    if root.name != NAME:
        raise RecipeError(f"{root} must be called {NAME}: make a link of that name")
    with manifests.reading(root):
        found = prepare_aishell(root.parent)
    made = {part: manifests.utterances(manifest) for part, manifest in found.items()}
    sizes = {part: len(utterances.text) for part, utterances in made.items()}
    manifests.check_whole(root, sizes, SIZES, partial)
    sets.write(made, data)


def check_unpacked(root: Path) -> None:
    """Sees that each speaker's archive, in which the corpus comes, was unpacked."""
    archives = [*(root / "wav").glob("*.tar.gz")]
    speakers = {path.name for path in (root / "wav").glob("*/*")}
    packed = [a for a in archives if a.name.removesuffix(".tar.gz") not in speakers]
    if packed:
        raise RecipeError(
            f"{len(packed)} archives of speakers in {root / 'wav'}, such as "
            f"{packed[0].name}, are not unpacked: in that folder, for f in *.tar.gz; "
            "do tar -xzf $f; done"
        )


def content(folder: Path) -> str:
    """What there is in a folder, for the record of stage 1."""
    root = manifests.locate(folder, NAME)
    return manifests.content(root, [root / "transcript", *folders(root).values()])


def folders(root: Path) -> dict[str, Path]:
    return {part: root / "wav" / part for part in SIZES}
