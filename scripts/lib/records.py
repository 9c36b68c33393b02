"""The JSON Lines records that the stages hand to each other (one schema each).

Times are seconds of presentation time, boxes are pixels of the source frame unless a name ends in ``_1000``, ids are
strings, text is NFC. Every record refuses unknown fields and wrong types.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from scripts.lib.text import nfc

Text = Annotated[str, AfterValidator(nfc)]
Id = Annotated[str, AfterValidator(nfc), Field(min_length=1)]
Seconds = float
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
ALL = "all"
"""The group of every question; no category or subset has this name."""
MACRO = "macro"
"""The mean over the categories, each of the same weight; no category or subset has this name."""


def _not_reserved(group: str) -> str:
    if group in (ALL, MACRO):
        what = "every question" if group == ALL else "the mean over the categories"
        raise ValueError(f"'{group}' means {what}; rename this category or subset")
    return group


def _forward(span: tuple[float, float]) -> tuple[float, float]:
    if span[1] < span[0]:
        raise ValueError(f"the span ends at {span[1]:g} s, before it starts at {span[0]:g} s; write [start, end]")
    return span


Group = Annotated[str, AfterValidator(nfc), AfterValidator(_not_reserved)]
Span = Annotated[tuple[Seconds, Seconds], AfterValidator(_forward)]
"""Start and end; a time before the first frame is allowed."""

MissingReason = Literal[
    "missing:private",
    "missing:removed",
    "missing:geo",
    "missing:age",
    "missing:bot",
    "missing:gated",
    "missing:quota",
    "missing:other",
]
VideoStatus = Literal["ok", "truncated", "undecodable", "zero_frames"] | MissingReason


class Record(BaseModel):
    """Base of all records: frozen, strict, no unknown fields, no number that JSON can't write (NaN, infinity)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Source(Record):
    """One video as acquired, before anything was decoded: a line of ``manifest.jsonl``."""

    id: Id
    path: str
    """Path of the file; empty when there is none."""
    status: Literal["ok"] | MissingReason = "ok"
    source: str
    licence: str


class Video(Record):
    """One video as decoding found it: a line of ``videos.jsonl``. Sizes are those of the stored, unrotated frame."""

    id: Id
    dataset: str
    path: str
    sha256: str
    duration_s: Seconds
    fps_avg: Seconds
    n_frames: int
    width: int
    height: int
    rotation: int
    vfr: bool
    codec: str
    status: VideoStatus
    detail: str = ""
    """For a status other than ``ok``: what the decoder said, in one line."""
    source: str
    licence: str

    @property
    def usable(self) -> bool:
        """Whether at least one frame can be shown to a model: a truncated file keeps its good part."""
        return self.status in ("ok", "truncated") and self.n_frames > 0


class FrameTimes(Record):
    """Presentation times of every decoded frame of one video, run-length coded: exact, and small for constant rates."""

    id: Id
    time_base: tuple[int, int]
    """Numerator and denominator of one tick in seconds."""
    start: int
    """First presentation time stamp, in ticks."""
    steps: list[tuple[int, int]]
    """(ticks to the next frame, how many times in a row)."""


class Question(Record):
    """One question about one video (design section 4)."""

    key: Id
    """``dataset/video/question_id``."""
    video: Id
    question_id: Id
    question: Text
    answers: list[Text] = Field(min_length=1)
    options: list[Text] | None = None
    """Multiple choice: the option texts without letters."""
    ground_truth: str | None = None
    """Multiple choice: the letter of the right option."""
    t_question: Seconds | None = None
    t_answer: Seconds | None = None
    qa_times: list[Seconds] = []
    evidence: list[Span] = []
    """Spans during which what answers the question can be seen."""
    category: Group
    subsets: list[Group] = []
    domain: str = ""

    @model_validator(mode="after")
    def _options_differ(self) -> "Question":
        options = self.options or []
        twice = next((option for option in options if options.count(option) > 1), None)
        if twice is not None:
            raise ValueError(f"option '{twice}' is there twice, so no letter is the right one; change one of them")
        return self

    @model_validator(mode="after")
    def _letter_names_an_option(self) -> "Question":
        if (self.options is None) != (self.ground_truth is None):
            raise ValueError("options and ground_truth come together")
        if self.options is not None and self.ground_truth not in [chr(65 + i) for i in range(len(self.options))]:
            raise ValueError(
                f"ground_truth '{self.ground_truth}' is not the letter of one of {len(self.options)} options"
            )
        return self


class FramePlan(Record):
    """Which frames one question sees under one sampler: a line of ``resources/frames/<dataset>/<sampler>.jsonl``."""

    key: Id
    video: Id
    status: str
    """``ok``, or ``error:<kind>`` when no frame can be shown, e.g. ``error:video_undecodable``."""
    frames: list[int] = []
    """Indices in decoding (presentation) order."""
    times: list[Seconds] = []
    note: str = ""
    """What was unusual, e.g. ``t_question 12.3 s is past the end 10.0 s``."""


class Keyframes(Record):
    """The frames of one video that are worth reading: a line of ``resources/keyframes/<dataset>.jsonl``."""

    id: Id
    frames: list[int]
    """Indices in decoding (presentation) order, rising."""
    times: list[Seconds]


class OcrBox(Record):
    """One line of text on one frame."""

    text: Text
    confidence: float
    polygon: list[tuple[float, float]]
    """Corners in pixels of the source frame, clockwise from the text's top left."""

    @property
    def box(self) -> Box:
        """The upright rectangle around the polygon."""
        xs, ys = [x for x, _ in self.polygon], [y for _, y in self.polygon]
        return min(xs), min(ys), max(xs), max(ys)


class OcrFrame(Record):
    """All text read on one frame; an empty list says that the frame was read and had none."""

    video: Id
    frame: int
    t: Seconds
    width: int
    height: int
    """Size of the upright source frame, to which the boxes refer."""
    boxes: list[OcrBox]
    read_as: int | None = None
    """Index of the earlier frame that looked alike and whose reading this is; none where this frame was read itself."""


class Track(Record):
    """One piece of text followed over time."""

    video: Id
    text: Text
    t_start: Seconds
    t_end: Seconds
    box: Box
    """Where it was when first seen."""
    boxes: list[tuple[Seconds, Box]]
    sightings: int


class ShownText(Record):
    """One text of a rendered video, as the renderer drew it."""

    text: Text
    t_start: Seconds
    t_end: Seconds
    boxes: list[tuple[Seconds, Box]]
    """Where it was over time: at each change of speed and at least twice a second."""


class Scenario(Record):
    """The full plan of one rendered video: everything random in it is here, so the same plan gives the same picture."""

    id: Id
    dataset: str
    kind: Literal["rolling", "signs"]
    seed: int
    width: int
    height: int
    fps: int
    duration_s: Seconds
    texts: list[ShownText]
    look: dict[str, object]
    """Fonts, colours, motion, transitions, background: whatever the renderer of this kind reads."""


class Prediction(Record):
    """One answer of one model (design section 4)."""

    key: Id
    status: str
    """``ok``, ``unanswerable``, ``refused``, ``truncated`` or ``error:<kind>``."""
    raw: Text = ""
    answer: Text = ""
    detail: str = ""
    """For an error: one line saying what happened."""
    times: list[Seconds] = []
    """Of the frames really used."""
    times_told: Literal["", "each", "rate", "none"] = ""
    """How the model was told these times: every one, as one rate, or not at all; empty where it saw no frame."""
    height: int = 0
    width: int = 0
    """Of the frames as they went into the model."""
    visual_tokens: int | None = None
    frames_note: str = ""
    """What the model's own preprocessing did to the frames it was given, e.g. ``resized 720x1280 to 448x784``."""
    prompt_hash: str = ""
    model_revision: str = ""
    image_digest: str = ""
    engine: str = ""
    """Name and version of what ran the model."""
    batch: int = 1
    """Questions answered together."""
    seconds: float = 0.0
    attempts: int = 1
    """How often the question was sent, repeats after failures included."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    dollars: float | None = None
    """What the reply cost by config/prices.yaml; None where nothing is billed."""

    @property
    def scored(self) -> bool:
        """Whether this is an answer, right or wrong; everything else is counted and never scored."""
        return self.status in ("ok", "unanswerable")


Verdict = Literal["yes", "no"]
Flag = Literal["empty", "cut", "defused", "repaired", "two_verdicts", "truncated"]
Score = Annotated[float, Field(ge=0, le=5)]


class Judgement(Record):
    """What a judge made of one answer (design section 4): a line of ``judgements.jsonl``, one per question."""

    key: Id
    status: Literal["ok", "parse_failed", "refused", "content_filter", "api_failed", "no_answer", "no_judgement"]
    """``no_answer``: the prediction is no answer (it failed), so there is nothing to judge. ``no_judgement``: people or
    a file from elsewhere were asked, and have none of this answer. Only ``ok`` is scored."""
    verdict: Verdict | None = None
    """Where ``ok``."""
    score: Score | None = None
    """0-5, where ``ok``; None where a judge gives none."""
    flags: list[Flag] = []
    """``empty``: a blank answer, which is wrong without asking. ``cut``: the answer was longer than the judge is sent.
    ``defused``: it held braces, which were replaced lest it look like a verdict. ``repaired``: the first reply
    could not be read, the second could. ``two_verdicts``: the reply had several, and the first counts. ``truncated``:
    the reply was cut off, after the verdict."""
    raw: Text = ""
    """The judge's reply."""
    raw_repair: Text = ""
    """Its reply to the request to say that again, readably; empty where it was not needed."""
    detail: str = ""
    """Where not ``ok``: why, in one line."""
    again_verdict: Verdict | None = None
    again_score: Score | None = None
    """Of the second time that a sample of the answers is judged; None outside it, and where that has no verdict."""
    judge: str = ""
    """What judged, with its version, as the server says."""
    prompt_hash: str = ""
    seconds: float = 0.0
    calls: int = 0
    """To the server, for this record: repeats, repair and second judging included. 0 where nobody was asked."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    dollars: float | None = None

    @model_validator(mode="after")
    def _verdict_where_ok(self) -> "Judgement":
        if (self.status == "ok") != (self.verdict is not None):
            raise ValueError("a verdict and status 'ok' come together")
        return self


class Case(Record):
    """One scored question of one cell: a line of ``cases.jsonl``."""

    key: Id
    video: Id
    category: str
    subsets: list[str]
    status: str
    answer: Text
    metrics: dict[str, float]
    """Metric name to value in 0–1 (``judge_score``: 0–5); empty unless the prediction is scored."""
