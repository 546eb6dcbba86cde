"""Processes that a program starts: they end with it, and a fork loses no signal."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PR_SET_PDEATHSIG = 1  # of linux/prctl.h
# what ends a program that is asked to
ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@contextmanager
def held_back() -> Iterator[None]:
    """Lets signals that end the program wait for the end of the block.

    Python drops what their handlers raise within a fork, and the program would go on.
    A child that begins here has to let them through again.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_through() -> None:
    """What `held_back` holds back reaches this process again."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def end_with(parent: int) -> None:
    """Makes this process end when `parent` is killed and cannot end it any more.

    It would go on writing while the same command, given again, writes there too.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
