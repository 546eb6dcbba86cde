"""One function over many jobs in several processes, with a progress bar."""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.progress import Progress


def parallel_map(
    function: Callable, jobs: Sequence, nj: int, title: str, unit: str = "utt"
) -> list:
    """Calls `function(job)` for each job in up to `nj` processes.

    Args:
        function: of a module's top level, so that a process can find it.
        jobs: one argument each; they and the results travel between processes.
        nj: number of processes, at least 1.
        title: what the progress bar says.
        unit: what one job is.

    Returns:
        The results in the order of the jobs. The first error in that order is raised.

    Raises:
        RecipeError: a process was killed.
    """
    if not jobs:
        return []
    workers = max(1, min(nj, len(jobs)))
    chunk = max(1, min(16, len(jobs) // (4 * workers)))
    # the parent alone answers Ctrl-C: a worker would only print its own traceback
    pool = ProcessPoolExecutor(workers, initializer=ignore_interrupt)
    try:
        results = []
        with Progress(title, len(jobs), unit) as progress:
            for result in pool.map(function, jobs, chunksize=chunk):
                results.append(result)
                progress.update(len(results))
        return results
    except BrokenProcessPool as error:
        raise RecipeError(
            f"a process was killed during '{title}', most likely for want of memory: "
            f"run the same command again with --nj smaller than {nj}"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
