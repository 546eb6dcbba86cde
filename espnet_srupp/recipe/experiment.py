"""A trained experiment: its checkpoints, and whether what belongs to them is there."""

from pathlib import Path

from espnet_srupp.recipe import config
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.stage import marker
from espnet_srupp.recipe.tokens import pieces
from espnet_srupp.recipe.training import BEGUN

# arguments of ESPnet's beam search that name files of other models
SEARCH_FILES = ("lm_train_config", "lm_file", "word_lm_train_config", "word_lm_file")
SEARCH_FILES += ("ngram_file",)


def model_file(options: Options, exp: Path) -> Path:
    """The checkpoint of an experiment to decode with.

    Raises:
        RecipeError: it is not there; names those that are.
    """
    return checkpoint(exp, options.inference_asr_model, "inference_asr_model", 11)


def lm_file(options: Options, exp: Path) -> Path:
    """The same of a language model."""
    return checkpoint(exp, options.inference_lm, "inference_lm", 7)


def search_files(options: Options) -> dict[str, Path]:
    """Files of other models that the settings of the search name."""
    settings = config.read(options.inference_config, options.inference_args)
    named = {name: config.absent(settings.get(name)) for name in SEARCH_FILES}
    return {k: Path(str(path)) for k, path in named.items() if path is not None}


def checkpoint(exp: Path, name: str, option: str, stage: int) -> Path:
    """As `model_file`; the stage is what trains it."""
    path = exp / name
    if path.is_file():
        return path
    remedy = f"train it with --stage {stage}"
    others = ", ".join(there(exp, "*.*.*.pth") or there(exp, "latest.pth"))
    finished = marker(exp / "config.yaml").exists()
    if others:
        remedy = f"give --{option} one of {others}"
        if (exp / BEGUN).exists() and not finished:
            remedy = f"go on with its training by --stage {stage}, or {remedy}"
    elif finished:
        # a training that has been finished is not begun again by itself
        remedy += " --force true, as its models are gone"
    raise RecipeError(f"{path} is not there: {remedy}")


def there(exp: Path, pattern: str) -> list[str]:
    """Names of checkpoints; ESPnet's links to an epoch outlive its file."""
    return sorted(path.name for path in exp.glob(pattern) if path.is_file())


def check(options: Options, names: Layout) -> None:
    """Sees that what belongs to a model is there, and that two belong together.

    Raises:
        RecipeError: the statistics are not where the model's configuration says, as
            when the experiment was moved; the language model has other tokens; or as
            for `check_pieces`.
    """
    path = names.exp / "config.yaml"
    check_named(path, config.trained_with(path), "normalize_conf.stats_file")
    check_pieces(path)
    if not options.use_lm:
        return
    own, other = (
        config.read(exp / "config.yaml").get("token_list")
        for exp in (names.exp, names.lm_exp)
    )
    if own != other:
        raise RecipeError(
            f"{names.lm_exp} has other tokens than {names.exp}: train a language model "
            "with this --token_type and --bpemode under another --lm_tag, or name one "
            "by --lm_exp"
        )


def bpemodel(names: Layout) -> Path | None:
    """The BPE model of a training, or of the command line before there is one."""
    trained = config.trained_with(names.exp / "config.yaml")
    if not trained:
        return names.bpemodel
    path = trained.get("bpemodel")
    return Path(str(path)) if path else None


def check_pieces(path: Path) -> None:
    """Sees that the BPE model a configuration names is still that of its training.

    Raises:
        RecipeError: it is not there, or has other pieces, as a later training with as
            many of another text leaves it.
    """
    trained = config.trained_with(path)
    model = check_named(path, trained, "bpemodel")
    tokens = trained.get("token_list")
    # a list unless somebody has written a file's name there
    if model and isinstance(tokens, list) and not {*pieces(model)} <= {*tokens}:
        raise RecipeError(
            f"{model} has other pieces than the model of {path} was trained with: "
            "make it again with --stage 5 --stop_stage 5 and that training's options"
        )


def check_named(path: Path, trained: dict[str, object], option: str) -> Path | None:
    """The file that an option in the configuration at `path` names, if it names one."""
    if not (file := trained.get(option)):
        return None
    if not Path(str(file)).is_file():
        raise RecipeError(
            f"{path} names {file}, which is not there: write there where that file is "
            f"now ({option})"
        )
    return Path(str(file))
