"""Work is shared by the threads that torch's own loops run on."""

import multiprocessing
import os
import signal
import sys
import threading
from types import SimpleNamespace

import pytest
import torch
from processes import needs_proc

from espnet_srupp.recurrence import team


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def shares(jobs):
    """What each worker was called with, and the threads they were."""
    calls, threads = [], set()
    meet = threading.Barrier(min(jobs, torch.get_num_threads()), timeout=60)

    def work(*numbers):
        meet.wait()
        calls.append(numbers)
        threads.add(threading.get_ident())

    team.share(jobs, work)
    return sorted(calls), threads


@pytest.mark.parametrize(("limit", "jobs"), [(2, 1), (2, 2), (2, 9), (3, 2)])
def test_workers_are_as_many_as_threads_or_jobs_and_work_at_once(limit, jobs):
    torch.set_num_threads(limit)
    calls, threads = shares(jobs)
    workers = min(jobs, limit)
    assert calls == [(worker, workers) for worker in range(workers)]
    assert len(threads) == workers and threading.get_ident() in threads


@pytest.mark.parametrize("failing", [0, 1])
def test_what_a_worker_raises_reaches_the_caller(failing):
    def work(worker, workers):
        if worker == failing:
            raise KeyboardInterrupt(f"{worker} of {workers}")

    with pytest.raises(KeyboardInterrupt, match=f"{failing} of 2"):
        team.share(2, work)
    assert shares(2)[0] == [(0, 2), (1, 2)]


class Alarm(Exception):
    pass


@pytest.mark.once
def test_a_signal_at_any_moment_is_heard_or_changes_nothing(monkeypatch):
    armed = set()

    def ring(*_):
        if armed:
            armed.clear()
            raise Alarm

    def work(worker, workers):
        done[worker] = True

    # what ctypes tells of exceptions that it drops
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    before = signal.signal(signal.SIGALRM, ring)
    heard = 0
    try:
        for number in range(6000):
            done = [False, False]
            try:
                armed.add(number)
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 97))
                team.share(2, work)
                armed.clear()
                assert all(done)
            except (Alarm, KeyboardInterrupt):
                heard += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard > 30


@needs_proc
def test_threads_without_a_job_stay_for_the_next():
    torch.set_num_threads(3)
    shares(3)
    before = set(os.listdir("/proc/self/task"))
    shares(2)
    shares(3)
    assert before <= set(os.listdir("/proc/self/task"))


def test_without_openmp_the_caller_does_it_all(monkeypatch):
    monkeypatch.setattr(team, "_openmp", lambda: None)
    calls = []
    team.share(9, lambda *numbers: calls.append(numbers))
    assert calls == [(0, 1)]


def test_where_openmp_gives_fewer_threads_every_job_is_done():
    calls = []

    def work(worker, workers):
        # within threads of its own OpenMP gives no others
        team.share(2, lambda *numbers: calls.append(numbers))

    team.share(2, work)
    assert calls == [(0, 1)] * 2


def child(queue):
    team.share(9, lambda *numbers: queue.put(numbers))


def test_a_forked_child_works_alone():
    team.share(9, lambda *_: None)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert queue.get() == (0, 1)
    assert queue.empty()


def test_a_torch_without_openmp_has_none(monkeypatch):
    monkeypatch.setattr(team.ctypes, "CDLL", lambda _: SimpleNamespace())
    assert team._openmp.__wrapped__() is None
