"""No utterance is lost or doubled between the processes."""

from pathlib import Path

import pytest

from espnet_srupp.recipe import decoding, model_stages
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options, cores
from espnet_srupp.recipe.process import Tail

LENGTHS = {"a": 10, "b": 90, "c": 30, "d": 50, "e": 20}


@pytest.mark.parametrize("nj", [1, 2, 3, 9])
def test_every_utterance_is_dealt_once(nj):
    shares = decoding.balanced(LENGTHS, nj)
    assert sorted(sum(shares, [])) == sorted(LENGTHS)
    assert all(shares)
    assert len(shares) == min(nj, len(LENGTHS))


def test_processes_get_the_same_length_of_audio():
    shares = decoding.balanced(LENGTHS, 2)
    assert [sum(LENGTHS[u] for u in share) for share in shares] == [100, 100]


def test_longest_comes_first():
    for share in decoding.balanced(LENGTHS, 2):
        lengths = [LENGTHS[u] for u in share]
        assert lengths == sorted(lengths, reverse=True)


@pytest.fixture
def parts(tmp_path):
    texts = ["c three\na one two\n", "b \n"]
    paths = [tmp_path / f"part{n}" for n in range(2)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_results_are_sorted_and_empty_ones_kept(parts, tmp_path):
    decoding.merge(parts, dict.fromkeys("abc", ""), tmp_path / "text")
    assert (tmp_path / "text").read_text() == "a one two\nb \nc three\n"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("abcd", "d is missing"), ("ab", "c came out .*unasked")],
    ids=["lost", "extra"],
)
def test_miscount_names_the_utterance(parts, tmp_path, wanted, said):
    with pytest.raises(RecipeError, match=said):
        decoding.merge(parts, dict.fromkeys(wanted, ""), tmp_path / "text")
    assert not (tmp_path / "text").exists()


def test_doubled_utterance_is_named(parts, tmp_path):
    parts[1].write_text("a again\n")
    with pytest.raises(RecipeError, match="a came out .*twice: decode again"):
        decoding.merge(parts, dict.fromkeys("ac", ""), tmp_path / "text")


LOG = """# command
2026-11-21 08:50:00,500 (asr_inference:522) INFO: speech length: 16000
2026-11-21 08:50:00,600 (beam_search:428) INFO: decoder input length: 24
2026-11-21 08:50:01,000 (beam_search:483) INFO: best hypo: ONE
2026-11-21 08:50:01,000 (asr_inference:700) INFO: speech length: 100
2026-11-21 08:50:01,100 (asr_inference:702) WARNING: Utterance ['u'] is too short
2026-11-21 08:50:01,250 (asr_inference:522) INFO: speech length: 16000
2026-11-21 08:50:02,000 (beam_search:483) INFO: best hypo: TWO
"""


def test_progress_and_time_come_from_the_log(tmp_path):
    tail = Tail(tmp_path / "log")
    (tmp_path / "log").write_text(LOG)
    assert [decoding.finished(tail) for _ in range(2)] == [3, 0]
    (tmp_path / "log").write_bytes(b"\xfc" + LOG.encode())
    assert decoding.busy_seconds([tmp_path / "log"] * 2) == pytest.approx(2 * 1.25)


def test_what_an_earlier_model_gave_goes_before_the_decoding(tmp_path, monkeypatch):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    folder = str(tmp_path)
    given = Options(**sets, expdir=folder, dumpdir=folder, inference_nj=1)
    names = layout(given)
    target = names.decoding / "c"
    for path, text in {
        names.tests["c"] / "wav.scp": "u u.flac",
        names.tests["c"] / "utt2num_samples": "u 16000",
        target / "text": "u OLD",
        target / "rtf": "0.1",
        target / "logdir" / "asr_inference.1.log": "best hypo: OLD",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(decoding.process, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        decoding.decode(given, names, "c")
    assert not (target / "text").exists() and not (target / "rtf").exists()
    # of which progress would count the utterances
    assert not (target / "logdir" / "asr_inference.1.log").exists()


@pytest.mark.parametrize(
    "given, gpus, expected",
    [
        ({"gpu_inference": True}, 3, [0, 1, 2]),
        ({"gpu_inference": True, "inference_nj": 5}, 2, [0, 1, 0, 1, 0]),
        ({"inference_nj": 2}, 3, [None, None]),
        ({}, 3, [None] * cores()),
    ],
)
def test_each_gpu_has_its_share(tmp_path, monkeypatch, given, gpus, expected):
    folder, seen = str(tmp_path), []
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    given = Options(**sets, expdir=folder, dumpdir=folder, **given)
    names = layout(given)
    names.tests["c"].mkdir(parents=True)
    for table in ("wav.scp", "utt2num_samples"):
        lines = (f"u{n:03} 16000\n" for n in range(200))
        (names.tests["c"] / table).write_text("".join(lines))

    def stop(jobs, *_, **__):
        seen.extend(job.gpu for job in jobs)
        raise KeyboardInterrupt

    monkeypatch.setattr(decoding, "gpus_here", lambda: gpus)
    monkeypatch.setattr(decoding.process, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        decoding.decode(given, names, "c")
    assert seen == expected


@pytest.mark.parametrize(("log", "told"), [(LOG, ["0.500\n"]), ("", [])])
def test_a_real_time_factor_that_was_measured_is_of_the_decoded_audio(
    log, told, tmp_path, monkeypatch
):
    folder = str(tmp_path)
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    more = {"inference_nj": 2, "fs": "8k", "scheduler": "a:1"}
    given = Options(**sets, expdir=folder, dumpdir=folder, **more)
    names = layout(given)
    names.tests["c"].mkdir(parents=True)
    for table, value in (("wav.scp", "x.flac"), ("utt2num_samples", 8000)):
        lines = "".join(f"{u} {value}\n" for u in "abcde")
        (names.tests["c"] / table).write_text(lines)

    def decode(jobs, *_, scheduler):
        assert scheduler == "a:1"
        for job in jobs:
            job.log.write_text(log)
            made = job.output / "1best_recog"
            made.mkdir(parents=True)
            scp = job.arguments[job.arguments.index("--ngpu") + 3].partition(",")[0]
            for name in decoding.RESULTS:
                ids = [line.split()[0] for line in Path(scp).read_text().splitlines()]
                (made / name).write_text("".join(f"{u} X\n" for u in ids))

    monkeypatch.setattr(decoding.process, "run", decode)
    decoding.decode(given, names, "c")
    # two logs of 1.25 s each, and five seconds of audio
    assert [path.read_text() for path in names.decoding.glob("c/rtf")] == told
    text = (names.decoding / "c" / "text").read_text()
    assert text == "".join(f"{u} X\n" for u in "abcde")


def test_a_missing_gpu_is_told_before_decoding(monkeypatch):
    monkeypatch.setattr(decoding, "gpus_here", lambda: 0)
    decoding.check_gpu(Options())
    for here in ("", "local"):
        with pytest.raises(RecipeError, match="--gpu_inference true: torch finds no G"):
            decoding.check_gpu(Options(gpu_inference=True, scheduler=here))
    # workers elsewhere may have some
    decoding.check_gpu(Options(gpu_inference=True, scheduler="slurm"))


def test_decoding_depends_on_the_files_that_its_arguments_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.pth").write_bytes(b"1")
    given = Options(
        **{"train_set": "a", "valid_set": "b", "test_sets": "c"},
        inference_args="--lm_file mine.pth --ngram_file none",
    )
    names = layout(given)
    names.exp.mkdir(parents=True)
    (names.exp / given.inference_asr_model).touch()
    (step,) = model_stages.decode_sets(given, names)
    assert step.inputs[-1] == Path("mine.pth")
    assert Path("none") not in step.inputs
