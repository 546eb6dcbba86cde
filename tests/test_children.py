"""Processes end with who started them, and no signal is lost to a fork."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import alive, gone, needs_proc

from espnet_srupp.children import held_back, let_through

ROOT = str(Path(__file__).parents[1])
# what ESPnet does for several GPUs: a process for each, spawned, that is no daemon
PROGRAM = """
import multiprocessing, os, time

def train(queue):
    queue.put(os.getpid())
    time.sleep(60)

def main():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=train, args=(queue,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        print(queue.get(timeout=60), flush=True)
    for worker in workers:
        worker.join()
"""


@needs_proc
def test_the_processes_of_several_gpus_end_with_a_killed_training(tmp_path):
    (tmp_path / "several_gpus.py").write_text(PROGRAM)
    path = os.pathsep.join([ROOT, str(tmp_path)])
    with subprocess.Popen(
        [sys.executable, "-m", "espnet_srupp.run", "-m", "several_gpus"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as training:
        workers = [int(training.stdout.readline()) for _ in range(2)]
        assert all(map(alive, workers))
        training.kill()
    assert all(map(gone, workers))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_within_a_fork_is_raised_after_it(number):
    def interrupted(*_):
        raise KeyboardInterrupt

    before = signal.signal(number, interrupted)
    reached = []
    try:
        with pytest.raises(KeyboardInterrupt):
            with held_back():
                os.kill(os.getpid(), number)
                reached.append("the end of the block")
    finally:
        signal.signal(number, before)
    assert reached


def mask(queue):
    let_through()
    queue.put(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def test_a_child_hears_the_signals_that_were_held_back():
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with held_back():
        child = context.Process(target=mask, args=(queue,))
        child.start()
    held = queue.get()
    child.join()
    assert not held & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
