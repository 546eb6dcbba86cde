"""AN4 is prepared as by ESPnet's recipe, and only from an archive that holds it."""

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from processes import gone, needs_proc

from espnet_srupp.recipe import arguments, datadir, sound
from espnet_srupp.recipe.corpora import an4
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT.parent / "shared" / "data" / "an4.tar.gz"
needs_archive = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE} is absent")

# the real one


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("an4")
    an4.prepare(folder / "data", folder / "downloads", ARCHIVE)
    return folder


@needs_archive
@pytest.mark.parametrize(
    "name, utterances, speakers, words",
    [
        ("train_nodev", 848, 66, 4851),
        ("train_dev", 100, 8, 591),
        ("test", 130, 10, 773),
    ],
)
def test_sets_have_the_size_of_espnet_s(prepared, name, utterances, speakers, words):
    data = datadir.read(prepared / "data" / name)
    assert len(data.text) == utterances
    assert len(set(data.utt2spk.values())) == speakers
    assert sum(len(line.split()) for line in data.text.values()) == words


@needs_archive
def test_transcripts_are_words_and_nothing_else(prepared):
    for name in ("train_nodev", "train_dev", "test"):
        text = datadir.read(prepared / "data" / name).text
        letters = {letter for line in text.values() for letter in line}
        assert letters <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ '")


@needs_archive
def test_ids_put_the_speaker_first_and_the_first_hundred_are_train_dev(prepared):
    dev = datadir.read(prepared / "data" / "train_dev")
    rest = datadir.read(prepared / "data" / "train_nodev")
    assert dev.text["fash-an251-b"] == "YES"
    assert dev.utt2spk["fash-an251-b"] == "fash"
    assert dev.wav["fash-an251-b"].endswith("/wav/an4_clstk/fash/an251-fash-b.wav")
    assert max(dev.text) < min(rest.text)


@needs_archive
def test_the_audio_is_there(prepared):
    data = datadir.read(prepared / "data" / "test")
    samples, rate = sound.load(data.wav["fcaw-an406-b"], "fcaw-an406-b")
    assert rate == 16000 and len(samples) > 16000


# a small one of the same layout

FILES = {
    "etc/an4_train.fileids": "an4_clstk/bb/an1-bb-b\nan4_clstk/aa/an2-aa-b\n",
    "etc/an4_train.transcription": "<s> YES </s> (an1-bb-b)\n<s> A B </s> (an2-aa-b)\n",
    "etc/an4_test.fileids": "an4test_clstk/cc/cen1-cc-b\n",
    "etc/an4_test.transcription": "ERASE C (cen1-cc-b)\n",
    "wav/an4_clstk/bb/an1-bb-b.wav": "1",
    "wav/an4_clstk/aa/an2-aa-b.wav": "2",
    "wav/an4test_clstk/cc/cen1-cc-b.wav": "3",
}


def pack(path, files, top="an4"):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return path


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Makes AN4 two training and one test utterance, and this the directory."""
    for name, content in FILES.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(content)
    monkeypatch.setattr(an4, "SHA256", an4.content_sha256(tmp_path / "root"))
    monkeypatch.setattr(an4, "TRAIN_DEV", 1)
    monkeypatch.setattr(
        an4, "PARTS", {"train": ("an4_clstk", 2), "test": ("an4test_clstk", 1)}
    )
    monkeypatch.chdir(tmp_path)


def prepare(archive):
    an4.prepare(Path("data"), Path("downloads"), archive)


@pytest.mark.parametrize("top", ["an4", f"an4-{an4.COMMIT}"])
def test_any_top_folder_and_further_files_are_taken(small, top):
    prepare(pack(Path("x.tgz"), {**FILES, "etc/an4_test.transcription2": "A"}, top))
    assert datadir.read(Path("data/train_dev")).text == {"aa-an2-b": "A B"}
    assert datadir.read(Path("data/train_nodev")).text == {"bb-an1-b": "YES"}
    test = datadir.read(Path("data/test"))
    assert test.text == {"cc-cen1-b": "ERASE C"}
    path = f"downloads/an4/{top}/wav/an4test_clstk/cc/cen1-cc-b.wav"
    assert test.wav == {"cc-cen1-b": path}


def test_what_is_unpacked_is_not_unpacked_again(small):
    prepare(pack(Path("x.tgz"), FILES))
    before = os.stat("downloads/an4").st_ino
    prepare(None)
    assert os.stat("downloads/an4").st_ino == before


def test_an_archive_that_is_named_is_read_though_an4_is_there(small):
    prepare(pack(Path("x.tgz"), FILES))
    with pytest.raises(RecipeError, match=r"x.tgz holds other audio"):
        prepare(pack(Path("x.tgz"), FILES | {"wav/an4_clstk/aa/an2-aa-b.wav": "0"}))
    prepare(None)


def test_a_file_that_was_lost_since_is_named_with_what_to_remove(small):
    prepare(pack(Path("x.tgz"), FILES))
    (lost,) = Path("downloads").rglob("cen1-cc-b.wav")
    lost.unlink()
    with pytest.raises(RecipeError, match="downloads/an4 lacks wav/.*: remove it and"):
        prepare(None)


OTHER = {
    "another word": (
        {"etc/an4_test.transcription": "ERASE D (cen1-cc-b)\n"},
        "holds oth",
    ),
    "another sample": ({"wav/an4_clstk/aa/an2-aa-b.wav": "0"}, "holds other audio"),
    "a file less": (
        {"wav/an4_clstk/aa/an2-aa-b.wav": None},
        "lacks wav/.*/an2-aa-b.wav",
    ),
    "no lists": ({"etc/an4_train.fileids": None}, "does not hold AN4.*--archive"),
}


@pytest.mark.parametrize("change, message", OTHER.values(), ids=OTHER)
def test_another_content_is_refused_and_leaves_nothing(small, change, message):
    files = {n: c for n, c in {**FILES, **change}.items() if c is not None}
    with pytest.raises(RecipeError, match=f"x.tgz {message}"):
        prepare(pack(Path("x.tgz"), files))
    assert os.listdir("downloads") == []
    assert not Path("data").exists()


def test_a_missing_archive_is_named(small):
    with pytest.raises(RecipeError, match="x.tgz is missing"):
        prepare(Path("x.tgz"))


def test_without_an_archive_it_is_fetched_from_its_origin(small, monkeypatch):
    def fetch(url, target):
        assert url == (
            "https://codeload.github.com/cmusphinx/an4/tar.gz/"
            "b567d132f43304e70a2b2eca6077f22255311812"
        )
        target.parent.mkdir()
        pack(target, FILES)

    monkeypatch.setattr(an4, "download", fetch)
    prepare(None)
    assert Path("downloads/an4-b567d13.tar.gz").exists()
    assert len(datadir.read(Path("data/test")).text) == 1


# run_best.sh

# takes down its arguments, and "trains" where they do not say --check
RECORD = """#!/usr/bin/env bash
printf '%s\\n' "$@" END >> "${RECORD}"
[[ " $* " = *" --check "* ]] && exit
exp=exp/asr_$(grep -A 1 -e '^--asr_tag' "${RECORD}" | tail -n 1)
mkdir -p "${exp}" && touch "${exp}/valid.acc.ave.pth"
"""
# as python3, which ends by Ctrl-C and by a kill in the same way
SLOW = """#!/usr/bin/env bash
trap 'echo ended >&2; exit 130' TERM
echo $$ >&2
while true; do sleep 0.1; done
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts run_best.sh in a copy."""
    python, recipe = tmp_path / "python3", tmp_path / "recipes/an4/asr1"
    python.write_text(RECORD)
    python.chmod(0o755)
    own = ROOT / "recipes" / "an4" / "asr1"
    shutil.copytree(own / "conf", recipe / "conf")
    for script in (own / "run.sh", own / "run_best.sh", own.parents[1] / "path.sh"):
        shutil.copy(script, recipe.parents[1] if script.name == "path.sh" else recipe)
    monkeypatch.chdir(recipe)
    (tmp_path / "record").touch()

    def start(*words):
        return subprocess.Popen(
            [str(recipe / "run_best.sh"), *words],
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "VIRTUAL_ENV": "active",
                "RECORD": str(tmp_path / "record"),
            },
        )

    return start


@pytest.fixture
def best(start, tmp_path):
    """Calls run_best.sh; returns exit code, errors, and what each run.sh was."""

    def best(*words):
        with start(*words) as script:
            errors = script.stderr.read()
        commands = (tmp_path / "record").read_text().split("\nEND\n")[:-1]
        return script.returncode, errors, [c.split("\n")[2:] for c in commands]

    return best


def test_each_training_of_the_best_model_goes_on_from_the_one_before(best, tmp_path):
    code, errors, commands = best("--ngpu", "1")
    assert code == 0, errors
    before = ""
    for words, name in zip(commands, ("first", "joined", "dense"), strict=True):
        given = arguments.parse(words, tmp_path)
        assert given.ngpu == 1 and given.asr_tag == name
        assert given.pretrained_model == before
        before = str(layout(given).exp / given.inference_asr_model)


def test_the_best_model_is_not_gone_on_with_when_nothing_is_trained(best):
    code, _, commands = best("--check", "true")
    assert code == 0 and len(commands) == 1


def test_what_the_best_model_s_trainings_need_themselves_is_refused(best):
    code, errors, commands = best("--asr_tag", "mine")
    assert code == 1 and commands == []
    assert errors.startswith("error: --asr_tag: run_best.sh gives that itself")


@needs_proc
def test_a_training_of_the_best_model_ends_with_the_script(start, tmp_path):
    (tmp_path / "python3").write_text(SLOW)
    with start() as script:
        pid = int(script.stderr.readline())
        # the others of its trap may be ignored here, as by nohup, and then are there
        script.terminate()
        assert script.stderr.read() == "ended\n"
    assert script.returncode == 130
    assert gone(pid)
