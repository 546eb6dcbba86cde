"""How far a long piece of work is."""

import sys

from tqdm import tqdm


class Progress:
    """A bar on a terminal; elsewhere a line at every tenth of the way."""

    def __init__(self, title: str, total: int, unit: str):
        self.title, self.total, self.unit = title, total, unit
        self.done = self.told = 0
        self.bar = None
        # None where it was closed
        if sys.stderr is not None and sys.stderr.isatty():
            self.bar = tqdm(total=total, desc=title, unit=unit, smoothing=0)

    def update(self, done: int) -> None:
        if self.bar is not None:
            self.bar.update(done - self.done)
        elif done * 10 // self.total > self.told:
            self.told = done * 10 // self.total
            print(f"  {self.title}: {done}/{self.total} {self.unit}", flush=True)
        self.done = done

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
