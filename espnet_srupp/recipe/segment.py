"""Where segments lie in their recordings."""

from espnet_srupp.recipe.errors import DataError

# seconds by which an end may pass the recording's: Kaldi's extract-segments, too, takes
# times that were rounded
OVERSHOOT = 0.5


def limits(start: float, end: float | None, rate: int, samples: int) -> tuple[int, int]:
    """First sample of a segment and the one after its last.

    An end that lies less than `OVERSHOOT` behind the recording's is cut to it, unless
    the segment begins there too. A time that lies further behind stays behind it, but
    may come nearer, as infinity is no integer.

    Args:
        start, end: in seconds; an `end` of None is the recording's.
        rate: in Hz.
        samples: of the recording.
    """
    most = samples + max(1, int(OVERSHOOT * rate))
    begin = round(min(start * rate, most))
    stop = samples if end is None else round(min(end * rate, most))
    return begin, (samples if begin < samples < stop < most else stop)


def beyond(path: str, samples: int, rate: int, name: str, end: float) -> DataError:
    """What is wrong with the segment `name` that ends after its recording.

    Args:
        path, samples, rate: of the recording, in Hz.
        end: of the segment, in seconds.
    """
    return DataError(
        f"{path} ends at {samples / rate:.3f} s, before the end of the segment {name} "
        f"at {end} s: correct the segments file",
        "segment",
    )
