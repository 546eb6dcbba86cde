"""What users are told, and how far a long piece of work is."""

import sys
import time

from tqdm import tqdm


def say(message: str) -> None:
    """Tells the user, with the time of day."""
    print(f"[{time.strftime('%H:%M:%S')}] {message}", flush=True)


def timespan(seconds: float) -> str:
    """3725 as "1 h 2 min", 75 as "1 min 15 s", 7.3 as "7 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


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
