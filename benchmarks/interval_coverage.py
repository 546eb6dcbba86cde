"""How often `longform score`'s intervals hold the truth and its p is wrong, simulated.

    python3 benchmarks/interval_coverage.py

Speakers' own error rates are drawn from a beta distribution with a mean of 10 %. First
each has one recording of 200 words, and the 95 % intervals of their mean are checked.
Then each of 11 has several of 60 words, and a second model is as good as the first, but
better at some speakers and worse at others: what is drawn anew are speakers, as `score`
does, or recordings, as if those were independent.
"""

import machine
import numpy as np

from espnet_srupp.longform.resampling import bootstrap, interval, matched_pairs

TRIALS, DRAWS = 400, 500
WRONG, RIGHT = 2, 18  # of the beta distribution
MEAN = WRONG / (WRONG + RIGHT)
SPREAD = 0.2  # of the logarithm of a model's error rate on a speaker


def held(rng: np.random.Generator, errors: np.ndarray, words: int) -> bool:
    """Whether the interval of errors (S,) of sources with so many words is right."""
    tokens = np.full(len(errors), words)
    low, high = interval(bootstrap(errors[None], tokens, DRAWS, int(rng.integers(99))))
    return low <= MEAN <= high


def of_speakers(rng: np.random.Generator, speakers: int, each: int) -> np.ndarray:
    """Errors (2, S, N) of two equally good models in N recordings of 60 words each."""
    rates = rng.beta(WRONG, RIGHT, speakers)
    # times a factor whose mean is 1
    rates = rates * rng.lognormal(-(SPREAD**2) / 2, SPREAD, (2, speakers))
    return rng.binomial(60, np.clip(rates, 0, 1)[..., None], (2, speakers, each))


def main() -> None:
    machine.parser(__doc__).parse_args()
    rng = np.random.default_rng(1)
    for speakers in (2, 3, 5, 10, 30):
        right = [
            held(rng, rng.binomial(200, rng.beta(WRONG, RIGHT, speakers)), 200)
            for _ in range(TRIALS)
        ]
        print(f"{speakers} speakers: {np.mean(right):.2f} of the intervals hold it")
    for each in (3, 10, 35):
        trials = [of_speakers(rng, 11, each) for _ in range(TRIALS)]
        for drawn, merge in (("recordings", 1), ("speakers", each)):
            # (trials, 2, sources)
            errors = np.reshape(trials, (TRIALS, 2, -1, merge)).sum(-1)
            right = np.mean([held(rng, first, 60 * merge) for first, _ in errors])
            wrong = [matched_pairs(a - b, 2048, 0) < 0.05 for a, b in errors]
            print(
                f"11 speakers, {each} recordings each, {drawn} drawn: {right:.2f} of "
                f"the intervals hold it, {np.mean(wrong):.2f} of p are below 0.05"
            )


if __name__ == "__main__":
    machine.run(main)
