"""Compare people's ratings with a judge's and with each other's (EgoTextVQA, Appendix C and Table 12).

Reads the key that build_rating_sheet wrote, the sheets that raters sent back, and the judge's judgements. For all
answers and for those of each cell, with 95 % intervals by bootstrap over videos:

  accuracy, score   of people (their mean) and of the judge, on the answers that somebody rated and the judge did judge
  Pearson           of the judge with people, of verdicts (people: the share that said yes) and of scores
  Cohen's kappa     of verdicts and, with quadratic weights, of scores: of the judge with each rater, and of raters
                    with each other, each the mean over the pairs; and of every pair
  Fleiss' kappa     of the raters' verdicts, on the answers that all of them rated

    python -m scripts.agree.compare_raters --agreement config/agreement/demo.yaml --key key.json \\
        --sheets first.csv second.csv --judgements results/judgements \\
        --json agreement.json --csv agreement.csv --markdown agreement.md --tex agreement.tex

What one rater left out is left out of that rater's pairs alone. A sheet with an answer that is not in the key, a
changed text or half a rating is refused with its row.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scripts.agree import agreement as statistics
from scripts.agree import compared
from scripts.agree.agreement import Estimate, Floats, Pair
from scripts.agree.answers import Answer, read_key
from scripts.agree.compared import ALL, Compared, Row
from scripts.agree.sheets import Rating, by_answer, check_known, read_sheet
from scripts.lib import cli, config, jsonl
from scripts.lib.cells import Cell, rated_cells
from scripts.lib.errors import DataError
from scripts.lib.files import write_text
from scripts.lib.records import Judgement

Flags = npt.NDArray[np.bool_]
VERSION = 1
"""Raise it when the same ratings give other numbers."""
LEAST_RATERS = 1
"""One can be compared with the judge; agreement among people takes two."""


@dataclass(frozen=True)
class Rated:
    """The answers of one group, with what everybody said of them; NaN where nothing."""

    videos: list[str]
    verdicts: Floats
    """raters × answers, 1 = yes; the last row is the judge's."""
    scores: Floats
    draws: int
    seed: int

    def pairs(self, values: Floats, ones: list[tuple[int, int]]) -> list[Pair]:
        return [Pair(values[a], values[b]) for a, b in ones]


def read_judgements(folder: Path, judge: str, cells: Iterable[Cell]) -> dict[str, dict[str, Judgement]]:
    """The judge's judgements by cell and question.

    Raises:
        DataError: a file is missing or malformed.
    """
    return {
        str(cell): jsonl.read_unique(folder / judge / cell.path / "judgements.jsonl", Judgement, "key")
        for cell in cells
    }


def gather(
    answers: list[Answer],
    ratings: Mapping[str, list[Rating]],
    judged: Mapping[str, Mapping[str, Judgement]],
    raters: list[str],
    draws: int,
    seed: int,
) -> Rated:
    """Raters' and judge's numbers of some answers.

    Args:
        raters: as ``Rating.by`` has them.
    """
    said: list[list[tuple[float, float]]] = []
    for answer in answers:
        own = {one.by: (float(one.verdict == "yes"), float(one.score)) for one in ratings.get(answer.id, [])}
        verdict = judged[answer.cell].get(answer.key)
        ok = verdict is not None and verdict.status == "ok"
        score = np.nan if verdict is None or verdict.score is None else verdict.score
        judge = (float(verdict.verdict == "yes"), score) if ok and verdict else (np.nan, np.nan)
        said.append([*(own.get(rater, (np.nan, np.nan)) for rater in raters), judge])
    table = np.array(said, dtype=np.float64).reshape(len(answers), len(raters) + 1, 2).transpose(1, 0, 2)
    return Rated([one.video for one in answers], table[:, :, 0], table[:, :, 1], draws, seed)


def rows_of(group: str, rated: Rated, names: list[str]) -> list[Row]:
    """Every statistic of one group.

    Args:
        names: of the raters, as they are printed.
    """
    people = range(len(names))
    judge = len(names)
    means = {what: _mean_of_people(values[:judge]) for what, values in _both(rated).items()}
    common = ~np.isnan(means["verdict"]) & ~np.isnan(rated.verdicts[judge])
    found: list[tuple[str, str, Estimate]] = []
    for who, verdicts, scores in (
        ("People", means["verdict"], means["score"]),
        ("Judge", rated.verdicts[judge], rated.scores[judge]),
    ):
        for what, values in (("accuracy", verdicts), ("score", scores)):
            found.append((who, what, _mean(values, common, rated)))
    for what, values in _both(rated).items():
        pair = Pair(means[what], values[judge])
        found.append(("Judge and people", f"Pearson, {what}s", _of(rated, statistics.pearson, pair)))
    with_judge = [(one, judge) for one in people]
    among = list(combinations(people, 2))
    for who, ones in (("Judge and people", with_judge), ("People", among)):
        found += _kappas(who, ones, rated)
    found.append(("People", "Fleiss' kappa, verdicts", _fleiss(rated, judge)))
    printed = [*names, "Judge"]
    for a, b in [*among, *with_judge]:
        found += _kappas(f"{printed[a]} and {printed[b]}", [(a, b)], rated)
    return [Row(group, who, what, estimate) for who, what, estimate in found]


def _both(rated: Rated) -> dict[str, Floats]:
    return {"verdict": rated.verdicts, "score": rated.scores}


def _mean_of_people(values: Floats) -> Floats:
    """Of those who rated an answer; NaN where nobody did."""
    counts = (~np.isnan(values)).sum(axis=0)
    mean: Floats = np.nansum(values, axis=0) / np.where(counts == 0, np.nan, counts)
    return mean


def _mean(values: Floats, used: Flags, rated: Rated) -> Estimate:
    used = used & ~np.isnan(values)
    videos = [video for video, one in zip(rated.videos, used, strict=True) if one]
    return statistics.mean(values[used].tolist(), videos, rated.draws, rated.seed)


def _of(rated: Rated, statistic: Any, what: Pair | list[Pair]) -> Estimate:
    estimate: Estimate = statistic(what, rated.videos, rated.draws, rated.seed)
    return estimate


def _kappas(who: str, ones: list[tuple[int, int]], rated: Rated) -> list[tuple[str, str, Estimate]]:
    return [
        (who, "Cohen's kappa, verdicts", _of(rated, statistics.cohen, rated.pairs(rated.verdicts, ones))),
        (who, "weighted kappa, scores", _of(rated, statistics.cohen_quadratic, rated.pairs(rated.scores, ones))),
    ]


def _fleiss(rated: Rated, raters: int) -> Estimate:
    whole: Flags = np.logical_not(np.isnan(rated.verdicts[:raters]).any(axis=0))
    if raters < 2 or not whole.any():
        return Estimate(None, None, None, 0, 0)
    yes = rated.verdicts[:raters, whole].sum(axis=0)
    videos = [video for video, one in zip(rated.videos, whole.tolist(), strict=True) if one]
    return statistics.fleiss(yes.astype(int).tolist(), raters, videos, rated.draws, rated.seed)


def compare(
    agreement: dict[str, Any],
    answers: Mapping[str, Answer],
    ratings: Mapping[str, list[Rating]],
    judged: Mapping[str, Mapping[str, Judgement]],
    draws: int,
    seed: int,
) -> Compared:
    """Everything that is printed.

    Raises:
        DataError: nobody rated anything.
    """
    raters = sorted({one.by for of in ratings.values() for one in of})
    if len(raters) < LEAST_RATERS:
        raise DataError(
            f"agreement '{agreement['name']}': no row of its sheets has a verdict and a score; fill them in"
        )
    cells = rated_cells(agreement)
    groups = {ALL: list(answers.values())}
    if len(cells) > 1:
        groups |= {label: [one for one in answers.values() if one.cell == str(cell)] for label, cell in cells.items()}
    # Raters' names stay in their sheets.
    names = [f"Rater {number}" for number in range(1, len(raters) + 1)]
    rows = [
        row
        for label, members in groups.items()
        for row in rows_of(label, gather(members, ratings, judged, raters, draws, seed), names)
    ]
    statuses = Counter(
        found.status if (found := judged[one.cell].get(one.key)) else "missing" for one in answers.values()
    )
    counts = Counter(len(ratings.get(id_, [])) for id_ in answers)
    return Compared(
        agreement["name"], agreement["title"], agreement["judge"], len(raters), dict(counts), dict(statuses), rows
    )


def step(args: argparse.Namespace) -> None:
    agreement = config.read_file("agreement", args.agreement)
    answers = read_key(args.key)
    read = [rating for path in args.sheets for rating in read_sheet(path)]
    check_known(read, answers, args.key)
    judged = read_judgements(args.judgements, agreement["judge"], rated_cells(agreement).values())
    found = compare(agreement, answers, by_answer(read), judged, args.draws, args.seed)
    for path, write in (
        (args.json, compared.to_json),
        (args.csv, compared.to_csv),
        (args.markdown, compared.to_markdown),
        (args.tex, compared.to_latex),
    ):
        write_text(path, write(found))
    print(compared.summary(found), file=sys.stderr)


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--agreement", type=Path, required=True, help="config/agreement/<name>.yaml")
    parser.add_argument("--key", type=Path, required=True, help="key.json of build_rating_sheet")
    parser.add_argument("--sheets", type=Path, nargs="+", required=True, help="filled-in sheets")
    parser.add_argument("--judgements", type=Path, required=True, help="folder of judges with judgements.jsonl")
    parser.add_argument("--draws", type=cli.at_least(1), default=10_000, help="bootstrap draws (default: %(default)s)")
    parser.add_argument("--seed", type=cli.at_least(0), default=0, help="of the bootstrap (default: %(default)s)")
    for name in ("json", "csv", "markdown", "tex"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="to write")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
