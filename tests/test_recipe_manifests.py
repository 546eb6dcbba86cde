"""The corpora of lhotse: from disk to tokens, downloads, and what is not whole."""

import io
import logging
import os
import re
import shlex
import tarfile
from pathlib import Path

import pytest

from espnet_srupp.recipe import asr, datadir
from espnet_srupp.recipe.corpora import manifests
from espnet_srupp.recipe.errors import RecipeError

AUDIO = (".flac", ".wav")  # not .sph: the length of a talk counts
ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
ARCHIVES = {
    "librispeech": SHARED / "librispeech_excerpt.tar",
    "aishell": SHARED / "aishell1_excerpt.tar.gz",
    # not TED-LIUM: LibriSpeech's audio in its layout
    "tedlium3": SHARED / "tedlium3_standin.tar.gz",
}
# a folder whose time tells of more utterances
DEV = {
    "librispeech": "LibriSpeech/dev-clean",
    "aishell": "data_aishell/wav/dev",
    "tedlium3": "TEDLIUM_release-3/legacy/dev/stm",
}
# a list of tokens that goes with so little text, and the sets that there are
SMALL = {
    "librispeech": ["--nbpe", "60", "--test_sets", "test_clean dev_clean"],
    "aishell": [],
    "tedlium3": ["--nbpe", "80"],
}


def run(corpus, *words):
    """The command line of a recipe's run.sh, in this process, without YAML files."""
    script = (ROOT / "recipes" / corpus / "asr1" / "run.sh").read_text()
    own = shlex.split(script.partition("recipe.asr")[2].replace("\\\n", ""))[:-1]
    none = ["--asr_config", "", "--lm_config", "", "--inference_config", ""]
    return asr.main([*own, *none, "--nj", "1", *words])


def wanted(name):
    """Not the chapters that make LibriSpeech's excerpt slow."""
    return not re.search(r"/train-clean-100/2[67]/", name)


@pytest.fixture(params=ARCHIVES)
def corpus(request, tmp_path, monkeypatch):
    """The name of a corpus whose excerpt is unpacked in disk/."""
    archive = ARCHIVES[request.param]
    if not archive.exists():
        pytest.skip(f"{archive} is absent")
    with tarfile.open(archive) as file:
        members = [m for m in file if wanted(m.name)]
        file.extractall(tmp_path / "disk", members, filter="data")
    monkeypatch.chdir(tmp_path)
    return request.param


def stages(corpus, *words):
    options = [*SMALL[corpus], "--speed_perturb_factors", "0.9 1.0", *words]
    return run(corpus, f"--{corpus.upper()}", "disk", "--partial", "true", *options)


def test_stages_1_to_5_run_on_an_excerpt(corpus, capsys):
    assert stages(corpus, "--stop_stage", "5") == 0
    said = capsys.readouterr().out
    assert "NOT THE WHOLE CORPUS" in said
    train = "train_960" if corpus == "librispeech" else "train"
    source = datadir.read(Path("data", train))
    assert all(
        path.startswith(str(Path.cwd() / "disk")) for path in source.wav.values()
    )
    formatted = datadir.read(Path("dump/raw/org", f"{train}_sp"))
    assert len(formatted.text) == 2 * len(source.text)
    assert formatted.segments is None
    assert datadir.read(Path("dump/raw/dev")).text
    (tokens,) = Path("data").glob("*_token_list/*/tokens.txt")
    listed = tokens.read_text().split("\n")
    assert listed[:2] == ["<blank>", "<unk>"] and listed[-2] == "<sos/eos>"
    assert ("[unk]" in listed) == (corpus == "tedlium3")


def test_what_is_done_is_not_done_again_until_the_corpus_changes(corpus, capsys):
    one = ["--stop_stage", "1"]
    stages(corpus, *one)
    capsys.readouterr()
    assert run(corpus, *SMALL[corpus], *one) == 0
    assert "done before" in capsys.readouterr().out
    Path("disk", DEV[corpus], "new").mkdir()
    assert run(corpus, *SMALL[corpus], *one) == 0
    assert "again, as content was" in capsys.readouterr().out


# a transcript, and what lies there without being one
TRANSCRIPT = {
    "librispeech": "LibriSpeech/dev-clean/**/*.trans.txt",
    "aishell": "data_aishell/transcript/*.txt",
    "tedlium3": "TEDLIUM_release-3/legacy/dev/stm/*.stm",
}


def test_an_edited_transcript_is_seen(corpus, capsys):
    one = ["--stop_stage", "1"]
    stages(corpus, *one)
    for path in Path("disk").rglob("*"):
        if path.suffix in AUDIO:
            os.utime(path)
    capsys.readouterr()
    assert run(corpus, *SMALL[corpus], *one) == 0
    assert "done before" in capsys.readouterr().out
    transcript = next(Path("disk").glob(TRANSCRIPT[corpus]))
    # in place, as by an editor
    with open(transcript, "r+b") as file:
        text = file.read()
        file.seek(0)
        file.write(text)
    assert run(corpus, *SMALL[corpus], *one) == 0
    assert "again, as content was" in capsys.readouterr().out


def test_the_folder_of_a_corpus_is_remembered(corpus, capsys, monkeypatch):
    """Whatever came of the command that named it."""
    monkeypatch.setattr(manifests, "download", lambda *_: pytest.fail("a download"))
    one = ["--stop_stage", "1"]
    assert stages(corpus, *one, "--test_sets", "no") == 1
    assert run(corpus, *SMALL[corpus], *one) == 0
    assert run(corpus, *SMALL[corpus], *one, "--train_set", "dev") == 0
    # another folder is another corpus, even if it is not whole
    Path("disk").rename("other")
    assert run(corpus, f"--{corpus.upper()}", "other", *one) == 1
    assert run(corpus, *SMALL[corpus], *one) == 1
    assert re.search(r"/other.* (has|lacks) .*--partial true", capsys.readouterr().err)


def test_a_link_to_nothing_in_a_corpus_does_not_matter(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link.txt").symlink_to("nowhere")
    assert manifests.content(tmp_path, [tmp_path / "a"]).startswith("1 files (")


def test_an_excerpt_is_not_taken_for_the_whole(corpus, capsys):
    assert run(corpus, f"--{corpus.upper()}", "disk", "--stop_stage", "1") == 1
    (error,) = [
        line for line in capsys.readouterr().err.splitlines() if "error:" in line
    ]
    assert "disk" in error and "--partial true" in error
    assert not Path("data", "train_960").exists()
    assert not Path("data", "train").exists()


def test_an_empty_folder_is_named(corpus, capsys):
    Path("empty").mkdir()
    words = [f"--{corpus.upper()}", "empty", "--partial", "true", "--stop_stage", "1"]
    assert run(corpus, *words) == 1
    assert re.search(r"/empty lacks .*correct its path", capsys.readouterr().err)


def test_a_set_that_cannot_be_made_is_named(corpus, capsys):
    assert stages(corpus, "--stop_stage", "1", "--test_sets", "test_other") == 1
    assert f"{corpus} as it is there has no test_other" in capsys.readouterr().err


# without a corpus


def pack(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Makes the origin hand out an archive with an archive in it."""
    monkeypatch.chdir(tmp_path)
    inner = pack(tmp_path / "S1.tar.gz", {"dev/S1/a.wav": b"1"}).read_bytes()

    def hand_out(url, target, sha256):
        assert (url, sha256) == ("https://x.org/y.tgz", "00")
        pack(target, {"top/part/wav/S1.tar.gz": inner, "top/README": b"2"})

    monkeypatch.setattr(manifests, "download", hand_out)
    return tmp_path / "downloads"


def test_one_folder_of_an_archive_is_fetched_with_the_archives_in_it(served):
    for _ in range(2):
        manifests.fetch("https://x.org/y.tgz", served, "top/part", "00")
    found = sorted(path for path in served.glob("[!.]*/**/*") if path.is_file())
    found += served.glob("*.tgz")
    assert found == [served / "top/part/wav/dev/S1/a.wav", served / "y.tgz"]


def test_an_archive_of_something_else_leaves_nothing(served):
    with pytest.raises(RecipeError, match="y.tgz does not hold top/other"):
        manifests.fetch("https://x.org/y.tgz", served, "top/other", "00")
    assert sorted(os.listdir(served)) == [".locks", "top", "y.tgz"]
    assert not os.listdir(served / "top")


def test_a_corpus_is_found_where_it_is_or_in_the_folder_that_holds_it(tmp_path):
    (tmp_path / "x" / "Corpus").mkdir(parents=True)
    for given in (tmp_path / "x", tmp_path / "x" / "Corpus"):
        assert manifests.locate(given, "Corpus") == tmp_path / "x" / "Corpus"


@pytest.mark.parametrize("partial", [False, True])
def test_a_whole_corpus_raises_nothing_and_says_nothing(tmp_path, capsys, partial):
    manifests.check_whole(tmp_path, {"a": 1}, {"a": 1}, partial)
    assert capsys.readouterr().out == ""


def test_parts_that_are_not_whole_are_listed(tmp_path, capsys):
    sizes = {"a": 1}, {"a": 2, "b": 3, "c": 0}
    told = r"1 of 2 of a, 0 of 3 of b \(utterances\): .*part"
    with pytest.raises(RecipeError, match=told):
        manifests.check_whole(tmp_path, *sizes, partial=False)
    manifests.check_whole(tmp_path, *sizes, partial=True)
    assert "WHOLE CORPUS" in capsys.readouterr().out


def test_what_lhotse_warns_of_is_told_once(tmp_path, capsys):
    with manifests.reading(tmp_path):
        logging.warning("No transcript: a")
        logging.warning("No transcript: b")
    logging.warning("of somebody else")
    assert capsys.readouterr().out.endswith("lhotse: No transcript: a (1 more)\n")


@pytest.mark.parametrize("error", [AssertionError, IndexError, ValueError])
def test_what_lhotse_cannot_read_is_one_sentence(tmp_path, error):
    with pytest.raises(RecipeError, match=r"cannot read .* \(no stm\): unpack"):
        with manifests.reading(tmp_path):
            raise error("no stm")
