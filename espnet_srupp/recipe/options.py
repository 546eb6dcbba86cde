"""The options of run.sh: asr.sh's names, each with its type, default and meaning."""

import argparse
import difflib
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError

# what may be given relative to the folder in which run.sh was called
INPUT_FILES = ("archive", "asr_config", "inference_config", "bpe_train_text")
# corpora that may lie on disk, by the names of ESPnet's db.sh
CORPORA = ("LIBRISPEECH", "AISHELL", "TEDLIUM3")
# options that hold numbers, and the property that reads them
NUMERIC = {
    "fs": "rate",
    "speed_perturb_factors": "speeds",
    "skip_stages": "skips",
    "longform": "joined",
}
# options that hold words for another program
ARGUMENTS = (
    *("asr_args", "inference_args", "python"),
    *("longform_models", "longform_join_args", "longform_args"),
)
METAVARS = {str: "TEXT", int: "N", float: "X", bool: "true|false"}
USAGE = "run.sh [--option value ...]"
NOTE = """Options and stages are those of ESPnet's asr.sh. Paths are relative to the
recipe's folder; input files that are not there are sought in the folder where the
command was given. Your own data: write data/<set> with wav.scp, text and utt2spk, give
--train_set, --valid_set and --test_sets, and begin with --stage 2.

stages: 1 data, 2 speed perturbation, 3 format, 4 filter by length, 5 tokens,
        10 statistics, 11 training, 12 decoding, 13 scoring, 14 packing,
        15 error rates of utterances joined to long ones (--longform)"""


def option(group: str, default: object, meaning: str, *, choices: str = ""):
    metadata = {"group": group, "help": meaning, "choices": choices.split()}
    return field(default=default, metadata=metadata)


def cores() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def python_command() -> str:
    return f"{shlex.quote(sys.executable)} -m espnet_srupp.run"


@dataclass(frozen=True)
class Options:
    """One field per option; `--help` is made from them."""

    # general
    corpus: str = option("general", "", "module of espnet_srupp.recipe.corpora")
    stage: int = option("general", 1, "first stage to run")
    stop_stage: int = option("general", 10000, "last stage to run")
    skip_stages: str = option("general", "", 'stages to leave out, e.g. "2 4"')
    skip_data_prep: bool = option("general", False, "leave out stages 1 to 5")
    skip_train: bool = option("general", False, "leave out stages 2 and 4 to 11")
    skip_eval: bool = option("general", False, "leave out stages 12 and 13")
    skip_packing: bool = option("general", True, "leave out stage 14")
    force: bool = option("general", False, "run finished stages again")
    ngpu: int = option("general", -1, "GPUs for training, 0 for none, -1: 1 if there")
    nj: int = option("general", cores(), "processes for data and statistics")
    dumpdir: str = option("general", "dump", "folder of formatted data")
    expdir: str = option("general", "exp", "folder of experiments")
    python: str = option("general", python_command(), "command that runs ESPnet")
    # data
    archive: str = option("data", "", "the corpus as a file, instead of a download")
    LIBRISPEECH: str = option("data", "", "folder of LibriSpeech, used where it lies")
    AISHELL: str = option("data", "", "folder of AISHELL-1, used where it lies")
    TEDLIUM3: str = option("data", "", "folder of TED-LIUM 3, used where it lies")
    partial: bool = option("data", False, "take what that folder has, if not all")
    train_set: str = option("data", "", "training set")
    valid_set: str = option("data", "", "validation set")
    test_sets: str = option("data", "", "test sets, separated by spaces")
    eval_valid_set: bool = option("data", False, "decode the validation set as well")
    speed_perturb_factors: str = option("data", "", 'speeds, e.g. "0.9 1.0 1.1"')
    audio_format: str = option("data", "flac", "of written audio", choices="flac wav")
    fs: str = option("data", "16k", "sampling rate, Hz or kHz with a k")
    min_wav_duration: float = option("data", 0.1, "shortest training audio, s")
    max_wav_duration: float = option("data", 20.0, "longest training audio, s")
    lang: str = option("data", "noinfo", "language, for the names of folders")
    # tokens
    token_type: str = option("tokens", "bpe", "unit", choices="bpe char word")
    nbpe: int = option("tokens", 30, "number of BPE tokens")
    bpemode: str = option("tokens", "unigram", "BPE model", choices="unigram bpe")
    bpe_train_text: str = option("tokens", "", "text for BPE, default: training set")
    bpe_nlsyms: str = option("tokens", "", "symbols BPE keeps whole, by commas")
    bpe_char_cover: float = option("tokens", 1.0, "share of characters BPE covers")
    oov: str = option("tokens", "<unk>", "symbol for what is not in the list")
    blank: str = option("tokens", "<blank>", "symbol of CTC's blank")
    sos_eos: str = option("tokens", "<sos/eos>", "symbol of start and end")
    # model
    asr_config: str = option("model", "", "YAML file of the training")
    asr_args: str = option("model", "", 'overrides, e.g. "--max_epoch 10"')
    asr_tag: str = option("model", "", "name of the experiment, default: from options")
    asr_exp: str = option("model", "", "folder of the experiment, overrides asr_tag")
    asr_stats_dir: str = option("model", "", "folder of the statistics")
    feats_normalize: str = option(
        "model", "global_mvn", "normalisation", choices="global_mvn utterance_mvn"
    )
    pretrained_model: str = option("model", "", "parameters to begin with")
    ignore_init_mismatch: bool = option("model", False, "allow other shapes there")
    asr_speech_fold_length: int = option("model", 800, "for batch_type folded, 10 ms")
    asr_text_fold_length: int = option("model", 150, "for batch_type folded, tokens")
    # decoding and scoring
    inference_config: str = option("decoding", "", "YAML file of the decoding")
    inference_args: str = option("decoding", "", 'overrides, e.g. "--beam_size 5"')
    inference_tag: str = option("decoding", "", "name of the results")
    inference_asr_model: str = option("decoding", "valid.acc.ave.pth", "checkpoint")
    inference_nj: int = option("decoding", cores(), "processes for decoding")
    gpu_inference: bool = option("decoding", False, "decode on the GPU")
    score_opts: str = option("decoding", "", "-s: upper and lower case differ")
    # long recordings
    longform: str = option("long recordings", "", 'utterances each, e.g. "1 3 10 30"')
    longform_models: str = option(
        "long recordings", "", 'other models to compare, "NAME=EXPERIMENT ..."'
    )
    longform_join_args: str = option(
        "long recordings", "", "of longform join, e.g. \"--group '()' --gap 1\""
    )
    longform_args: str = option(
        "long recordings", "", 'of longform transcribe, e.g. "--search prefix"'
    )

    def some(self, *names: str) -> dict[str, object]:
        """A few options by name."""
        return {name: getattr(self, name) for name in names}

    @property
    def folder(self) -> str:
        """Where the corpus lies, "" if it is to be downloaded or made."""
        return getattr(self, self.corpus.upper()) if self.on_disk else ""

    @property
    def on_disk(self) -> bool:
        """Whether the corpus may lie on disk."""
        return self.corpus.upper() in CORPORA

    @property
    def rate(self) -> int:
        """The sampling rate in Hz."""
        number, thousand = self.fs.removesuffix("k"), self.fs.endswith("k")
        return int(float(number) * (1000 if thousand else 1))

    @property
    def skips(self) -> list[int]:
        """The stages of --skip_stages."""
        return [int(number) for number in self.skip_stages.split()]

    @property
    def symbols(self) -> list[str]:
        """What BPE keeps whole."""
        return [symbol for symbol in self.bpe_nlsyms.split(",") if symbol]

    @property
    def joined(self) -> list[int]:
        """How many utterances to join, the fewest first."""
        return sorted({int(number) for number in self.longform.split()})

    @property
    def others(self) -> dict[str, str]:
        """Folders of the experiments to compare, by name."""
        return dict(pairs(self.longform_models))

    @property
    def speeds(self) -> list[float]:
        return [float(factor) for factor in self.speed_perturb_factors.split()]


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        raise RecipeError(f"{message} (--help lists the options)")


def boolean(word: str) -> bool:
    if word not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false, not {word!r}")
    return word == "true"


def parser() -> Parser:
    """The command line, made from the fields of `Options`."""
    result = Parser(
        usage=USAGE,
        description=NOTE,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    groups = {}
    for item in fields(Options):
        name = item.metadata["group"]
        group = groups.setdefault(name, result.add_argument_group(name))
        default = str(item.default).lower() if item.type is bool else item.default
        shown = f" (default: {default})" if default != "" else ""
        group.add_argument(
            f"--{item.name}",
            type=boolean if item.type is bool else item.type,
            default=item.default,
            choices=item.metadata["choices"] or None,
            metavar="|".join(item.metadata["choices"]) or METAVARS[item.type],
            help=(item.metadata["help"] + shown).replace("%", "%%"),
        )
    return result


def joined(words: Sequence[str]) -> Iterator[str]:
    """`--name value` as `--name=value`, so that a value may begin with a dash."""
    names = {item.name for item in fields(Options)}
    rest = iter(words)
    for word in rest:
        if word in ("-h", "--help"):
            yield word
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            raise RecipeError(f"unexpected {word!r}: options are --name value")
        if name not in names:
            raise RecipeError(f"unknown option --{name}{nearest(name, names)}")
        if not equals and (value := next(rest, None)) is None:
            raise RecipeError(f"--{name} needs a value")
        yield f"--{name}={value}"


def nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, sorted(names), 1, 0.5)
    return f": did you mean --{close[0]}?" if close else ": --help lists them"


def parse(words: Sequence[str], caller: Path) -> Options:
    """Reads the command line.

    Args:
        words: the arguments of run.sh, later ones win.
        caller: the folder where the command was given.

    Raises:
        RecipeError: an unknown option, a value of the wrong kind, a missing file.
    """
    options = Options(**vars(parser().parse_args(list(joined(words)))))
    check(options)
    names = (*INPUT_FILES, *CORPORA)
    given = {n: getattr(options, n) for n in names if getattr(options, n)}
    found = {n: find(n, path, caller) for n, path in given.items()}
    others = [
        f"{name}={os.path.relpath(find('longform_models', folder, caller))}"
        for name, folder in options.others.items()
    ]
    found["longform_models"] = shlex.join(others)
    return replace(options, **found)


def find(name: str, path: str, caller: Path) -> str:
    kind = "file" if name in INPUT_FILES else "folder"
    for candidate in (Path(path), caller / path):
        if kind == "file" and candidate.is_file():
            return str(candidate)
        if kind == "folder" and candidate.is_dir():
            return os.path.abspath(candidate)
    places = " or ".join(dict.fromkeys(str(folder) for folder in (Path.cwd(), caller)))
    raise RecipeError(f"--{name} {path}: there is no such {kind} in {places}")


def check(options: Options) -> None:
    for name in ("corpus", "train_set", "valid_set", "test_sets"):
        if not getattr(options, name):
            raise RecipeError(f"--{name} is required: a recipe's run.sh gives it")
    check_corpus(options)
    for name in ("nj", "inference_nj", "nbpe"):
        if getattr(options, name) < 1:
            raise RecipeError(f"--{name} must be 1 or more")
    if not options.min_wav_duration < options.max_wav_duration:
        raise RecipeError("--min_wav_duration must be below --max_wav_duration")
    if options.score_opts not in ("", "-s"):
        raise RecipeError("--score_opts knows only -s (upper and lower case differ)")
    for name, kind in NUMERIC.items():
        numbers(options, name, kind)
    for name in ARGUMENTS:
        quotes(name, getattr(options, name))
    check_models(options)


def check_corpus(options: Options) -> None:
    for name in CORPORA:
        if getattr(options, name) and options.corpus != name.lower():
            raise RecipeError(
                f"--{name} is an option of the recipe {name.lower()}, not of "
                f"{options.corpus}: leave it out"
            )
    own = f"--{options.corpus.upper()}"
    if options.archive and options.on_disk:
        raise RecipeError(
            f"--archive is not for {options.corpus}: put its archives into downloads/ "
            f"of the recipe, or unpack them and give the folder with {own}"
        )
    if options.partial and not options.folder:
        remedy = f"give it with {own}" if options.on_disk else "leave it out"
        raise RecipeError(f"--partial is about a corpus that lies on disk: {remedy}")


def check_models(options: Options) -> None:
    names = []
    for name, folder in pairs(options.longform_models):
        if not (re.fullmatch(r"[\w.+-]+", name) and folder):
            raise RecipeError(
                f"--longform_models {options.longform_models!r} is not NAME=EXPERIMENT "
                'with a name of letters and digits: give for example "conformer=exp/x"'
            )
        if name in names:
            raise RecipeError(f"--longform_models has two {name}: name one differently")
        names.append(name)


def pairs(words: str) -> list[tuple[str, str]]:
    """Reads "a=b c=d"."""
    split = (word.partition("=") for word in shlex.split(words))
    return [(name, value) for name, _, value in split]


def numbers(options: Options, name: str, kind: str) -> None:
    given = getattr(options, name)
    try:
        values = getattr(options, kind)
    except ValueError:
        values = [0]
    if min(values if isinstance(values, list) else [values], default=1) <= 0:
        raise RecipeError(f"--{name} takes positive numbers, not {given!r}")


def quotes(name: str, words: str) -> None:
    try:
        shlex.split(words)
    except ValueError as error:
        raise RecipeError(f"--{name} {words!r}: {error}".lower()) from error
