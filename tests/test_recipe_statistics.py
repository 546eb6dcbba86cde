"""Shares of the data, settings that count, and lengths as asr.sh writes them."""

from dataclasses import replace
from pathlib import Path

import pytest

from espnet_srupp.recipe import commands, statistics
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.table import write_table


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


def test_each_process_has_a_log_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "kept").write_text("a 1\nb 1\nc 1\n")
    jobs = []

    def stop(started, *args, **kwargs):
        jobs.extend(started)
        raise KeyboardInterrupt

    monkeypatch.setattr(statistics, "UTTERANCES_PER_PROCESS", 1)
    monkeypatch.setattr(statistics.process, "run", stop)
    given = Options(train_set="a", valid_set="b", test_sets="c", nj=3)
    sets = {"train": tmp_path / "kept", "valid": tmp_path / "kept"}
    with pytest.raises(KeyboardInterrupt):
        statistics.gather(given, layout(given), sets, tmp_path / "x", lambda *_: [])
    assert len({job.log for job in jobs}) == len({job.output for job in jobs}) == 3


def test_training_sees_no_utterance_without_a_path_for_ctc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = Options(train_set="a", valid_set="b", test_sets="c", token_type="char")
    given = replace(given, asr_args="--encoder srupp --frontend_conf hop_length=160")
    names, words = layout(given), {f"u{n:02}": "ABC" for n in range(20)}
    # of 16 frames the encoder makes 3
    write_table(words | {"u07": "ABABC"}, tmp_path / "text")
    samples = dict.fromkeys(words, 16000) | {"u07": 2560}
    write_table(samples, tmp_path / "utt2num_samples")
    kept = statistics.fit(given, names, "train", tmp_path)
    assert kept.read_text().split("\n")[6:8] == ["u06 16000", "u08 16000"]
    (dropped,) = (names.stats / "train" / "dropped").read_text().splitlines()
    assert dropped.startswith("u07 ")
    with pytest.raises(RecipeError, match="u07"):
        statistics.fit(replace(given, strict=True), names, "train", tmp_path)


def test_size_of_the_vocabulary_is_appended(tmp_path):
    (tmp_path / "text_shape").write_text("a 12\nb 7\n")
    statistics.append_size(tmp_path, "bpe", 30)
    assert (tmp_path / "text_shape.bpe").read_text() == "a 12,30\nb 7,30\n"


def test_outputs_are_asr_shs_files():
    given = Options(
        train_set="a", valid_set="b", test_sets="c", token_type="char", lang="en"
    )
    given = replace(given, asr_args="--encoder conformer")
    stats = Path("exp/asr_stats_raw_en_char")
    assert set(statistics.outputs(given, layout(given))) == {
        stats / "train/feats_stats.npz",
        stats / "train/speech_shape",
        stats / "train/text_shape.char",
        stats / "valid/speech_shape",
        stats / "valid/text_shape.char",
    }


def test_features_that_are_not_computed_are_not_missed():
    given = Options(train_set="a", valid_set="b", test_sets="c", token_type="char")
    given = replace(given, asr_args="--model_conf extract_feats_in_collect_stats=false")
    names = layout(given)
    assert statistics.outputs(given, names) == commands.shapes(given, names)


def gather(tmp_path, monkeypatch, sizes, nj):
    """Statistics of sets of so many utterances; how many processes there were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(statistics, "UTTERANCES_PER_PROCESS", 1)
    given = Options(train_set="a", valid_set="b", test_sets="c", nj=nj)
    names = layout(given)
    names.token_list.parent.mkdir(parents=True)
    names.token_list.write_text("<blank>\n<unk>\nA\n<sos/eos>\n")
    sets = {}
    for kind, size in zip(("train", "valid"), sizes, strict=True):
        sets[kind] = tmp_path / kind
        sets[kind].write_text("".join(f"{kind}{n} 1\n" for n in range(size)))
    shares = {}

    def command(keys, part):
        shares[part] = keys
        return []

    def run(jobs, *_, **__):
        for job in jobs:
            for kind, share in zip(sets, shares[job.output], strict=True):
                folder = job.output / kind
                folder.mkdir(parents=True)
                ids = [line.split()[0] for line in share.read_text().splitlines()]
                assert ids
                (folder / "batch_keys").write_text("text\n")
                (folder / "stats_keys").write_text("")
                (folder / "text_shape").write_text("".join(f"{u} 3\n" for u in ids))

    monkeypatch.setattr(statistics.process, "run", run)
    statistics.gather(given, names, sets, tmp_path / "stats", command)
    return len(shares)


def test_lengths_of_all_shares_have_the_size_of_the_vocabulary(tmp_path, monkeypatch):
    assert gather(tmp_path, monkeypatch, (5, 4), 2) == 2
    for kind, size in (("train", 5), ("valid", 4)):
        lines = (tmp_path / "stats" / kind / "text_shape.bpe").read_text()
        assert lines == "".join(f"{kind}{n} 3,4\n" for n in range(size))


def test_no_process_has_a_share_without_utterances(tmp_path, monkeypatch):
    assert gather(tmp_path, monkeypatch, (9, 2), 3) == 2
