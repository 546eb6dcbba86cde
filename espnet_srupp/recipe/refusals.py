"""What the command line of run.sh cannot mean, told before any work."""

import math
import re
import shlex
from collections.abc import Collection

from espnet_srupp.recipe.config import arguments
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import CORPORA, Options, pairs

# options that hold numbers, and the property that reads them
NUMERIC = {
    "fs": "rate",
    "speed_perturb_factors": "speeds",
    "skip_stages": "skips",
    "longform": "joined",
}
# options that hold words for another program
ARGUMENTS = ("asr_args", "lm_args", "inference_args", "lm_train_text", "python")
ARGUMENTS += ("cuda_cmd", "asr_config", "longform_models", "longform_join_args")
ARGUMENTS += ("longform_args",)
# what run.sh tells ESPnet by itself
OWN = ("output_dir", "config", "token_list", "bpemodel", "token_type", "ngpu")
OWN += ("resume", "collect_stats", "dry_run", "print_config", "train_shape_file")
OWN += ("valid_shape_file", "key_file", "asr_train_config", "asr_model_file")
# and `longform transcribe`
OWN_LONGFORM = ("checkpoint", "lm", "out", "force")
# options that become a part of ESPnet's arguments, and what ESPnet reads otherwise
FOLDERS = ("dumpdir", "expdir", "asr_exp", "asr_stats_dir", "asr_tag")
FOLDERS += ("lm_exp", "lm_stats_dir", "lm_tag", "inference_tag")
FOLDERS += ("lang", "train_set", "valid_set", "test_sets")
MISREAD = re.compile(r"""^[-\[{*&%!|>"'#`@]|,|: | #""")


def check(options: Options) -> None:
    """Checks the options, each and together.

    Raises:
        RecipeError: one is missing, is no value of its kind, or contradicts another.
    """
    for name in ("corpus", "train_set", "valid_set", "test_sets"):
        if not getattr(options, name).strip():
            raise RecipeError(f"--{name} is required: a recipe's run.sh gives it")
    for name, value in vars(options).items():
        if str(value).encode("utf-8", "ignore").decode() != str(value):
            raise RecipeError(
                f"--{name} {value!a} is not UTF-8: rename it, or give a link to it"
            )
    check_corpus(options)
    check_launcher(options)
    check_numbers(options)
    symbols = options.blank, options.oov, options.sos_eos
    if not all(symbols) or len(set(symbols)) < len(symbols):
        raise RecipeError(
            "--blank, --oov and --sos_eos must be three different tokens, none empty"
        )
    if options.score_opts not in ("", "-s"):
        raise RecipeError("--score_opts knows only -s (upper and lower case differ)")
    for name in ARGUMENTS:
        quotes(name, getattr(options, name))
    for name in ("asr_args", "lm_args", "inference_args"):
        check_own(name, getattr(options, name), OWN)
    check_own("longform_args", options.longform_args, OWN_LONGFORM)
    for name in FOLDERS:
        if MISREAD.search(value := getattr(options, name)):
            raise RecipeError(
                f"--{name} {value!r}: ESPnet cannot take a name that begins with a "
                "dash or a sign of YAML's, or has a comma, ': ' or ' #' in it: choose "
                "another"
            )
    check_models(options)


def check_numbers(options: Options) -> None:
    for name in ("nj", "nbpe", "num_nodes"):
        if getattr(options, name) < 1:
            raise RecipeError(f"--{name} must be 1 or more")
    if options.inference_nj < 0:
        raise RecipeError(
            "--inference_nj must be 1 or more, or 0 for all cores or GPUs"
        )
    if options.ngpu < -1:
        raise RecipeError("--ngpu must be 0 or more, or -1 for 1 where there is one")
    if options.train_joined < 0 or options.train_joined == 1:
        raise RecipeError("--train_joined must be 2 or more, or 0 for none")
    if not -math.inf < options.min_wav_duration < options.max_wav_duration < math.inf:
        raise RecipeError(
            "--min_wav_duration must be below --max_wav_duration, and both be numbers"
        )
    if not 0.98 <= options.bpe_char_cover <= 1:
        raise RecipeError(
            "--bpe_char_cover must be from 0.98 to 1, the shares of a text's letters "
            "that SentencePiece covers"
        )
    for name, kind in NUMERIC.items():
        numbers(options, name, kind)
    if len(set(options.speeds)) < len(options.speeds):
        raise RecipeError(
            f"--speed_perturb_factors {options.speed_perturb_factors!r} has a speed "
            "twice: leave it out"
        )


def check_own(name: str, words: str, owned: Collection[str]) -> None:
    for own, _ in arguments(words):
        if own in owned:
            raise RecipeError(
                f"--{name} has --{own}, which run.sh itself gives to ESPnet: use "
                "run.sh's own option for it (--help lists them)"
            )


def check_corpus(options: Options) -> None:
    for name in CORPORA:
        if getattr(options, name) and options.corpus != name.lower():
            raise RecipeError(
                f"--{name} is an option of the recipe {name.lower()}, not of "
                f"{options.corpus}: leave it out"
            )
    own = f"--{options.corpus.upper()}"
    if options.archive and options.corpus == "own":
        raise RecipeError("--archive is not for own: unpack it and give --OWN")
    if options.archive and options.on_disk:
        raise RecipeError(
            f"--archive is not for {options.corpus}: put its archives into downloads/ "
            f"of the recipe, or unpack them and give the folder with {own}"
        )
    known = options.on_disk and options.corpus != "own"
    if options.partial and not (known and options.folder):
        remedy = f"give it with {own}" if known else "leave it out"
        raise RecipeError(f"--partial is about a corpus that lies on disk: {remedy}")


def check_launcher(options: Options) -> None:
    if options.cuda_cmd and not options.cuda_cmd.strip():
        raise RecipeError("--cuda_cmd is blank: name a program, or leave it out")
    if options.host and (options.cuda_cmd or options.num_nodes > 1):
        raise RecipeError(
            "--host names all machines itself: leave out --cuda_cmd and --num_nodes"
        )
    if options.num_nodes > 1 and not options.cuda_cmd:
        raise RecipeError(
            f"--num_nodes {options.num_nodes} needs to know how to start them: give "
            '--cuda_cmd, for example "slurm.pl --config conf/slurm.conf", or --host'
        )


def check_models(options: Options) -> None:
    names = []
    for name, folder in pairs(options.longform_models):
        if not (re.fullmatch(r"[^\W_][\w.+-]*", name) and folder):
            raise RecipeError(
                f"--longform_models {options.longform_models!r} is not NAME=EXPERIMENT "
                'with a name of letters and digits: give for example "conformer=exp/x"'
            )
        if name in names:
            raise RecipeError(f"--longform_models has two {name}: name one differently")
        names.append(name)


def numbers(options: Options, name: str, kind: str) -> None:
    given = getattr(options, name)
    try:
        values = getattr(options, kind)
    except (ValueError, OverflowError):
        values = [0]
    values = values if isinstance(values, list) else [values]
    if not all(0 < value < math.inf for value in values):
        raise RecipeError(f"--{name} takes positive numbers, not {given!r}")


def quotes(name: str, words: str) -> None:
    try:
        shlex.split(words)
    except ValueError as error:
        raise RecipeError(
            f"--{name} {words!r} has {str(error).lower()}: correct it"
        ) from error
