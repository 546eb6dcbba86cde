"""What was made of other data, models or settings is made again."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from espnet_srupp.recipe import model_stages, stage
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options

GIVEN = Options(
    **{"train_set": "a", "valid_set": "b", "test_sets": "c", "use_lm": True},
    **{"asr_tag": "x", "lm_tag": "y", "inference_tag": "z", "asr_stats_dir": "stats"},
    pretrained_model="first.pth:encoder",
)
NAMES = layout(GIVEN)
TRAIN, VALID, TEST = "dump/raw/a", "dump/raw/b", "dump/raw/c"
TOKENS = "data/token_list/bpe_unigram30"
EXP, LM = "exp/asr_x", "exp/lm_y"
MODELS = [f"{EXP}/valid.acc.ave.pth", f"{LM}/valid.loss.ave.pth"]
MODELS += [f"{EXP}/config.yaml", f"{LM}/config.yaml"]
SHAPES = [f"stats/{kind}/speech_shape" for kind in ("train", "valid")]
SHAPES += [f"stats/{kind}/text_shape.bpe" for kind in ("train", "valid")]
TABLES = [f"{TRAIN}/{name}" for name in ("wav.scp", "text", "utt2hash")]
TABLES += [f"{VALID}/{name}" for name in ("wav.scp", "text", "utt2hash")]
# what each stage is made from
MADE_FROM = {
    10: [*TABLES, f"{TOKENS}/tokens.txt"],
    11: [*TABLES, f"{TOKENS}/tokens.txt", *SHAPES, "first.pth"],
    12: [f"{TEST}/wav.scp", f"{TEST}/utt2hash", *MODELS],
    13: [f"{TEST}/text", f"{TEST}/utt2spk", f"{EXP}/z/c/text", f"{TOKENS}/bpe.model"],
    14: [*MODELS, f"{EXP}/RESULTS.md", f"{EXP}/images/attention.png"],
}
OTHERS = ["stats/train/feats_stats.npz", f"{LM}/perplexity_test/ppl"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder where all of it is."""
    monkeypatch.chdir(tmp_path)
    for path in {*OTHERS, *(path for paths in MADE_FROM.values() for path in paths)}:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    Path(f"{EXP}/config.yaml").write_text(f"bpemodel: {TOKENS}/bpe.model\n")


def first(number, **given):
    """The first step of a stage."""
    steps = {
        10: model_stages.collect_statistics,
        11: model_stages.train_model,
        12: model_stages.decode_sets,
        13: model_stages.score_sets,
        14: model_stages.pack_model,
    }
    return next(steps[number](replace(GIVEN, **given), NAMES))


@pytest.mark.parametrize(
    ("number", "path"), [(n, path) for n, paths in MADE_FROM.items() for path in paths]
)
def test_what_is_made_of_another_file_is_made_again(number, path):
    before = first(number).record()
    with open(path, "a") as file:
        file.write("# another\n")
    assert f"{path} has changed" in stage.difference(before, first(number).record())


@pytest.mark.parametrize(
    ("number", "given"),
    [
        (10, {"fs": "8k"}),
        (10, {"strict": True}),
        (10, {"asr_args": "--frontend_conf n_mels=40"}),
        (11, {"fs": "8k"}),
        (11, {"feats_normalize": "utterance_mvn"}),
        (11, {"asr_args": "--seed 3"}),
        (11, {"asr_speech_fold_length": 9}),
        (11, {"asr_text_fold_length": 9}),
        (11, {"pretrained_model": "first.pth:decoder"}),
        (11, {"ignore_init_mismatch": True}),
        (12, {"inference_args": "--beam_size 3"}),
        (13, {"score_opts": "-s"}),
        (14, {"inference_args": "--beam_size 3"}),
        (14, {"lang": "en"}),
        (14, {"model_license": "mit"}),
    ],
)
def test_what_is_made_by_another_setting_is_made_again(number, given):
    before, after = (first(number, **each).record() for each in ({}, given))
    # whatever else of the inputs is another one then
    assert stage.difference(before, after | {"inputs": before["inputs"]})


def test_a_model_to_begin_with_may_be_moved():
    Path("first.pth").rename("moved.pth")
    moved = first(11, pretrained_model="moved.pth:encoder").record()
    Path("moved.pth").rename("first.pth")
    assert not stage.difference(first(11).record(), moved)


@pytest.mark.parametrize(
    ("number", "path"),
    [
        *((number, path) for number in (10, 11) for path in (TRAIN, VALID)),
        # where audio lies that is not formatted anew
        *((number, "dump/raw/org/a") for number in (10, 11)),
        (11, "stats/train/feats_stats.npz"),
        *((12, path) for path in (TEST, f"{EXP}/.training", f"{LM}/.training")),
        *((13, path) for path in (TEST, f"{EXP}/z/c/text")),
    ],
)
def test_what_is_read_is_kept_from_other_runs(number, path):
    assert Path(path) in first(number).reads


def test_audio_that_is_not_formatted_anew_is_kept_from_other_runs_where_it_lies():
    given = replace(GIVEN, speed_perturb_factors="0.9 1.0", train_joined=3)
    (step,) = model_stages.train_model(given, layout(given))
    assert {Path("data/a_sp"), Path("data/a_long/3x")} <= {*step.reads}


def test_tokens_are_scored_by_the_pieces_of_the_training():
    Path(f"{EXP}/config.yaml").write_text("bpemodel: theirs.model\n")
    assert Path("theirs.model") in first(13).inputs


@pytest.mark.parametrize("number", [12, 13])
def test_a_model_without_its_pieces_is_refused(number):
    Path(f"{EXP}/config.yaml").write_text("bpemodel: gone.model\n")
    with pytest.raises(RecipeError, match="names gone.model, which is not there"):
        first(number).check()


def test_the_table_of_results_is_of_all_real_time_factors():
    Path(f"{EXP}/z/other").mkdir()
    Path(f"{EXP}/z/other/rtf").touch()
    *_, step = islice(model_stages.score_sets(GIVEN, NAMES), 3)
    assert Path(f"{EXP}/z/other/rtf") in step.inputs


@pytest.mark.parametrize(
    ("number", "path", "made"),
    [
        *((n, path, "whole") for n in (10, 11) for path in (TRAIN, VALID)),
        *((n, TEST, "filtered") for n in (12, 13)),
    ],
)
def test_a_set_that_was_filtered_for_something_else_is_refused(number, path, made):
    options = {"fs": "16k"} | ({"max_wav_duration": "20"} if made == "filtered" else {})
    record = {"options": options, "inputs": {}}
    stage.write(stage.marker(Path(path)), record)
    with pytest.raises(RecipeError, match=f"{path} was made {made}"):
        first(number).check()
