"""The replies of other programs that read text: their JSON, checked, as lines of text with their places.

Azure's Read 3.2 and Image Analysis 4.0, and Google's Vision as in RoadTextVQA's ocr.zip; docs/scene_text.md shows each.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from scripts.lib.errors import DataError
from scripts.lib.records import OcrBox
from scripts.lib.text import nfc

VERSION = 1
"""Raise it when a reading is taken in differently."""
NO_CONFIDENCE = 1.0
"""Where the reply gives none."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Reading:
    """All text of one picture."""

    size: tuple[float, float] | None
    """Width and height of the picture that was read; None where the file doesn't say, for the source frame's."""
    boxes: list[OcrBox]
    """In pixels of that picture."""


class Part(BaseModel):
    """Base of what is checked in other programs' files; keys that are not named here are passed over."""

    model_config = ConfigDict(alias_generator=to_camel, allow_inf_nan=False)


Side = Annotated[float, Field(gt=0)]


class Word(Part):
    confidence: float = NO_CONFIDENCE


class ReadLine(Part):
    text: str
    bounding_box: tuple[float, float, float, float, float, float, float, float]
    words: list[Word] = []


class ReadPage(Part):
    width: Side
    height: Side
    unit: Literal["pixel"] = "pixel"
    lines: list[ReadLine] = []


class ReadPages(Part):
    read_results: Annotated[list[ReadPage], Field(min_length=1, max_length=1)]


class AzureRead(Part):
    """What Azure's Read 3.2 (Get Read Result) replies."""

    status: Literal["succeeded"] = "succeeded"
    analyze_result: ReadPages

    def reading(self) -> Reading:
        page = self.analyze_result.read_results[0]
        boxes = [
            _box(line.text, list(zip(line.bounding_box[::2], line.bounding_box[1::2], strict=True)), line.words)
            for line in page.lines
        ]
        return Reading((page.width, page.height), boxes)


class Vertex(Part):
    """A corner; Google leaves a coordinate out where it is 0."""

    x: float = 0.0
    y: float = 0.0


Vertices = Annotated[list[Vertex], Field(min_length=3)]


class AnalysisLine(Part):
    text: str
    bounding_polygon: Vertices
    words: list[Word] = []


class AnalysisBlock(Part):
    lines: list[AnalysisLine] = []


class AnalysisResult(Part):
    blocks: list[AnalysisBlock]


class Size(Part):
    width: Side
    height: Side


class AzureImageAnalysis(Part):
    """What Azure's Image Analysis 4.0 replies when asked for ``read``."""

    metadata: Size
    read_result: AnalysisResult

    def reading(self) -> Reading:
        lines = [line for block in self.read_result.blocks for line in block.lines]
        boxes = [_box(line.text, _points(line.bounding_polygon), line.words) for line in lines]
        return Reading((self.metadata.width, self.metadata.height), boxes)


class Polygon(Part):
    vertices: Vertices


class Annotation(Part):
    description: str
    bounding_poly: Polygon
    confidence: float = NO_CONFIDENCE


class Pages(Part):
    pages: list[Size] = []


class GoogleVision(Part):
    """What Google's Vision replies for one image, as RoadTextVQA's ocr.zip has it: the whole text, then each word."""

    text_annotations: list[Annotation] = []
    full_text_annotation: Pages = Pages()
    error: None = None

    @model_validator(mode="before")
    @classmethod
    def _is_a_reply(cls, raw: Any) -> Any:
        """A picture without text gets an empty reply; one with other things only is somebody else's file."""
        if isinstance(raw, dict) and raw and not set(raw) & {"textAnnotations", "fullTextAnnotation", "error"}:
            raise ValueError(f"no textAnnotations in it, but {', '.join(sorted(raw))}")
        return raw

    def reading(self) -> Reading:
        pages = self.full_text_annotation.pages
        size = (pages[0].width, pages[0].height) if pages else None
        return Reading(size, [_joined(text, words) for text, words in self.lines()])

    def lines(self) -> list[tuple[str, list[Annotation]]]:
        """Each line of the whole text with its words; each word by itself where the two don't agree."""
        whole, words = self.text_annotations[:1], self.text_annotations[1:]
        found, used = [], 0
        for line in whole[0].description.splitlines() if whole else ():
            start, spelt = used, ""
            while used < len(words) and len(spelt) < len(_solid(line)):
                spelt += _solid(words[used].description)
                used += 1
            if spelt != _solid(line):
                break
            if used > start:
                found.append((line, words[start:used]))
        else:
            if used == len(words):
                return found
        return [(word.description, [word]) for word in words]


FORMATS: dict[str, type[AzureRead] | type[AzureImageAnalysis] | type[GoogleVision]] = {
    "azure_read": AzureRead,
    "azure_image_analysis": AzureImageAnalysis,
    "roadtextvqa": GoogleVision,
}


def _solid(text: str) -> str:
    return "".join(nfc(text).split())


def _points(vertices: list[Vertex]) -> list[Point]:
    return [(vertex.x, vertex.y) for vertex in vertices]


def _box(text: str, polygon: list[Point], words: list[Word]) -> OcrBox:
    """A line of text, as sure as its words are on average."""
    confidence = sum(word.confidence for word in words) / len(words) if words else NO_CONFIDENCE
    return OcrBox(text=text, confidence=confidence, polygon=polygon)


def _joined(text: str, words: list[Annotation]) -> OcrBox:
    """A line of several words in the upright rectangle around them; a single word keeps its polygon."""
    polygon = [point for word in words for point in _points(word.bounding_poly.vertices)]
    sure = [Word(confidence=word.confidence) for word in words]
    if len(words) == 1:
        return _box(text.strip(), polygon, sure)
    xs, ys = [x for x, _ in polygon], [y for _, y in polygon]
    left, top, right, bottom = min(xs), min(ys), max(xs), max(ys)
    return _box(text.strip(), [(left, top), (right, top), (right, bottom), (left, bottom)], sure)


def parse(kind: str, raw: Any, where: str) -> Reading:
    """What one reply of a reader says.

    Raises:
        DataError: a field that is missing or wrong, by its name.
    """
    try:
        return FORMATS[kind].model_validate(raw).reading()
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the reading"
        raise DataError(f"{where}: {kind} field {field}: {first['msg']}; read this picture anew") from None
