"""Processes that a program starts: they end with it, and a fork loses no signal."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PR_SET_PDEATHSIG = 1  # of linux/prctl.h
# while signals are held back: the process that each one came to
HELD: list[list[int]] = []


def end_as_by_interrupt() -> None:
    """Lets a closed terminal or a kill end the program as Ctrl-C does.

    A program that ignores one, as nohup makes it, still does.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def interrupt(*_: object) -> None:
    if not HELD:
        raise KeyboardInterrupt
    HELD[-1].append(os.getpid())


@contextmanager
def held_back() -> Iterator[None]:
    """Lets signals that end the program wait for the end of the block.

    Python drops what their handlers raise within a fork, and the program would go on.
    To block them would not do: they come to another thread then. A child that begins
    here has to let them through again. Only the main thread answers signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    HELD.append(came)
    try:
        yield
    finally:
        HELD.clear()
        if came:
            raise KeyboardInterrupt


def begin(parent: int) -> None:
    """What a child does first, before it becomes its program or takes work."""
    let_through()
    end_with(parent)


def let_through() -> None:
    """What `held_back` holds back reaches this child again."""
    own = any(os.getpid() in came for came in HELD)
    HELD.clear()
    if own:
        raise KeyboardInterrupt


def end_with(parent: int) -> None:
    """Makes this process end when `parent` is killed and cannot end it any more.

    It would go on writing while the same command, given again, writes there too. Linux
    asks for the thread that started this process: it must not end before.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def follow(parent: int) -> None:
    """The same within a second, whatever thread of `parent` started this process."""

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
