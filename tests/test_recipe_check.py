"""--check: all that is wrong with a corpus is told, and where the recipe would stop."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from test_recipe_faults import (
    AUDIO,
    OPTIONS,
    TEXT,
    everywhere,
    line,
    make_corpus,
    noise,
    truncate,
    write,
)

from espnet_srupp.recipe import asr, check
from espnet_srupp.recipe.errors import RecipeError


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    return make_corpus(tmp_path, monkeypatch)


def run_check(*words):
    return asr.main([*OPTIONS, "--asr_config", "conf/train.yaml", "--check", *words])


def token_list(letters):
    Path("data/token_list/char").mkdir(parents=True)
    tokens = ["<blank>", "<unk>", *letters, "<sos/eos>", ""]
    Path("data/token_list/char/tokens.txt").write_text("\n".join(tokens))


def test_check_of_good_data_finds_nothing(corpus, capsys):
    assert run_check() == 0
    printed = capsys.readouterr().out
    assert "data/train: 30 utterances, 0 cannot be used" in printed
    assert not Path("dump/raw").exists()
    assert "what needs them has not been checked yet" in printed
    token_list("HELO")
    assert run_check() == 0
    assert "what needs them" not in capsys.readouterr().out


def test_check_finds_everything_at_once(corpus, capsys):
    token_list("HELO")
    TEXT["not UTF-8"](corpus)
    path = corpus / "data" / "dev" / "text"
    path.write_text(path.read_text().replace("dev-03 HELLO", "dev-03 HEY"))
    truncate(corpus / "wav" / "train-01.flac")
    write(np.clip(20 * noise(0), -1, 1))(corpus / "wav" / "dev-02.flac")
    # 31 frames of the encoder
    line("text", "train-05 HELLO", f"train-05 {'HELO' * 8}")(corpus)
    AUDIO["silent"](corpus / "wav" / "test-00.flac")
    assert run_check() == 0
    printed, report = capsys.readouterr().out, Path("dump/check.txt").read_text()
    for text in (printed, report):
        assert "data/train: 30 utterances, 3 cannot be used" in text
        assert "1 not UTF-8\n" in text
        assert "train-01: wav/train-01.flac (utterance train-01) is " in text
        assert "1 with an unknown token, used as they are\n    dev-03: 'Y'" in text
        assert "train-05 has 30 frames for the encoder, and CTC needs 32" in text
        assert "data/dev: 12 utterances, 0 cannot be used\n  1 clip" in text
        assert "data/test: 4 utterances, 0 cannot be used\n  1 silent, used" in text
    assert run_check("--strict", "true") == 1
    errors = capsys.readouterr().err
    assert errors.startswith("error: the recipe would stop at data/train (")


def test_a_test_set_that_is_the_validation_set_stays_whole(corpus, capsys):
    truncate(corpus / "wav" / "dev-01.flac")
    assert run_check("--test_sets", "dev test") == 1
    assert "stop at data/dev (1 " in capsys.readouterr().err
    stages = ["--stage", "3", "--stop_stage", "3", "--asr_config", "conf/train.yaml"]
    assert asr.main([*OPTIONS, *stages]) == 0
    assert asr.main([*OPTIONS, *stages, "--test_sets", "dev test"]) == 1
    assert "1 of 12 " in capsys.readouterr().err


def test_check_knows_that_the_training_set_alone_is_played_faster(corpus, capsys):
    token_list("HELO")
    # 25 and 28 frames at the speed that it has, and two fewer at 1.1
    for name in ("train", "dev"):
        path = corpus / "data" / name / "text"
        path.write_text(path.read_text().replace("-03 HELLO", f"-03 {'HELO' * 7}"))
    assert run_check("--speed_perturb_factors", "1.0 1.1") == 0
    printed = capsys.readouterr().out
    assert "data/train: 30 utterances, 1 cannot be used" in printed
    assert "data/dev: 12 utterances, 0 cannot be used" in printed


def test_check_leaves_to_stage_4_what_that_leaves_out(corpus, capsys):
    token_list("HELO")
    # more tokens than it has frames
    line("text", "train-03 HELLO", f"train-03 {'HELO' * 9}")(corpus)
    for least, count in (("0.1", 1), ("2", 0)):
        run_check("--min_wav_duration", least)
        said = f"data/train: 30 utterances, {count} cannot be used"
        assert said in capsys.readouterr().out


def test_check_knows_that_ids_are_longer_at_other_speeds(corpus, capsys):
    everywhere("train-08", "train-08" + "8" * 187)(corpus)
    everywhere("train-07", "train-07" + "7" * 186)(corpus)
    # of which no other speeds are made
    for name in ("wav.scp", "text", "utt2spk"):
        path = corpus / "data" / "dev" / name
        path.write_text(path.read_text().replace("dev-08 ", f"dev-08{'8' * 189} "))
    for speeds, count in (("", 0), ("0.9 1.0 1.1", 1)):
        assert run_check("--speed_perturb_factors", speeds) == 0
        said = capsys.readouterr().out
        assert f"data/train: 30 utterances, {count} cannot be used" in said
        assert "data/dev: 12 utterances, 0 cannot be used" in said


def test_check_looks_at_every_training(corpus, capsys):
    token_list("HELO")
    line("text", "train-05 HELLO", f"train-05 {'HELO' * 7}")(corpus)
    coarse = "encoder: srupp\nencoder_conf:\n    input_layer: conv2d8\n"
    Path("conf/coarse.yaml").write_text(coarse)
    for configs in ("conf/coarse.yaml conf/train.yaml", "conf/train.yaml"):
        run_check("--asr_config", configs)
    both, fine = capsys.readouterr().out.split("the whole list is in", 1)
    assert "train-05 has 14 frames for the encoder, and CTC needs 28" in both
    assert "data/train: 30 utterances, 0 cannot be used" in fine


def test_a_training_token_that_the_list_lacks_stops_check_and_stage_10(corpus, capsys):
    token_list("HELO")
    line("text", "train-03 HELLO", "train-03 HEY")(corpus)
    assert run_check() == 1
    captured = capsys.readouterr()
    assert "1 with an unknown token\n    train-03: 'Y' is not in" in captured.out
    assert "stop at data/train (1 with an unknown token)" in captured.err


def test_an_unknown_token_of_another_set_does_not_stop_it(corpus, capsys):
    token_list([*"HELO", "<space>"])
    path = corpus / "data" / "dev" / "text"
    lines = path.read_text().replace("-03 HELLO", "-03 HEY")
    path.write_text(lines.replace("-04 HELLO", "-04 HELLO HELLO"))
    truncate(corpus / "wav" / "dev-01.flac")
    assert run_check() == 0
    printed = capsys.readouterr().out
    assert "data/dev: 12 utterances, 1 cannot be used" in printed
    # of characters the blank is one
    assert "tokens spell" not in printed


def test_words_that_pieces_do_not_spell_are_told(corpus, capsys):
    bpe = ["--token_type", "bpe", "--nbpe", "11", "--bpe_train_text", "data/dev/text"]
    line("text", "train-03 HELLO", "train-03 H\u2460")(corpus)
    path = corpus / "data" / "dev" / "text"
    path.write_text(path.read_text().replace("dev-03 HELLO", "dev-03 HELLO H1"))
    stages = ["--stage", "5", "--stop_stage", "5", "--asr_config", "conf/train.yaml"]
    assert asr.main([*OPTIONS, *bpe, *stages]) == 0
    run_check(*bpe)
    assert (
        "1 changed by SentencePiece, used as they are\n"
        "    train-03: its tokens spell 'H1'"
    ) in capsys.readouterr().out


def test_check_stops_where_the_recipe_would(corpus, capsys):
    truncate(corpus / "wav" / "test-01.flac")
    assert run_check() == 1
    assert "stop at data/test (1 " in capsys.readouterr().err


def test_check_stops_at_more_than_a_tenth_of_a_training_set(corpus, capsys):
    for n in range(3):
        truncate(corpus / "wav" / f"train-{n:02}.flac")
    assert run_check() == 0
    # of three there are no more than three examples
    assert "more" not in capsys.readouterr().out
    truncate(corpus / "wav" / "train-03.flac")
    assert run_check() == 1
    assert "stop at data/train (4 " in capsys.readouterr().err


def test_check_tells_audio_of_another_rate(corpus, capsys):
    assert run_check("--fs", "8k") == 1
    assert "stop at data/train (30 of another rate)" in capsys.readouterr().err


def test_a_long_list_is_cut_on_the_screen_only(corpus, capsys):
    for n in range(5):
        write(np.clip(20 * noise(n), -1, 1))(corpus / "wav" / f"train-{n:02}.flac")
    assert run_check() == 0
    printed, report = capsys.readouterr().out, Path("dump/check.txt").read_text()
    assert "and 2 more" in printed and "train-04" not in printed
    assert "train-04" in report


# HELLO has two equal letters beside each other: six frames
@pytest.mark.parametrize(
    ("settings", "shortest"),
    [
        pytest.param({}, 26 * 128, id="conv2d"),
        pytest.param({"frontend_conf.hop_length": "160"}, 26 * 160, id="hop"),
        pytest.param({"encoder_conf.input_layer": "linear"}, 5 * 128, id="linear"),
        pytest.param({"model_conf.ctc_weight": "0"}, 0, id="no CTC"),
        pytest.param({"frontend": "s3prl"}, 0, id="unknown frontend"),
        pytest.param({"encoder": "rnn"}, 0, id="own subsampling"),
        pytest.param({"encoder_conf.input_layer": ["conv2d"]}, 0, id="no layer"),
    ],
)
def test_ctc_needs_a_frame_for_each_token_and_one_between_equal_ones(
    settings, shortest
):
    settings = {"encoder": "srupp"} | settings

    def short(samples):
        return check.too_short({"u": "HELLO"}, {"u": samples}, list, settings)

    assert not short(shortest)
    if shortest:
        assert "has 5 frames for the encoder, and CTC needs 6" in str(
            short(shortest - 1)["u"]
        )


def test_a_text_at_several_speeds_is_split_once():
    asked = []

    def split(line):
        asked.append(line)
        return list(line)

    text = {"u": "HELLO", "sp0.9-u": "HELLO", "v": "HALLO"}
    samples = {"u": 16000, "sp0.9-u": 1, "v": 1}
    found = check.too_short(text, samples, split, {"encoder": "srupp"})
    assert found.keys() == {"sp0.9-u", "v"}
    assert asked == ["HELLO", "HALLO"]


@pytest.mark.parametrize("hop", [0, -5, math.inf, "x"])
def test_a_hop_that_makes_no_frames_is_named(hop):
    settings = {"encoder": "srupp", "frontend_conf.hop_length": hop}
    with pytest.raises(RecipeError, match=f"frontend_conf.hop_length is '?{hop}"):
        check.frames(16000, settings)


@pytest.mark.parametrize("text", ["A", "AB", "AA", "HELLO", "AAAA"])
def test_fewer_frames_than_told_have_an_infinite_loss(text):
    settings = {"encoder_conf.input_layer": "linear"}
    ids = torch.tensor([[1 + ord(letter) - ord("A") for letter in text]])

    def loss(frames):
        scores = torch.zeros(frames, 1, 27).log_softmax(-1)
        lengths = torch.tensor([frames]), torch.tensor([len(text)])
        return torch.nn.functional.ctc_loss(scores, ids, *lengths, reduction="sum")

    def fits(frames):
        samples = (frames - 1) * check.HOP_LENGTH
        return not check.too_short({"u": text}, {"u": samples}, list, settings)

    for frames in range(1, 9):
        assert fits(frames) == bool(loss(frames).isfinite())


def test_what_is_left_out_of_the_sets_for_training_is_told(corpus, capsys):
    token_list("HELO")
    AUDIO["silent"](corpus / "wav" / "train-00.flac")
    path = corpus / "data" / "dev" / "text"
    path.write_text(path.read_text().replace("-03 HELLO", f"-03 {'HELO' * 8}"))
    assert run_check() == 0
    printed = capsys.readouterr().out
    assert "data/train: 30 utterances, 1 cannot be used\n  1 silent\n" in printed
    assert "data/dev: 12 utterances, 1 cannot be used\n  1 too short for" in printed
