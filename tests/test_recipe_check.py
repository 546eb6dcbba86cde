"""Bad data: each kind is found, told, and left out or stopped at."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from test_recipe_mpeg import silence

from espnet_srupp.recipe import asr, audio, check, datadir, faults
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import DataError, RecipeError
from espnet_srupp.recipe.table import read_table

FS = 16000
SETS = {"train": 30, "dev": 12, "test": 4}
OPTIONS = [
    *("--corpus", "mini", "--train_set", "train", "--valid_set", "dev"),
    *("--test_sets", "test", "--nj", "1", "--token_type", "char", "--stage", "2"),
]


def noise(seed, seconds=1.0):
    return np.random.default_rng(seed).uniform(-0.3, 0.3, int(seconds * FS))


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Sets of one second of noise each, called HELLO."""
    monkeypatch.chdir(tmp_path)
    Path("wav").mkdir()
    for name, count in SETS.items():
        data = DataDir({}, {}, {})
        for n in range(count):
            utterance = f"{name}-{n:02}"
            data.wav[utterance] = f"wav/{utterance}.flac"
            data.text[utterance], data.utt2spk[utterance] = "HELLO", utterance
            soundfile.write(data.wav[utterance], noise(n), FS)
        datadir.write(data, Path("data") / name)
    Path("conf").mkdir()
    Path("conf/train.yaml").write_text("encoder: srupp\n")
    return tmp_path


def truncate(path):
    path.write_bytes(path.read_bytes()[:2000])


def write(samples, rate=FS, **options):
    return lambda path: soundfile.write(path, samples, rate, format="WAV", **options)


AUDIO = {
    "missing": Path.unlink,
    "corrupt": lambda path: path.write_text("<html>"),
    "truncated": truncate,
    "no length": lambda path: path.write_bytes(silence(32) * 9 + silence(64) * 9),
    "no samples": write(np.zeros(0)),
    "silent": write(np.full(FS, 3 / 32768)),
    "of another rate": write(noise(0), 8000),
    "several channels": write(np.stack([noise(0), noise(1)], 1)),
    "not a number": write(np.full(FS, np.nan), subtype="FLOAT"),
}


def line(name, old, new):
    """A change of the lines of a table of the training set."""

    def change(corpus):
        path = corpus / "data" / "train" / name
        old_bytes, new_bytes = (
            text if isinstance(text, bytes) else text.encode() for text in (old, new)
        )
        assert path.read_bytes().count(old_bytes) == 1
        path.write_bytes(path.read_bytes().replace(old_bytes, new_bytes))

    return change


def everywhere(old, new):
    def change(corpus):
        for name in ("wav.scp", "text", "utt2spk"):
            line(name, f"{old} ", f"{new} ")(corpus)

    return change


TEXT = {
    "control character": line("text", "train-07 HELLO", "train-07 HEL\x0bLO"),
    "replacement": line("text", "train-07 HELLO", "train-07 HEL\ufffdLO"),
    "not UTF-8": line("text", "train-07 HELLO", b"train-07 \xdcBER"),
    "empty line": line("text", "train-07 HELLO", "train-07 "),
    "twice": everywhere("train-08", "train-07"),
    "unmatched": line("text", "train-07 HELLO\n", ""),
    "command": line("wav.scp", "wav/train-07.flac", "touch pwned |"),
    "name": line("wav.scp", "wav/train-07.flac", "wav/\x1b[2Jx.flac"),
}


def kinds(found):
    return {key: fault.kind for key, fault in found.items()}


@pytest.mark.parametrize("kind", AUDIO)
def test_bad_audio_is_left_out_and_listed(corpus, kind, capsys):
    AUDIO[kind](corpus / "wav" / "train-07.flac")
    audio.format_audio(Path("data/train"), Path("dump/train"), FS, "flac", nj=1)
    expected = {"truncated": {"truncated", "corrupt"}}.get(kind, {kind})
    (dropped,) = Path("dump/train/dropped").read_text().splitlines()
    assert dropped.startswith("train-07 wav/train-07.flac (utterance train-07) ")
    said = capsys.readouterr().out
    assert any(
        f"1 of 30 utterances of data/train left out: 1 {k}" in said for k in expected
    )
    left = datadir.read(Path("dump/train"))
    assert len(left.text) == 29 and "train-07" not in left.text
    assert len(read_table(Path("dump/train/utt2num_samples"))) == 29


@pytest.mark.parametrize("kind", TEXT)
def test_bad_lines_are_left_out_and_listed(corpus, kind):
    TEXT[kind](corpus)
    audio.format_audio(Path("data/train"), Path("dump/train"), FS, "flac", nj=1)
    (dropped,) = Path("dump/train/dropped").read_text().splitlines()
    assert dropped.startswith("train-07 data/train")
    left = datadir.read(Path("dump/train"))
    assert "train-07" not in left.text
    assert len(left.text) == (28 if kind == "twice" else 29)
    assert not Path("pwned").exists()


def test_bad_audio_is_left_out_at_every_speed(corpus):
    truncate(corpus / "wav" / "train-07.flac")
    source, target = Path("data/train"), Path("data/train_sp")
    audio.perturb_speed(source, target, [0.9, 1.0], nj=1)
    assert len(datadir.read(target).text) == 58
    assert Path("data/train_sp/dropped").read_text().startswith("train-07 wav/")


def test_segments_are_left_out_one_by_one(corpus):
    data = DataDir(
        {"a": "wav/train-01.flac", "b": "wav/train-02.flac"},
        {f"u{n:02}": "HELLO" for n in range(22)},
        {f"u{n:02}": "s" for n in range(22)},
        {f"u{n:02}": ("a", n / 50, n / 50 + 0.5) for n in range(20)},
    )
    # one ends after its recording, one lies in a recording that cannot be read
    data.segments |= {"u20": ("a", 0.5, 1.5), "u21": ("b", 0.0, 1.0)}
    datadir.write(data, Path("data/cut"))
    truncate(corpus / "wav" / "train-02.flac")
    audio.format_audio(Path("data/cut"), Path("dump/cut"), FS, "flac", nj=1)
    dropped = read_table(Path("dump/cut/dropped"))
    assert dropped.keys() == {"u20", "u21"}
    assert len(datadir.read(Path("dump/cut")).text) == 20


def test_strict_stops_and_leaves_nothing(corpus):
    truncate(corpus / "wav" / "train-07.flac")
    with pytest.raises(RecipeError, match="1 of 30 .* cannot be used, wav/train-07"):
        audio.format_audio(Path("data/train"), Path("d/t"), FS, "flac", 1, strict=True)
    assert not Path("d/t").exists()


def test_more_than_a_tenth_stops_in_any_case(corpus):
    for n in range(4):
        truncate(corpus / "wav" / f"train-{n:02}.flac")
    with pytest.raises(RecipeError, match="4 of 30 .*more than a tenth.*train-00"):
        audio.format_audio(Path("data/train"), Path("d/t"), FS, "flac", 1)


def test_a_test_set_stays_whole(corpus):
    AUDIO["silent"](corpus / "wav" / "test-01.flac")
    source, target = Path("data/test"), Path("dump/test")
    audio.format_audio(source, target, FS, "flac", 1, whole=True)
    assert len(datadir.read(target).text) == 4
    truncate(corpus / "wav" / "test-02.flac")
    with pytest.raises(RecipeError, match="1 of 4 .*test-02"):
        audio.format_audio(source, target, FS, "flac", 1, whole=True)


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


def test_check_looks_at_every_training(corpus, capsys):
    token_list("HELO")
    line("text", "train-05 HELLO", f"train-05 {'HELO' * 7}")(corpus)
    coarse = "encoder: srupp\nencoder_conf:\n    input_layer: conv2d8\n"
    Path("conf/coarse.yaml").write_text(coarse)
    for configs in ("conf/coarse.yaml conf/train.yaml", "conf/train.yaml"):
        run_check("--asr_config", configs)
    both, fine = capsys.readouterr().out.split("all of it is in", 1)
    assert "train-05 has 14 frames for the encoder, and CTC needs 28" in both
    assert "data/train: 30 utterances, 0 cannot be used" in fine


def test_a_training_token_that_the_list_lacks_stops_check_and_stage_10(corpus, capsys):
    token_list("HELO")
    line("text", "train-03 HELLO", "train-03 HEY")(corpus)
    assert run_check() == 1
    captured = capsys.readouterr()
    assert "1 with an unknown token\n    train-03: 'Y' is not in" in captured.out
    assert "stop at data/train (1 with an unknown token)" in captured.err


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


def test_espnets_encoders_have_conv2d_or_a_subsampling_of_their_own():
    from espnet2.tasks.asr import encoder_choices

    for name, encoder in encoder_choices.classes.items():
        option = inspect.signature(encoder).parameters.get("input_layer")
        default = check.UNKNOWN if option is None else option.default
        assert check.input_layer({"encoder": name}) == default


@pytest.mark.parametrize("bad, stops", [(1, False), (2, True)])
def test_the_limit_is_a_tenth(bad, stops):
    found = {f"u{n}": DataError("x", "silent") for n in range(bad)}
    if stops:
        with pytest.raises(RecipeError, match="2 of 11"):
            faults.settle(found, 9, Path("s"), strict=False)
    else:
        faults.settle(found, 9, Path("s"), strict=False)


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
