"""Processes end with who started them, and no signal is lost to a fork."""

import multiprocessing
import os
import signal
import threading
import time

import pytest
from processes import end_with_a_killed_parent, needs_proc
from test_run import run_script

from espnet_srupp.children import (
    end_as_by_interrupt,
    end_with,
    held_back,
    interrupt,
    let_through,
)

SPAWNED = """
import multiprocessing, os, threading, time

context = multiprocessing.get_context("spawn")

def work(queue, seconds):
    queue.put(os.getpid())
    time.sleep(seconds)

def work_until(queue, end):
    queue.put(os.getpid())
    end.wait(60)

"""
# what ESPnet does for several GPUs: a process for each, spawned, that is no daemon
OF_SEVERAL_GPUS = """
def main():
    queue = context.Queue()
    workers = [context.Process(target=work, args=(queue, 60)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        print(queue.get(timeout=60), flush=True)
    for worker in workers:
        worker.join()
"""
OF_A_THREAD = """
def main():
    queue = context.Queue()
    end = context.Event()
    child = context.Process(target=work_until, args=(queue, end))
    told = []

    def start():
        child.start()
        # once it has begun to follow, and not before
        told.append(queue.get(timeout=60))

    starter = threading.Thread(target=start)
    starter.start()
    starter.join()
    assert told == [child.pid]
    # what ended with its thread would have done so by now
    child.join(0.2)
    assert child.is_alive()
    end.set()
    child.join()
    return child.exitcode
"""


@needs_proc
@pytest.mark.once
def test_the_processes_of_several_gpus_end_with_a_killed_training(tmp_path):
    (tmp_path / "several_gpus.py").write_text(SPAWNED + OF_SEVERAL_GPUS)
    program = "-m", "espnet_srupp.run", "-m", "several_gpus"
    assert end_with_a_killed_parent(*program, count=2, cwd=tmp_path)


@pytest.mark.once
def test_a_process_lives_on_when_the_thread_that_started_it_ends(tmp_path):
    assert run_script(tmp_path, SPAWNED + OF_A_THREAD).returncode == 0


ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.fixture
def a_program():
    # nohup starts programs that ignore SIGHUP, and shells such that ignore SIGINT
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    # signals may come to it
    others = threading.Event()
    other = threading.Thread(target=others.wait)
    other.start()
    end_as_by_interrupt()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    others.set()
    other.join()


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_that_comes_within_a_fork_is_raised_after_it(number, a_program):
    reached = []
    with pytest.raises(KeyboardInterrupt):
        with held_back():
            os.kill(os.getpid(), number)
            reached.append("the end of the block")
    assert reached
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
        time.sleep(5)


def test_an_error_within_the_block_holds_no_later_signal_back(a_program):
    with pytest.raises(ZeroDivisionError), held_back():
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)


def test_a_signal_that_the_program_ignores_stays_ignored(a_program):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_as_by_interrupt()
    with held_back():
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)


def hear(queue, early):
    if early:
        os.kill(os.getpid(), signal.SIGTERM)
    try:
        let_through()
        if not early:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
    except KeyboardInterrupt:
        queue.put("heard")
    else:
        queue.put("lost")


@pytest.mark.parametrize("early", [False, True])
def test_a_child_hears_the_signals_that_were_held_back(early, a_program):
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with held_back():
        child = context.Process(target=hear, args=(queue, early))
        child.start()
    child.join(60)
    # a child that has died says nothing
    assert child.exitcode == 0
    assert queue.get() == "heard"


def test_what_the_parent_heard_is_not_the_childs(a_program):
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with pytest.raises(KeyboardInterrupt):
        with held_back():
            os.kill(os.getpid(), signal.SIGTERM)
            child = context.Process(target=pass_on, args=(queue,))
            child.start()
    child.join(60)
    # a child that has died says nothing
    assert child.exitcode == 0
    assert queue.get() == "goes on"


def pass_on(queue):
    let_through()
    queue.put("goes on")


def test_another_thread_holds_no_signal_back():
    before = signal.signal(signal.SIGTERM, interrupt)
    inside, end = threading.Event(), threading.Event()

    def hold():
        with held_back():
            inside.set()
            end.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(60)
    try:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            end.wait(60)
    finally:
        end.set()
        thread.join()
        signal.signal(signal.SIGTERM, before)


def test_a_process_whose_parent_had_ended_before_ends():
    child = multiprocessing.get_context("fork").Process(target=end_with, args=(0,))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
