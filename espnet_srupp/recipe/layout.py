"""Where asr.sh puts things: every folder and file that follows from the options."""

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from espnet_srupp.recipe import config, features
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import DATA, Options

# bytes of a name: file systems take 255, and of an experiment's are made longer ones
LONGEST = 200


@dataclass(frozen=True)
class Layout:
    """Names of sets, folders and files.

    Attributes:
        source_set: the training set as stage 1 makes it; at the rate of --fs, and so
            called, if it is resampled before more is made of it.
        speed_set: the same after speed perturbation, with `_sp`.
        train_set: that and joined utterances, with `_join<N>`.
        raw: the folder of formatted sets.
        train, valid: their formatted and filtered data directories.
        tests: what is decoded, by name; `org/<set>` is a set of the training, but
            without the filter.
        token_list, bpemodel: made by stage 5; bpemodel is None for char and word.
        stats, exp: statistics and experiment.
        lm_train, lm_valid, lm_test: text of the language model, with ids.
        lm_stats, lm_exp: its statistics and experiment.
        inference: name of the decoding, a folder inside the experiment.
    """

    source_set: str
    speed_set: str
    train_set: str
    raw: Path
    train: Path
    valid: Path
    tests: dict[str, Path]
    token_list: Path
    bpemodel: Path | None
    stats: Path
    exp: Path
    lm_train: Path
    lm_valid: Path
    lm_test: Path
    lm_stats: Path
    lm_exp: Path
    inference: str

    @property
    def decoding(self) -> Path:
        return self.exp / self.inference


def trainings(options: Options) -> list[Options]:
    """A training for each --asr_config, which begins with the model of the one before.

    The last has the names that were given. Those before it add their configuration's,
    and are named by it alone where none was.

    Raises:
        RecipeError: one would have the folder of another or lie in it, or ESPnet could
            not take the model of one for the next.
    """
    *before, last = options.asr_configs
    chain, model = [], options.pretrained_model
    for path in before:
        own = {
            name: f"{Path(given)}_{Path(path).stem}" if given else ""
            for name, given in options.some("asr_tag", "asr_exp").items()
        }
        training = replace(
            options, asr_config=path, asr_stats_dir="", pretrained_model=model, **own
        )
        chain.append(training)
        model = str(layout(training).exp / learned(training))
    chain.append(replace(options, asr_config=last, pretrained_model=model))
    check_folders([layout(training).exp for training in chain])
    return chain


def learned(options: Options) -> str:
    """The checkpoint of a training with which the next one begins."""
    settings = config.read(options.asr_config, options.asr_args)
    if features.has_accuracy(settings):
        return "valid.acc.ave.pth"
    # by accuracy there is none, or a wrong one: see settings.check_best
    return options.inference_asr_model


def check_lengths(names: Layout) -> None:
    """Raises RecipeError where a folder that is named after options cannot be."""
    options = {"asr_tag": names.exp, "lm_tag": names.lm_exp}
    for option, path in {**options, "inference_tag": names.decoding}.items():
        if len(os.fsencode(path.name)) > LONGEST:
            raise RecipeError(
                f"{path.name[:40]}... is too long for the name of a folder: give "
                f"--{option}"
            )


def check_decoding(names: Layout) -> None:
    """Raises RecipeError where ESPnet would cut the name of the decoding in two."""
    if "," in str(names.decoding):
        raise RecipeError(
            f"ESPnet cannot decode into {names.decoding}, whose name has a comma: "
            "give --asr_tag or --inference_tag"
        )


def check_folders(exps: Sequence[Path]) -> None:
    """Checks the folders of trainings of which each begins with the one before."""
    for exp, after in itertools.combinations(exps, 2):
        if exp == after or after in exp.parents:
            raise RecipeError(
                f"two of the trainings of --asr_config would be in {exp} and {after}: "
                "name the configurations differently, or give --asr_tag"
            )
        if ":" in str(exp):
            raise RecipeError(
                f"{exp} has a colon in its name, and the model of a training there "
                "could not be given to the next: choose another --asr_tag or --expdir"
            )


def layout(options: Options) -> Layout:
    """Derives the names as asr.sh does."""
    speed_set = options.train_set + ("_sp" if options.speeds else "")
    joined = f"_join{options.train_joined}" if options.train_joined else ""
    train_set = speed_set + joined
    made = train_set.removeprefix(options.train_set)
    resampled = f"_{options.rate}" if options.resample and made else ""
    raw = Path(options.dumpdir) / "raw"
    size = f"{options.nbpe}" if options.token_type == "bpe" else ""
    lang = "" if options.lang == "noinfo" else f"_{options.lang}"
    units = f"{lang}_{options.token_type}{size}"
    suffix = f"raw{units}"
    tokens = DATA / f"{options.lang}_token_list".removeprefix("noinfo_")
    kind = f"bpe_{options.bpemode}{size}" if size else options.token_type
    expdir = Path(options.expdir)
    settings = config.read(options.asr_config, options.asr_args)
    stats = f"asr_stats_{suffix}{made}{features.tag(settings)}"
    tag = options.asr_tag or asr_tag(options, suffix) + made
    sets = tests(options, raw, train_set)
    unseen = [path for name, path in sets.items() if not name.startswith("org/")]
    valid = raw / "org" / options.valid_set
    lm_exp = Path(options.lm_exp or expdir / f"lm_{lm_tag(options, units)}")
    return Layout(
        source_set=options.train_set + resampled,
        speed_set=speed_set,
        train_set=train_set,
        raw=raw,
        train=raw / train_set,
        valid=raw / options.valid_set,
        tests=sets,
        token_list=tokens / kind / "tokens.txt",
        bpemodel=tokens / kind / "bpe.model" if size else None,
        stats=Path(options.asr_stats_dir or expdir / stats),
        exp=Path(options.asr_exp) if options.asr_exp else expdir / f"asr_{tag}",
        lm_train=raw / "lm_train.txt",
        lm_valid=Path(options.lm_dev_text or valid / "text"),
        lm_test=Path(options.lm_test_text or [*unseen, *sets.values()][0] / "text"),
        lm_stats=Path(options.lm_stats_dir or expdir / f"lm_stats{units}"),
        lm_exp=lm_exp,
        inference=options.inference_tag or inference_tag(options, lm_exp),
    )


def tests(options: Options, raw: Path, train_set: str) -> dict[str, Path]:
    """The sets to decode, the validation set first and unfiltered, as in asr.sh.

    The training set is not filtered either: stage 4's folder of it is for training.
    """
    names = options.test_sets.split()
    if options.eval_valid_set or options.valid_set in names:
        names.insert(0, options.valid_set)
    filtered = (train_set, options.valid_set)
    chosen = [f"org/{name}" if name in filtered else name for name in names]
    return {name: raw / name for name in chosen}


def asr_tag(options: Options, suffix: str) -> str:
    config_tag = Path(options.asr_config or "train").stem
    return f"{config_tag}_{suffix}{overrides(options.asr_args)}"


def lm_tag(options: Options, units: str) -> str:
    config_tag = Path(options.lm_config or "train").stem
    return options.lm_tag or f"{config_tag}{units}{overrides(options.lm_args)}"


def inference_tag(options: Options, lm_exp: Path) -> str:
    tag = Path(options.inference_config or "inference").stem
    lm = f"_lm_{lm_exp.name}_{stem(options.inference_lm)}" if options.use_lm else ""
    model = stem(options.inference_asr_model)
    return f"{tag}{overrides(options.inference_args)}{lm}_asr_model_{model}"


def stem(checkpoint: str) -> str:
    """asr.sh's way to put a checkpoint into a name: "a/b.c.pth" becomes "a_b.c"."""
    return re.sub(r"\.[^.]*$", "", checkpoint.replace("/", "_"))


def overrides(arguments: str) -> str:
    """asr.sh's way to put arguments into a name: "--a_b 1" becomes "_a_b1"."""
    # and in the place of its blanks all of them, as a name has one line
    return re.sub(r"[\s|=/]", "", arguments.replace("--", "_"))
