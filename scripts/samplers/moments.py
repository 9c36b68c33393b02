"""At the moments that the annotation names: EgoTextVQA Table 5 and MyEgo's Q&A-moment experiment."""

import numpy as np

from scripts.samplers.common import (
    TOLERANCE_S,
    Indices,
    LacksMomentError,
    Moments,
    Seconds,
    allowed,
    asked_at,
    nearest,
    spread,
    within,
)

HALF_WINDOW_S = 1.5


def sample_ts_frame(times: Seconds, moments: Moments) -> Indices:
    """``ts_frame``: the last frame shown no later than the question."""
    return np.array([allowed(times, moments) - 1], dtype=np.int64)


def sample_qa_frames(times: Seconds, moments: Moments) -> Indices:
    """``qa_frames``: the allowed frames nearest to the times from which the question was made.

    A time after the question counts as the question's. Equal times are one; different times take different frames.

    Raises:
        LacksMomentError: ``qa_times``, where the question has none.
    """
    if not moments.qa_times:
        raise LacksMomentError("qa_times")
    limit = allowed(times, moments)
    latest = asked_at(times, moments)
    asked = np.sort(np.clip(moments.qa_times, times[0], latest))
    distinct = asked[np.diff(asked, prepend=-np.inf) > TOLERANCE_S]
    if len(distinct) >= limit:
        return np.arange(limit)
    return nearest(times[:limit], distinct)


def sample_moment_aware(times: Seconds, moments: Moments, *, n: int) -> Indices:
    """``moment_aware_n``: half of n evenly within 1.5 s of the answer's moment, half within 1.5 s of the question's.

    No frame is later than the question. An odd frame goes to the answer, and what one window cannot fill goes to the
    other. Where the windows share frames, all n are spread evenly over both together, so that none is a near-duplicate.

    Raises:
        LacksMomentError: ``answer_time``, where the question has none.
    """
    if moments.t_answer is None:
        raise LacksMomentError("answer_time")
    limit = allowed(times, moments)
    asked = asked_at(times, moments)
    around_answer = _window(times, limit, moments.t_answer)
    around_question = _window(times, limit, asked)
    if np.intersect1d(around_answer, around_question).size:
        return spread(times, np.union1d(around_answer, around_question), n)
    for_question = min(n // 2, len(around_question))
    for_answer = min(n - for_question, len(around_answer))
    chosen = [spread(times, around_answer, for_answer), spread(times, around_question, n - for_answer)]
    return np.sort(np.concatenate(chosen))


def _window(times: Seconds, limit: int, middle: float) -> Indices:
    """The allowed frames around a moment; the nearest one where none is so close."""
    inside = within(times, limit, middle - HALF_WINDOW_S, middle + HALF_WINDOW_S)
    return inside if len(inside) else nearest(times[:limit], np.array([middle]))
