"""The video's keyframes, as the temporal evidence of ViTexQA's reasoning chains is built from."""

import numpy as np

from scripts.samplers.common import Indices, LacksMomentError, Moments, Seconds, allowed


def sample(times: Seconds, moments: Moments, *, n: int) -> Indices:
    """``keyframes_n``: the keyframes up to the question, thinned evenly by rank where there are more than n (the first
    and the last stay); the video's first frame where none comes before the question.

    Raises:
        LacksMomentError: ``keyframes``, where there are none for this video.
    """
    if moments.keyframes is None or not len(moments.keyframes):
        raise LacksMomentError("keyframes")
    usable = moments.keyframes[moments.keyframes < allowed(times, moments)]
    if not len(usable):
        return np.zeros(1, dtype=np.int64)
    k = min(n, len(usable))
    steps = max(1, k - 1)
    places = (2 * np.arange(k) * (len(usable) - 1) + steps) // (2 * steps)
    return np.asarray(usable[places], dtype=np.int64)
