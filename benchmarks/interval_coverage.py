"""How often the 95 % intervals of `longform score` hold the true rate, by simulation.

    python3 benchmarks/interval_coverage.py

Recordings of 200 words whose own error rates are drawn from a beta distribution with a
mean of 10 %; 300 trials for each number of recordings.
"""

import argparse

import numpy as np

from espnet_srupp.longform.resampling import bootstrap, interval

TRIALS, DRAWS, WORDS = 300, 500, 200
WRONG, RIGHT = 2, 18  # of the beta distribution


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    rng = np.random.default_rng(1)
    for recordings in (2, 3, 5, 10, 30):
        words = np.full(recordings, WORDS)
        held = 0
        for trial in range(TRIALS):
            rates = rng.beta(WRONG, RIGHT, size=recordings)
            errors = rng.binomial(WORDS, rates)[None]
            low, high = interval(bootstrap(errors, words, DRAWS, trial)[0])
            held += low <= WRONG / (WRONG + RIGHT) <= high
        print(f"{recordings} recordings: {held / TRIALS:.2f}")


if __name__ == "__main__":
    main()
