"""Makes the data of a recipe once in peace and again killed again and again.

usage: PYTHONPATH=tests python3 tests/data/kill_stages.py FOLDER SEED KILLS

Prints how often it was killed and which files are other ones then. Stages 2 to 5 are
forks of this process, so that a kill costs no start; each, or a process that it has
started, dies in its n-th change of a file or folder, n being drawn.
"""

import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path

from tones import OPTIONS, make_recipe

from espnet_srupp.recipe import asr

WRITING = set("wax+")
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink"}
RECORDS = ".made"  # hold the times of files


def stages(recipe, dying=0):
    """Runs the stages in a fork; returns whether they ended, and their changes."""
    report = recipe.parent / "changes"
    child = os.fork()
    if not child:
        changes = 0

        def watch(event, args):
            nonlocal changes
            opened = event == "open" and isinstance(args[1], str)
            if event in CHANGES or (opened and WRITING & set(args[1])):
                changes += 1
                if changes == dying:
                    os.kill(os.getpid(), signal.SIGKILL)

        os.chdir(recipe)
        log = os.open(recipe.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.addaudithook(watch)
        code = asr.main([*OPTIONS, "--stop_stage", "5"])
        report.write_text(str(changes))
        os._exit(code)
    _, status = os.waitpid(child, 0)
    # a process of theirs may be the one that dies, which they tell
    assert dying or status == 0, (recipe.parent / "log").read_text()
    return status == 0, int(report.read_text() if status == 0 else 0)


def contents(recipe):
    paths = (path for path in recipe.rglob("*") if ".locks" not in path.parts)
    return {
        str(path.relative_to(recipe)): path.read_bytes()
        for path in paths
        if path.is_file() and not path.name.endswith(RECORDS)
    }


def main(folder, seed, kills):
    recipe = make_recipe(folder)
    fresh = folder / "fresh"
    shutil.copytree(recipe, fresh)
    _, changes = stages(recipe)
    expected = contents(recipe)
    drawn = random.Random(seed)
    killed, others = 0, set()
    while killed < kills:
        shutil.rmtree(recipe)
        shutil.copytree(fresh, recipe)
        # further on each time, as what is finished is not done again
        ended, tries = False, 0
        while not ended:
            ended, _ = stages(recipe, drawn.randint(1, changes))
            killed += not ended
            tries += 1
            assert tries < 20, "the stages do not end"
        made = contents(recipe)
        others |= {
            name for name in expected | made if expected.get(name) != made.get(name)
        }
    print(json.dumps({"killed": killed, "others": sorted(others)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
