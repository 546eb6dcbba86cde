"""The options of run.sh: asr.sh's names, each with its type, default and meaning."""

import os
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# of data directories; it may be a link
DATA = Path("data")
# corpora that may lie on disk, by the names of ESPnet's db.sh; OWN is the user's
CORPORA = ("LIBRISPEECH", "AISHELL", "TEDLIUM3", "OWN")


def option(
    group: str, default: object, meaning: str, *, choices: str = "", alone: str = ""
) -> Any:
    """A field; `alone` is the value where the command line gives the name only."""
    alone = "true" if isinstance(default, bool) else alone
    metadata = {"group": group, "help": meaning, "choices": choices.split()}
    return field(default=default, metadata=metadata | {"alone": alone})


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
    check: bool = option("general", False, "only look for bad data, and list it")
    strict: bool = option(
        "general", False, "stop at bad data instead of leaving it out"
    )
    ngpu: int = option(
        "general", -1, "GPUs for training; 0: none, -1: one if there is one"
    )
    num_nodes: int = option("general", 1, "machines for training, with --cuda_cmd")
    cuda_cmd: str = option("general", "", 'as in cmd.sh, e.g. "slurm.pl --time 48:00"')
    host: str = option("general", "", 'machines for training by SSH, e.g. "a:0:1,b:0"')
    nj: int = option("general", cores(), "processes from stage 2 on")
    scheduler: str = option(
        "general",
        "",
        "Dask spreads data, statistics and decoding: alone or local on this machine, "
        "slurm by jobs of Slurm, else the address of a scheduler",
        alone="local",
    )
    dumpdir: str = option("general", "dump", "folder of formatted data")
    expdir: str = option("general", "exp", "folder of experiments")
    python: str = option("general", python_command(), "command that runs ESPnet")
    # data
    archive: str = option("data", "", "the corpus as a file, instead of a download")
    LIBRISPEECH: str = option("data", "", "folder of LibriSpeech, used where it lies")
    AISHELL: str = option("data", "", "folder of AISHELL-1, used where it lies")
    TEDLIUM3: str = option("data", "", "folder of TED-LIUM 3, used where it lies")
    OWN: str = option(
        "data", "", "folder of your sets: data directories or lhotse's manifests"
    )
    partial: bool = option(
        "data", False, "take what that folder has, even if it is not the whole corpus"
    )
    train_set: str = option("data", "", "training set")
    valid_set: str = option("data", "", "validation set")
    test_sets: str = option("data", "", "test sets, separated by spaces")
    eval_valid_set: bool = option("data", False, "decode the validation set as well")
    speed_perturb_factors: str = option("data", "", 'speeds, e.g. "0.9 1.0 1.1"')
    train_joined: int = option(
        "data", 0, "train on recordings of N joined utterances as well; 0: on none"
    )
    audio_format: str = option(
        "data", "flac", "format of written audio", choices="flac wav"
    )
    fs: str = option("data", "16k", "sampling rate in Hz, or in kHz with a k")
    resample: bool = option("data", False, "bring audio of other rates to --fs")
    min_wav_duration: float = option("data", 0.1, "shortest training audio, s")
    max_wav_duration: float = option("data", 20.0, "longest training audio, s")
    lang: str = option("data", "noinfo", "language, for the names of folders")
    # tokens
    token_type: str = option("tokens", "bpe", "kind of tokens", choices="bpe char word")
    nbpe: int = option("tokens", 30, "number of BPE tokens")
    bpemode: str = option("tokens", "unigram", "BPE model", choices="unigram bpe")
    bpe_train_text: str = option("tokens", "", "text for BPE, default: training set")
    bpe_nlsyms: str = option("tokens", "", "symbols BPE keeps whole, comma-separated")
    bpe_char_cover: float = option("tokens", 1.0, "share of characters BPE covers")
    oov: str = option("tokens", "<unk>", "symbol for unknown tokens")
    blank: str = option("tokens", "<blank>", "symbol of CTC's blank")
    sos_eos: str = option("tokens", "<sos/eos>", "symbol of start and end")
    # language model
    use_lm: bool = option("language model", False, "train it and decode with it")
    lm_config: str = option("language model", "", "YAML file of its training")
    lm_args: str = option("language model", "", 'overrides, e.g. "--max_epoch 10"')
    lm_tag: str = option("language model", "", "its name, default: from options")
    lm_exp: str = option("language model", "", "its folder, overrides lm_tag")
    lm_stats_dir: str = option("language model", "", "folder of its statistics")
    lm_train_text: str = option(
        "language model",
        "",
        "text files for it, separated by spaces: a file called text has ids, any other "
        "one sentence a line, also as .gz; default: training set and corpus",
    )
    lm_dev_text: str = option(
        "language model", "", "text to validate on, with ids; default: validation set"
    )
    lm_test_text: str = option(
        "language model", "", "text for perplexity, with ids; default: first test set"
    )
    lm_fold_length: int = option("language model", 150, "for batch_type folded, tokens")
    # model
    asr_config: str = option(
        "model",
        "",
        "YAML file of the training; several, separated by spaces, are trained in turn, "
        "each from the valid.acc.ave.pth of the one before (from its "
        "--inference_asr_model where there is no accuracy)",
    )
    asr_args: str = option("model", "", 'overrides, e.g. "--max_epoch 10"')
    asr_tag: str = option("model", "", "name of the experiment, default: from options")
    asr_exp: str = option("model", "", "folder of the experiment, overrides asr_tag")
    asr_stats_dir: str = option(
        "model",
        "",
        "folder of the statistics, by default one for each kind of features",
    )
    feats_normalize: str = option(
        "model",
        "global_mvn",
        "normalisation; with utterance_mvn that of the YAML, if it has one",
        choices="global_mvn utterance_mvn",
    )
    pretrained_model: str = option(
        "model", "", "parameters to begin with, as FILE or FILE:FROM:TO:EXCEPT"
    )
    ignore_init_mismatch: bool = option(
        "model", False, "take what fits of them, and leave out other shapes"
    )
    asr_speech_fold_length: int = option("model", 800, "for batch_type folded, 10 ms")
    asr_text_fold_length: int = option("model", 150, "for batch_type folded, tokens")
    # decoding and scoring
    inference_config: str = option("decoding", "", "YAML file of the decoding")
    inference_args: str = option("decoding", "", 'overrides, e.g. "--beam_size 5"')
    inference_tag: str = option("decoding", "", "name of the results")
    inference_asr_model: str = option("decoding", "valid.acc.ave.pth", "checkpoint")
    inference_lm: str = option(
        "decoding", "valid.loss.ave.pth", "checkpoint of the language model"
    )
    inference_nj: int = option(
        "decoding", 0, "processes for decoding, 0: one for each core or GPU"
    )
    gpu_inference: bool = option("decoding", False, "decode on GPUs")
    model_license: str = option("decoding", "other", "licence, for the model card")
    score_opts: str = option("decoding", "", "-s: tell upper from lower case")
    # long recordings
    longform: str = option(
        "long recordings", "", 'utterances per recording, e.g. "1 3 10 30"'
    )
    longform_models: str = option(
        "long recordings", "", 'other models to compare, "NAME=EXPERIMENT ..."'
    )
    longform_join_args: str = option(
        "long recordings", "", "options of longform join, e.g. \"--group '()' --gap 1\""
    )
    longform_args: str = option(
        "long recordings",
        "",
        'options of longform transcribe, e.g. "--search prefix", which also uses the '
        "model of --use_lm",
    )

    def some(self, *names: str) -> dict[str, object]:
        """A few options by name."""
        return {name: getattr(self, name) for name in names}

    @property
    def strictness(self) -> dict[str, object]:
        """--strict as a setting of a step, where it is not as it is by default."""
        return self.some("strict") if self.strict else {}

    @property
    def hearing(self) -> dict[str, object]:
        """What reading audio depends on, as settings of a step."""
        return self.some("fs") | (self.some("resample") if self.resample else {})

    @property
    def folder(self) -> str:
        """Where the corpus lies, "" if it is to be downloaded or made."""
        return getattr(self, self.corpus.upper()) if self.on_disk else ""

    @property
    def roots(self) -> list[Path]:
        """Folders that several recipes may share."""
        return [DATA, Path(self.dumpdir), Path(self.expdir)]

    @property
    def on_disk(self) -> bool:
        """Whether the corpus may lie on disk."""
        return self.corpus.upper() in CORPORA

    @property
    def launched(self) -> bool:
        """Whether training is started elsewhere, by ESPnet's launcher."""
        return bool(self.cuda_cmd or self.host)

    @property
    def rate(self) -> int:
        """The sampling rate in Hz."""
        number, thousand = self.fs.removesuffix("k"), self.fs.endswith("k")
        return round(float(number) * (1000 if thousand else 1))

    @property
    def skips(self) -> list[int]:
        """The stages of --skip_stages."""
        return [int(number) for number in self.skip_stages.split()]

    @property
    def symbols(self) -> list[str]:
        """What BPE keeps whole."""
        return [symbol for symbol in self.bpe_nlsyms.split(",") if symbol]

    @property
    def asr_configs(self) -> list[str]:
        """The configurations to train, "" for ESPnet's defaults."""
        return shlex.split(self.asr_config) or [""]

    @property
    def lm_texts(self) -> list[str]:
        """Files of text for the language model, if any are named."""
        return shlex.split(self.lm_train_text)

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


def pairs(words: str) -> list[tuple[str, str]]:
    """Reads "a=b c=d"."""
    split = (word.partition("=") for word in shlex.split(words))
    return [(name, value) for name, _, value in split]
