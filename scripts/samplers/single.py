"""One frame, to show that one is not enough (ViTexQA Table 2)."""

import numpy as np

from scripts.samplers.common import Indices, LacksMomentError, Moments, Seconds, allowed, nearest, within


def sample_random(times: Seconds, moments: Moments) -> Indices:
    """``single_random``: any allowed frame."""
    return _draw(np.arange(allowed(times, moments)), moments)


def sample_answer_random(times: Seconds, moments: Moments) -> Indices:
    """``single_answer_random``: any allowed frame during which what answers the question is seen.

    Raises:
        LacksMomentError: ``evidence``, where the question has none, or none before it is asked.
    """
    return _draw(_evidence(times, moments), moments)


def sample_answer_keyframes(times: Seconds, moments: Moments) -> Indices:
    """``answer_keyframes``: the allowed keyframes during which what answers the question is seen; where no keyframe is
    among them, the middle one of all such frames. ``single_oracle`` chooses from these, by no other question.

    Raises:
        LacksMomentError: ``evidence`` as above; ``keyframes``, where the video has none.
    """
    shown = _evidence(times, moments)
    if moments.keyframes is None or not len(moments.keyframes):
        raise LacksMomentError("keyframes")
    chosen = np.intersect1d(shown, moments.keyframes)
    return chosen if len(chosen) else shown[[len(shown) // 2]]


def sample_oracle(times: Seconds, moments: Moments) -> Indices:
    """``single_oracle``: of the frames of ``answer_keyframes``, the one on which OCR read most text; the earliest of
    equals.

    Raises:
        LacksMomentError: ``keyframes`` and ``evidence`` as above; ``ocr`` where OCR has read none of them.
    """
    amounts = moments.text_amount or {}
    read = [index for index in sample_answer_keyframes(times, moments).tolist() if index in amounts]
    if not read:
        raise LacksMomentError("ocr")
    return np.array([max(read, key=amounts.__getitem__)], dtype=np.int64)


def _draw(candidates: Indices, moments: Moments) -> Indices:
    return np.random.default_rng(moments.seed).choice(candidates, 1)


def _evidence(times: Seconds, moments: Moments) -> Indices:
    """The allowed frames within the spans of evidence; the nearest to the middle of a span that lies between frames."""
    limit = allowed(times, moments)
    found = []
    for start, stop in moments.evidence:
        if moments.t_question is not None and start > moments.t_question:
            continue
        inside = within(times, limit, start, stop)
        found.append(inside if len(inside) else nearest(times[:limit], np.array([(start + stop) / 2])))
    if not found:
        raise LacksMomentError("evidence")
    return np.unique(np.concatenate(found))
