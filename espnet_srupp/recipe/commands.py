"""The arguments of ESPnet's programs, one by one as asr.sh gives them."""

import os
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

from espnet_srupp import determinism
from espnet_srupp.compat import GENERATION
from espnet_srupp.recipe.config import read
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options

# the default of 202611 scores CTC in a window only, which changes results
UNLESS_GIVEN = {"ctc_window_margin": 0} if GENERATION >= 202611 else {}


def statistics(
    options: Options, names: Layout, shares: list[Path], output: Path
) -> list[str]:
    """Statistics over the utterances of two key files, of train and valid."""
    return [
        *("-m", "espnet2.bin.asr_train", *collection(shares, output)),
        *data(names),
        *model(options, names),
    ]


def lm_statistics(
    options: Options, names: Layout, shares: list[Path], output: Path
) -> list[str]:
    """Lengths of the language model's text, of two key files."""
    return [
        *("-m", "espnet2.bin.lm_train", *collection(shares, output)),
        *lm_model(options, names),
    ]


def collection(shares: list[Path], output: Path) -> list[str]:
    return [
        *("--collect_stats", "true", "--output_dir", str(output)),
        *("--train_shape_file", str(shares[0])),
        *("--valid_shape_file", str(shares[1])),
    ]


def training(options: Options, names: Layout, ngpu: int) -> list[str]:
    """Training on CPU (ngpu 0), one GPU or several GPUs of this machine."""
    words = [
        *("-m", "espnet2.bin.asr_train", *fitting(names.exp, ngpu)),
        *("--fold_length", str(options.asr_speech_fold_length * 100)),
        *("--fold_length", str(options.asr_text_fold_length)),
        *data(names),
    ]
    for path in shapes(options, names):
        words += [f"--{path.parent.name}_shape_file", str(path)]
    if options.pretrained_model:
        words += ["--init_param", options.pretrained_model]
    if options.ignore_init_mismatch:
        # without --pretrained_model too, as the YAML may have init_param
        words += ["--ignore_init_mismatch", "true"]
    if options.feats_normalize == "global_mvn":
        stats = f"stats_file={names.stats / 'train/feats_stats.npz'}"
        words += ["--normalize", "global_mvn", "--normalize_conf", stats]
    # else it is as in the YAML, of each utterance where that says nothing
    return words + model(options, names)


def lm_training(options: Options, names: Layout, ngpu: int) -> list[str]:
    """Training of the language model, as `training`."""
    train, valid = lm_shapes(options, names)
    return [
        *("-m", "espnet2.bin.lm_train", *fitting(names.lm_exp, ngpu)),
        *("--fold_length", str(options.lm_fold_length)),
        *("--train_shape_file", str(train), "--valid_shape_file", str(valid)),
        *lm_model(options, names),
    ]


def lm_shapes(options: Options, names: Layout) -> list[Path]:
    """What that training reads beside the text."""
    file = f"text_shape.{options.token_type}"
    return [names.lm_stats / kind / file for kind in ("train", "valid")]


def fitting(exp: Path, ngpu: int) -> list[str]:
    words = [
        *("--ngpu", str(ngpu), "--resume", "true", "--output_dir", str(exp)),
        *("--multiprocessing_distributed", "true"),
    ]
    if find_spec("tensorboard") is None:
        words += ["--use_tensorboard", "false"]
    return words


def perplexity(options: Options, names: Layout, ngpu: int, output: Path) -> list[str]:
    """Perplexity of the language model's test text."""
    return [
        *("-m", "espnet2.bin.lm_calc_perplexity", "--output_dir", str(output)),
        *("--data_path_and_name_and_type", f"{names.lm_test},text,text"),
        *("--train_config", str(names.lm_exp / "config.yaml")),
        *("--model_file", str(names.lm_exp / options.inference_lm)),
        *("--ngpu", str(ngpu)),
    ]


def launched(options: Options, exp: Path, ngpu: int, words: list[str]) -> list[str]:
    """A training's words on other machines: ESPnet's launcher as in asr.sh, or by SSH.

    Raises:
        RecipeError: by SSH the launcher could not enter the current folder.
    """
    # a login by SSH has none of these, and slurm.pl has sbatch export PATH alone
    names = ("PYTHONPATH", determinism.ASKED)
    handed = [f"{name}={os.environ.get(name, '')}" for name in names]
    words = ["env", *handed, *shlex.split(options.python), *words]
    meeting = Path(options.expdir).absolute() / ".dist_init_"
    if options.host:
        if shlex.quote(str(meeting)) != str(meeting):
            raise RecipeError(
                f"--host: ESPnet's launcher cannot go to {meeting.parent}: take a path "
                "without blanks, quotes and the like"
            )
        words = [remote(word) for word in words]
        where = ["--host", options.host, "--envfile", "none"]
    else:
        where = ["--cmd", options.cuda_cmd, "--num_nodes", str(options.num_nodes)]
    return [
        *("-m", "espnet2.bin.launch", *where, "--ngpu", str(ngpu)),
        *("--log", str(exp / "train.log"), "--init_file_prefix", str(meeting)),
        *("--multiprocessing_distributed", "true", "--", *words),
    ]


def remote(word: str) -> str:
    """A word for a here-document in which a shell finds its command."""
    return re.sub(r"[\\$`]", r"\\\g<0>", shlex.quote(word))


def inference(options: Options, names: Layout, scp: Path, output: Path) -> list[str]:
    """Beam search over the utterances of `scp`."""
    words = [
        *("-m", "espnet2.bin.asr_inference", "--output_dir", str(output)),
        *("--ngpu", str(int(options.gpu_inference))),
        *("--data_path_and_name_and_type", f"{scp},speech,sound"),
        *("--asr_train_config", str(names.exp / "config.yaml")),
        *("--asr_model_file", str(names.exp / options.inference_asr_model)),
    ]
    if options.use_lm:
        words += ["--lm_train_config", str(names.lm_exp / "config.yaml")]
        words += ["--lm_file", str(names.lm_exp / options.inference_lm)]
    if options.inference_config:
        words += ["--config", options.inference_config]
    given = read(options.inference_config, options.inference_args)
    for name in UNLESS_GIVEN.keys() - given.keys():
        words += [f"--{name}", str(UNLESS_GIVEN[name])]
    return words + shlex.split(options.inference_args)


def data(names: Layout) -> list[str]:
    words = []
    for kind, folder in (("train", names.train), ("valid", names.valid)):
        option = f"--{kind}_data_path_and_name_and_type"
        words += [option, f"{folder}/wav.scp,speech,sound"]
        words += [option, f"{folder}/text,text,text"]
    return words


def shapes(options: Options, names: Layout) -> list[Path]:
    """The lengths that a training reads."""
    files = ("speech_shape", f"text_shape.{options.token_type}")
    return [names.stats / kind / file for kind in ("train", "valid") for file in files]


def model(options: Options, names: Layout) -> list[str]:
    """What statistics and training share; the user's own arguments come last."""
    # as a number, since not all frontends read "16k"
    words = [*tokens(options, names), "--frontend_conf", f"fs={options.rate}"]
    return words + configured(options.asr_config, options.asr_args)


def lm_model(options: Options, names: Layout) -> list[str]:
    """The same for the language model, which has but one kind of data."""
    words = tokens(options, names)
    for kind, text in (("train", names.lm_train), ("valid", names.lm_valid)):
        words += [f"--{kind}_data_path_and_name_and_type", f"{text},text,text"]
    return words + configured(options.lm_config, options.lm_args)


def tokens(options: Options, names: Layout) -> list[str]:
    return [
        *("--use_preprocessor", "true", "--non_linguistic_symbols", "none"),
        *("--bpemodel", str(names.bpemodel or "none")),
        *("--token_type", options.token_type),
        *("--token_list", str(names.token_list)),
        *("--cleaner", "none", "--g2p", "none"),
    ]


def configured(config: str, given: str) -> list[str]:
    return (["--config", config] if config else []) + shlex.split(given)
