"""Stage 14: config, model, results and pictures in one zip file for ESPnet."""

import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from espnet2.main_funcs.pack_funcs import pack

from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options


def target(options: Options, names: Layout) -> Path:
    """The file to make, named as in asr.sh."""
    model = Path(options.inference_asr_model).stem
    return names.exp / f"{names.exp.name}_{model}.zip"


def extras(options: Options, names: Layout) -> list[Path]:
    """What goes in beside config and model."""
    files = [names.exp / "RESULTS.md", *sorted((names.exp / "images").glob("*.png"))]
    if options.feats_normalize == "global_mvn":
        files.append(names.stats / "train" / "feats_stats.npz")
    return files + [names.bpemodel] * bool(names.bpemodel)


def pack_model(config: Path, model: Path, files: Sequence[Path], path: Path) -> None:
    """Packs so that `Speech2Text.from_pretrained` and espnet_model_zoo can read it.

    Args:
        config, model: of the experiment.
        files: what else goes in.
        path: the zip file to make.
    """
    # the suffix tells ESPnet the kind of archive
    partial = path.with_name(f".partial_{path.name}")
    try:
        with open(path.with_suffix(".log"), "w") as log, redirect_stdout(log):
            pack(
                files={"asr_model_file": model},
                yaml_files={"asr_train_config": config},
                option=files,
                outpath=partial,
            )
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
