"""The threads that torch's own loops run on.

After a matrix product they look out for more work for some milliseconds and keep their
cores busy. The recurrence comes right then, so threads of its own would have to share
the cores with them.
"""

import ctypes
import functools
import os
from collections.abc import Callable

import torch

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PROCESS = os.getpid()


@functools.cache
def _openmp() -> ctypes.CDLL | None:
    # looked up from torch, as a process can hold several OpenMPs
    library = ctypes.CDLL(torch._C.__file__)
    try:
        library.GOMP_parallel.argtypes = (
            *(_CALLBACK, ctypes.c_void_p),
            *(ctypes.c_uint, ctypes.c_uint),
        )
        library.GOMP_parallel.restype = None
        library.omp_get_thread_num.restype = ctypes.c_int
        library.omp_get_num_threads.restype = ctypes.c_int
    except AttributeError:
        return None
    return library


def share(jobs: int, work: Callable[[int, int], None]) -> None:
    """Calls `work(worker, workers)` once for each of some workers, side by side.

    They are torch.get_num_threads() and no more than `jobs`; one, the caller, in a
    forked child, which does not have the threads of its parent, and where torch comes
    without OpenMP.

    Raises:
        BaseException: what a worker raised.
        KeyboardInterrupt: a signal's handler raised something as the caller's part was
            about to begin, where ctypes drops it.
    """
    threads = torch.get_num_threads()
    openmp = None
    if min(threads, jobs) > 1 and os.getpid() == _PROCESS:
        openmp = _openmp()
    if openmp is None:
        work(0, 1)
        return
    errors, ended = [], []

    @_CALLBACK
    def part(_):
        try:
            worker = openmp.omp_get_thread_num()
            # OpenMP may give less than it was asked for
            workers = min(openmp.omp_get_num_threads(), jobs)
            if worker < workers:
                work(worker, workers)
            ended.append(worker)
        except BaseException as error:
            errors.append(error)

    # all threads, even if jobs are fewer: OpenMP ends those that are left over
    openmp.GOMP_parallel(part, None, threads, 0)
    if errors:
        raise errors[0]
    if 0 not in ended:
        raise KeyboardInterrupt
