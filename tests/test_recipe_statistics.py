"""Shares of the data, settings that count, and lengths as asr.sh writes them."""

from pathlib import Path

import pytest

from espnet_srupp.recipe import statistics
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options


@pytest.mark.parametrize(("lines", "nj"), [(5, 1), (5, 2), (7, 3), (3, 3)])
def test_shares_are_even_consecutive_and_complete(tmp_path, lines, nj):
    scp = tmp_path / "wav.scp"
    scp.write_text("".join(f"u{n} u{n}.flac\n" for n in range(lines)))
    shares = statistics.split(scp, tmp_path / "logdir", "train", nj)
    texts = [share.read_text() for share in shares]
    assert [share.name for share in shares] == [f"train.{n + 1}.scp" for n in range(nj)]
    assert "".join(texts) == scp.read_text()
    sizes = [text.count("\n") for text in texts]
    assert max(sizes) - min(sizes) <= 1


def test_size_of_the_vocabulary_is_appended(tmp_path):
    (tmp_path / "text_shape").write_text("a 12\nb 7\n")
    statistics.append_size(tmp_path, "bpe", 30)
    assert (tmp_path / "text_shape.bpe").read_text() == "a 12,30\nb 7,30\n"


def test_only_what_changes_the_features_counts():
    assert statistics.settings(
        {
            "encoder": "srupp",
            "encoder_conf.num_blocks": 4,
            "frontend_conf.n_fft": 512,
            "frontend": "default",
            "model_conf.ctc_weight": 0.3,
            "optim": "adam",
            "preprocessor_conf.rir_scp": "x",
            "speech_volume_normalize": "0.05",
        }
    ) == {
        "frontend_conf.n_fft": 512,
        "frontend": "default",
        "preprocessor_conf.rir_scp": "x",
        "speech_volume_normalize": "0.05",
    }


def test_whether_there_is_a_ctc_counts_as_it_decides_what_is_too_short():
    settings = {"encoder": "srupp", "model_conf.ctc_weight": 0.3}
    assert statistics.settings(settings) == {}
    assert statistics.settings(settings | {"model_conf.ctc_weight": 0.0}) != {}


def test_how_many_frames_ctc_has_counts():
    kept = [
        statistics.settings(settings)
        for settings in (
            {"encoder": "conformer"},
            {"encoder": "srupp", "encoder_conf.input_layer": "conv2d8"},
            {"encoder": "rnn"},
        )
    ]
    assert kept[0] == {} and kept[1] != {} and kept[2] not in kept[:2]


def test_outputs_are_asr_shs_files():
    given = Options(
        train_set="a", valid_set="b", test_sets="c", token_type="char", lang="en"
    )
    stats = Path("exp/asr_stats_raw_en_char")
    assert set(statistics.outputs(given, layout(given))) == {
        stats / "train/feats_stats.npz",
        stats / "train/speech_shape",
        stats / "train/text_shape.char",
        stats / "valid/speech_shape",
        stats / "valid/text_shape.char",
    }
