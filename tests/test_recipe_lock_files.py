"""Where the files lie by which several run.sh lock what they make and read."""

import sys
from pathlib import Path

import pytest

from espnet_srupp.recipe import locks
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.stage import Step


@pytest.mark.parametrize("roots", [["big", "big/exp"], ["big/exp", "big"], ["big/exp"]])
def test_locks_are_in_the_innermost_folder(tmp_path, monkeypatch, roots):
    monkeypatch.chdir(tmp_path)
    step = Step(1, "x", lambda: None, [Path("big/exp/asr/x")])
    found = locks.lock_file(step.marker, [Path(root) for root in roots])
    assert found.parent == tmp_path / "big/exp/.locks"


@pytest.mark.parametrize(
    ("output", "lock"),
    [
        pytest.param("data/x", "a/.locks", id="in the recipe"),
        pytest.param("../big/dump/x", "big/dump/.locks", id="shared"),
        pytest.param("link/x", "big/dump/.locks", id="shared by a link"),
        pytest.param("../other/x", "a/.locks", id="elsewhere"),
    ],
)
def test_locks_are_where_all_who_write_there_see_them(
    tmp_path, monkeypatch, output, lock
):
    for folder in ("a", "big/dump", "other"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    Path("link").symlink_to("../big/dump")
    step = Step(1, "x", lambda: None, [Path(output)])
    found = locks.lock_file(step.marker, [Path("../big/dump")])
    assert found.parent == tmp_path / lock
    same = Step(3, "y", lambda: None, [Path(output).absolute()])
    assert locks.lock_file(same.marker, [Path("../big/dump")]) == found


@pytest.mark.parametrize("folder", ["data", "my/dump", "my/exp"])
def test_each_folder_that_recipes_may_share_has_its_own_locks(
    tmp_path, monkeypatch, folder
):
    monkeypatch.chdir(tmp_path)
    step = Step(1, "x", lambda: None, [Path(folder, "x")])
    roots = Options(dumpdir="my/dump", expdir="my/exp").roots
    assert locks.lock_file(step.marker, roots).parent == tmp_path / folder / ".locks"


def test_a_lock_is_the_same_wherever_its_folder_is_mounted(tmp_path):
    roots = [tmp_path / machine / "dump" for machine in ("one", "two")]
    found = [locks.lock_file(root / "raw" / ".x.made", [root]) for root in roots]
    assert found[0].name == found[1].name


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the system names it there")
def test_a_link_to_itself_is_named(tmp_path):
    (tmp_path / "dump").symlink_to("dump")
    with pytest.raises(RecipeError, match="is behind a link to itself: remove it"):
        locks.lock_file(tmp_path / "dump" / ".train.made", [])
