"""LibriSpeech, AISHELL-1 and TED-LIUM 3 from corpus to RESULTS.md, on excerpts.

A shrunk SRU++ learns a few utterances by heart, by the recipe's own run.sh and
configuration: its tokens, statistics, training, decoding and scoring fit each other.
"""

import shutil
import subprocess
import tarfile

import pytest
from data.tones import ROOT, environment

from espnet_srupp.recipe import epochs, results
from espnet_srupp.recipe.corpora import tedlium3

pytestmark = pytest.mark.once

DATA = ROOT.parent / "shared" / "data"
ASR_ARGS = """
--encoder_conf hidden_size=128 --encoder_conf attention_size=32
--encoder_conf output_size=64 --encoder_conf embed_size=32
--encoder_conf num_blocks=2 --encoder_conf dropout_rate=0
--decoder_conf num_blocks=1 --decoder_conf linear_units=128
--decoder_conf dropout_rate=0 --decoder_conf positional_dropout_rate=0
--decoder_conf self_attention_dropout_rate=0 --decoder_conf src_attention_dropout_rate=0
--model_conf lsm_weight=0 --specaug none --use_amp false --seed 1
--batch_type unsorted --batch_size 2 --accum_grad 1 --num_workers 0
--optim_conf lr=0.004 --optim_conf weight_decay=0 --scheduler_conf warmup_steps=40
--max_epoch 4 --num_iters_per_epoch 50 --keep_nbest_models 1 --num_att_plot 0
--use_matplotlib false
"""


def few_of_librispeech(corpus):
    """Leaves each reader's shortest utterance; gives all transcripts."""
    texts = []
    for transcripts in corpus.glob("LibriSpeech/train-clean-100/*/*/*.trans.txt"):
        texts += transcripts.read_text().splitlines()
        chapter = list(transcripts.parent.glob("*.flac"))
        shortest = min(chapter, key=lambda path: path.stat().st_size)
        keep_lines(transcripts, lambda words, kept=shortest.stem: words[0] == kept)
        for path in chapter:
            if path != shortest:
                path.unlink()
    return texts


def few_of_tedlium3(corpus):
    """Trains on the three shortest segments of dev's talk; gives all transcripts."""
    legacy = corpus / "TEDLIUM_release-3" / "legacy"
    for old, new in (("train", "other"), ("dev", "train"), ("other", "dev")):
        (legacy / old).rename(legacy / new)
    texts = []
    for talk in legacy.glob("*/stm/*.stm"):
        segments = (line.split(maxsplit=6) for line in talk.read_text().splitlines())
        texts += [
            f"{name}-{begin} {tedlium3.words(text)}"
            for name, _, _, begin, _, _, text in segments
        ]
    (talk,) = (legacy / "train" / "stm").iterdir()
    keep_lines(talk, lambda words: 1 < float(words[4]) - float(words[3]) < 4.2)
    return texts


def few_of_aishell(corpus):
    """There are three; tokens are its characters."""
    return []


def keep_lines(path, wanted):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if wanted(line.split())))


CASES = {
    "librispeech": ("librispeech_excerpt.tar", few_of_librispeech, "train_960"),
    "aishell": ("aishell1_excerpt.tar.gz", few_of_aishell, "train"),
    "tedlium3": ("tedlium3_standin.tar.gz", few_of_tedlium3, "train"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_few_utterances_are_learnt_by_heart(name, tmp_path):
    archive, leave_few, train_set = CASES[name]
    if not (DATA / archive).exists():
        pytest.skip(f"{DATA / archive} is absent")
    with tarfile.open(DATA / archive) as file:
        file.extractall(tmp_path / "disk", filter="data")
    texts = sorted(leave_few(tmp_path / "disk"))
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in texts))
    shutil.copytree(ROOT / "recipes" / name, tmp_path / "recipes" / name, symlinks=True)
    shutil.copy(ROOT / "recipes" / "path.sh", tmp_path / "recipes")
    for link in ("conf", "espnet_srupp"):
        (tmp_path / link).symlink_to(ROOT / link)
    folder = tmp_path / "recipes" / name / "asr1"
    words = [
        *(f"--{name.upper()}", tmp_path / "disk", "--partial", "true", "--nj", "1"),
        *("--bpe_train_text", tmp_path / "text", "--nbpe", "150"),
        *("--valid_set", train_set, "--test_sets", train_set, "--ngpu", "0"),
        *("--speed_perturb_factors", "", "--asr_tag", "few", "--asr_args", ASR_ARGS),
        *("--inference_nj", "1", "--inference_tag", "beam2"),
        *("--inference_args", "--beam_size 2", "--inference_asr_model", "latest.pth"),
    ]
    done = subprocess.run(
        [folder / "run.sh", *map(str, words)],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr

    exp = folder / "exp" / "asr_few"
    assert epochs.read(epochs.logs(exp))[-1].train["loss"] < 1
    row = results.block(exp, "cer").splitlines()[-1].strip("|").split("|")
    assert row[0] == f"beam2/org/{train_set}"
    assert float(row[-2]) < 20
