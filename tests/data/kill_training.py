"""Trains a tiny model once in peace and once killed again and again; prints both.

usage: kill_training.py FOLDER SEED

ESPnet is imported once, and each training is a fork, so that a kill costs no start.
"""

import json
import os
import random
import signal
import sys
import time
from hashlib import blake2b
from pathlib import Path

import torch
from espnet2.tasks.asr import ASRTask
from tiny_training import words, write_data

import espnet_srupp.run  # noqa: F401


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def begin(folder, exp, writing):
    """Forks a training, which dies in the `writing`-th file that it writes."""
    child = os.fork()
    if child:
        return child
    log = os.open(exp / "train.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    written = 0
    fsync = os.fsync

    def count(descriptor):
        nonlocal written
        written += 1
        if written == writing:
            die()
        fsync(descriptor)

    os.fsync = count
    ASRTask.main(cmd=words(folder, exp))
    os._exit(0)


def train(folder, exp, writing=0, seconds=float("inf")):
    """Trains from what the last one left; says if it finished."""
    exp.mkdir(exist_ok=True)
    child = begin(folder, exp, writing)
    start = time.monotonic()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() - start > seconds:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.02)
    return (exp / "valid.acc.ave.pth").exists()


def digest(value):
    """A hash of all numbers in a state."""
    result = blake2b(digest_size=16)

    def add(item):
        if isinstance(item, dict):
            for key in sorted(item, key=str):
                add((str(key), item[key]))
        elif isinstance(item, (list, tuple)):
            for each in item:
                add(each)
        elif isinstance(item, torch.Tensor):
            result.update(item.numpy().tobytes())
        else:
            result.update(repr(item).encode())

    add(value)
    return result.hexdigest()


def summary(exp):
    state = torch.load(exp / "checkpoint.pth", weights_only=False)
    kept = {k: digest(state[k]) for k in ("model", "optimizers", "schedulers")}
    for path in sorted(exp.glob("*.pth")):
        if path.name != "checkpoint.pth":
            kept[path.name] = digest(torch.load(path, weights_only=True))
    return kept


def main():
    torch.set_num_threads(1)
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    write_data(folder)
    start = time.monotonic()
    assert train(folder, folder / "peace")
    duration = time.monotonic() - start
    chance = random.Random(seed)
    # in the middle of the first checkpoint, of the first model, of later ones
    kills = [{"writing": n} for n in (1, 2, 3, 4)]
    kills += [{"seconds": chance.uniform(0, duration)} for _ in range(2)]
    exp, loadable, finished = folder / "killed", [], []
    for kill in kills:
        finished.append(train(folder, exp, **kill))
        loadable.append((exp / "checkpoint.pth").exists())
        if loadable[-1]:
            torch.load(exp / "checkpoint.pth", weights_only=False)
    assert train(folder, exp)
    log = (exp / "train.log").read_text()
    print(
        json.dumps(
            {
                "peace": summary(folder / "peace"),
                "killed": summary(exp),
                "loadable": loadable,
                "resumed": log.count("was resumed using"),
                "finished": finished,
            }
        )
    )


if __name__ == "__main__":
    main()
