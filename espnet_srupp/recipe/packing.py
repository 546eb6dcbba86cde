"""Stage 14: models, results, pictures and a card in one zip file for ESPnet."""

import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from espnet2.main_funcs.pack_funcs import pack

from espnet_srupp.recipe import card, decoding
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options


def target(options: Options, names: Layout) -> Path:
    """The file to make, named as in asr.sh."""
    model = Path(options.inference_asr_model).stem
    return names.exp / f"{names.exp.name}_{model}.zip"


def models(options: Options, names: Layout) -> dict[str, Path]:
    """Checkpoints and configurations, by the names that `Speech2Text` gives them."""
    found = {
        "asr_model_file": decoding.model_file(options, names),
        "asr_train_config": names.exp / "config.yaml",
    }
    if options.use_lm:
        found["lm_file"] = decoding.lm_file(options, names)
        found["lm_train_config"] = names.lm_exp / "config.yaml"
    return found


def extras(options: Options, names: Layout) -> list[Path]:
    """What goes in beside config and model."""
    files = [names.exp / "RESULTS.md", *sorted((names.exp / "images").glob("*.png"))]
    if options.feats_normalize == "global_mvn":
        files.append(names.stats / "train" / "feats_stats.npz")
    if options.use_lm:
        files.append(names.lm_exp / "perplexity_test" / "ppl")
    return files + [names.bpemodel] * bool(names.bpemodel)


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
    configs = {k: v for k, v in models.items() if k.endswith("_config")}
    # the suffix tells ESPnet the kind of archive
    partial = path.with_name(f".partial_{path.name}")
    try:
        with open(path.with_suffix(".log"), "w") as log, redirect_stdout(log):
            pack(
                files={k: v for k, v in models.items() if k not in configs},
                yaml_files=configs,
                option=files,
                outpath=partial,
            )
        with zipfile.ZipFile(partial, "a") as archive:
            archive.writestr(card.NAME, text)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
