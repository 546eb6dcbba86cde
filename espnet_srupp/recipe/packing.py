"""Stage 14: models, results, pictures and a card in one zip file for ESPnet."""

import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import yaml
from espnet2.main_funcs.pack_funcs import find_path_and_change_it_recursive, pack

from espnet_srupp.recipe import card, config, experiment
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import local_name
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options

# what a decoding may name itself, and a packed model has a place for
LM = ("lm_file", "lm_train_config")


def target(options: Options, names: Layout) -> Path:
    """The file to make, named as in asr.sh."""
    model = Path(options.inference_asr_model).stem
    return names.exp / f"{names.exp.name}_{model}.zip"


def models(options: Options, names: Layout) -> dict[str, Path]:
    """Checkpoints and configurations, by the names that `Speech2Text` gives them."""
    found = {
        "asr_model_file": experiment.model_file(options, names.exp),
        "asr_train_config": names.exp / "config.yaml",
    }
    if options.use_lm:
        found["lm_file"] = experiment.lm_file(options, names.lm_exp)
        found["lm_train_config"] = names.lm_exp / "config.yaml"
    named = experiment.search_files(options)
    return found | {name: named[name] for name in LM if name in named}


def check(options: Options, names: Layout) -> None:
    """Sees that a packed model can decode as this one has.

    Raises:
        RecipeError: the decoding has n-grams or a language model of words; as for
            `experiment.check`.
    """
    experiment.check(options, names)
    if others := [name for name in experiment.search_files(options) if name not in LM]:
        raise RecipeError(
            f"the decoding has {others[0]}, and a packed model has no place for it: "
            "decode without it, under another --inference_tag"
        )


def extras(options: Options, names: Layout) -> list[Path]:
    """What goes in beside config and model."""
    files = [names.exp / "RESULTS.md", *sorted((names.exp / "images").glob("*.png"))]
    settings = config.trained_with(names.exp / "config.yaml")
    # what the model was trained with, whatever the command line says now
    needed = (settings.get(n) for n in ("normalize_conf.stats_file", "bpemodel"))
    files += [Path(path) for path in needed if path and Path(path).is_file()]
    if options.use_lm:
        files.append(names.lm_exp / "perplexity_test" / "ppl")
    return files


def pack_model(
    models: Mapping[str, Path], files: Sequence[Path], text: str, path: Path
) -> None:
    """Packs so that `Speech2Text.from_pretrained` and espnet_model_zoo can read it.

    Args:
        models: checkpoints and configurations, as from the function of that name.
        files: what else goes in.
        text: the model card.
        path: the zip file to make.
    """
    inside = names_inside([*models.values(), *files])
    configs = {k: v for k, v in models.items() if k.endswith("_config")}
    with folder_beside(path) as folder:
        for source, name in inside.items():
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        for source in configs.values():
            rename_in(Path(folder, inside[source]), inside)
        # the suffix tells ESPnet the kind of archive
        packed = Path(folder, "packed.zip").absolute()
        with open(path.with_suffix(".log"), "w") as log, redirect_stdout(log):
            with current_folder(folder):
                pack(
                    files={k: inside[v] for k, v in models.items() if k not in configs},
                    yaml_files={k: inside[v] for k, v in configs.items()},
                    option=[inside[file] for file in files],
                    outpath=packed,
                )
        with zipfile.ZipFile(packed, "a") as archive:
            archive.writestr(card.NAME, text)
        os.replace(packed, path)


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A folder for the parts of a file; none is left, even of a run that was killed."""
    folder = path.with_name(f".{path.name}.parts")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def names_inside(paths: Sequence[Path]) -> dict[Path, str]:
    """Names in an archive: none is absolute, wherever the experiments lie.

    ESPnet would keep absolute ones, and unpack to other files than it then looks for.
    """
    full = {path: Path(os.path.abspath(path)) for path in paths}
    outside = [path for path in full.values() if Path.cwd() not in path.parents]
    above = Path(os.path.commonpath(outside)).parent if outside else Path()
    return {
        path: str(where.relative_to(above if where in outside else Path.cwd()))
        for path, where in full.items()
    }


def rename_in(path: Path, names: Mapping[Path, str]) -> None:
    """Writes the names in the archive into a configuration, where ESPnet looks."""
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    for source, name in names.items():
        # the training may have had an absolute --expdir or --dumpdir
        for spelt in (source, os.path.abspath(source), os.path.relpath(source)):
            settings = find_path_and_change_it_recursive(settings, str(spelt), name)
    settings = {
        # a token may begin with a slash
        key: value if key == "token_list" else without_folders(value)
        for key, value in settings.items()
    }
    path.write_text(
        yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8"
    )


def without_folders(tree: object) -> object:
    """A configuration without the absolute paths of what only its training needed."""
    if isinstance(tree, Mapping):
        return {key: without_folders(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_folders(value) for value in tree]
    if isinstance(tree, str) and tree.startswith(("/", "file:/")):
        return local_name(tree.removeprefix("file://"))
    return tree


@contextmanager
def current_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
