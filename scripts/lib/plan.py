"""What is wrong with a table can be known before anything of it runs: its rows and columns against the configuration.

Runs inside the Snakefile too, so it needs nothing beyond PyYAML and jsonschema.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from scripts.lib.cells import Cell, Entry, Scored, check_names, rated_cells, row_name, table_entries, table_scores
from scripts.lib.errors import ConfigError
from scripts.lib.text import did_you_mean

CHOICE = "accuracy"
"""The metric of multiple-choice answers, as in lib.metrics, which the Snakefile can't import; all others are open."""

MOTIONS = ("rtl", "ltr", "ttb", "btt", "typewriter", "fade", "zoom")
"""Of rolling text, in the order in which the videos take turns (synth.motion)."""

ELSEWHERE = "elsewhere"
"""The sampler and the resolution of answers that were made elsewhere: what was done there is not known here."""

Named = Mapping[str, dict[str, Any]]
"""Name to the content of its YAML."""


@dataclass(frozen=True)
class Configs:
    """What a table's cells are made of."""

    models: Named
    prompts: Named
    datasets: Named
    resolutions: Named
    judges: Named

    def check(self, entry: Entry, where: str) -> None:
        """Refuse a number that can never be.

        Raises:
            ConfigError: a name without a file, or see ``problem``.
        """
        kinds = ("dataset", "model", "prompt", "resolution")
        check_names(entry.cell, {kind: set(getattr(self, f"{kind}s")) for kind in kinds}, where)
        if entry.judge and entry.judge not in self.judges:
            raise ConfigError(f"{where}: no judge '{entry.judge}'{did_you_mean(entry.judge, self.judges)}")
        wrong = problem(entry, self)
        if wrong:
            raise ConfigError(f"{where}: {wrong}")


def check_table(table: dict[str, Any], configs: Configs) -> None:
    """Refuse a table that could only fail, or show nothing, once its cells have run.

    Raises:
        ConfigError: see ``check_layout`` and ``problem``.
    """
    check_layout(table)
    for row, line in zip(table["rows"], table_entries(table), strict=True):
        for column, entry in zip(table["columns"], line, strict=True):
            if entry is None:
                continue
            configs.check(entry, f"table '{table['name']}': row '{row_name(row)}', column '{column['label']}'")


def check_agreement(agreement: dict[str, Any], configs: Configs) -> None:
    """Refuse a comparison of people with a judge that could only fail.

    Raises:
        ConfigError: see ``rated_cells`` and ``problem``; or the judge is people.
    """
    where, judge = f"agreement '{agreement['name']}'", agreement["judge"]
    for label, cell in rated_cells(agreement).items():
        configs.check(Entry(cell, "judge_accuracy", "all", judge), f"{where}: cell '{label}'")
        if configs.prompts[cell.prompt]["answers"] != "open":
            raise ConfigError(f"{where}: cell '{label}' answers with an option's letter, which nobody needs to rate")
    if configs.judges[judge]["kind"] == "human":
        raise ConfigError(f"{where}: judge '{judge}' is people; compare them with another judge")


def rating_sheets(agreement: dict[str, Any]) -> list[str]:
    """What raters sent back.

    Raises:
        ConfigError: nothing so far, or a sheet where it would be overwritten.
    """
    name = agreement["name"]
    if not agreement["sheets"]:
        raise ConfigError(
            f"config/agreement/{name}.yaml lists no sheets; have raters fill in copies of"
            f" results/agreement/{name}/sheet.csv, or sheet.html, and list what they send back"
        )
    if wrong := _made_here(agreement["sheets"]):
        raise ConfigError(f"config/agreement/{name}.yaml: {wrong}")
    return list(agreement["sheets"])


def what_is_drawn(agreement: dict[str, Any]) -> dict[str, Any]:
    """What the rows of a rating sheet go by."""
    return {key: agreement.get(key, True) for key in ("cells", "n", "seed", "same_questions")}


def _made_here(sheets: Iterable[str]) -> str:
    """Which sheet lies where the workflow writes its own; empty when none does."""
    found = next((sheet for sheet in sheets if "results" in Path(sheet).parts), "")
    return found and f"sheet '{found}' is below results/, where a run may overwrite it; move it, say to ratings/"


def problem(entry: Entry, configs: Configs) -> str:
    """Why one number of a table can never be, and what to do about it; empty when nothing speaks against it.

    That is a metric or judge that the prompt's answers don't have, a judge without its files, a prompt without frames
    for a model that reads the text on them, options where the data set has none, a group that can't exist, and what the
    axes can't be together.
    """
    cell, prompt = entry.cell, configs.prompts[entry.cell.prompt]
    source, answers = configs.datasets[cell.dataset]["source"], prompt["answers"]
    judge = configs.judges[entry.judge] if entry.judge else None
    asks_for_option = entry.metric == CHOICE if judge is None else judge["kind"] == "option_letter"
    if asks_for_option != (answers == "option"):
        what, needed = f"judge '{entry.judge}'" if judge else f"metric '{entry.metric}'", ("open", "option")
        return (
            f"{what} needs a prompt with answers: {needed[asks_for_option]}, and prompt '{cell.prompt}' has answers:"
            f" {answers}; change one of them"
        )
    if judge and (lacking := _lacking(judge, cell.model)):
        return lacking
    if answers == "option" and source["kind"] == "synthetic_rolling":
        return f"questions of data set '{cell.dataset}' have no options; take a prompt with answers: open"
    groups = known_groups(source)
    if groups is not None and entry.group not in groups:
        return f"data set '{cell.dataset}' has no group '{entry.group}'{did_you_mean(entry.group, groups)}"
    return _misfit(cell, prompt, configs)


def _lacking(judge: dict[str, Any], model: str) -> str:
    """What a judge has not got for a model's answers; empty when it has all."""
    file = f"config/judges/{judge['name']}.yaml"
    if judge["kind"] == "human" and not judge["sheets"]:
        return f"judge '{judge['name']}' has no rating sheets; list them in {file} (docs/judging.md)"
    if judge["kind"] == "human" and (wrong := _made_here(judge["sheets"])):
        return f"judge '{judge['name']}': {wrong}"
    if judge["kind"] == "elsewhere" and model not in judge["files"]:
        return f"judge '{judge['name']}' has no file for model '{model}'; add one to files in {file}"
    return ""


def _misfit(cell: Cell, prompt: dict[str, Any], configs: Configs) -> str:
    """Why the axes of a cell can't be together; empty when they can."""
    model, resolution = configs.models[cell.model], configs.resolutions[cell.resolution]
    for axis in ("sampler", "resolution"):
        if (getattr(cell, axis) == ELSEWHERE) != (model["adapter"] == "predictions"):
            return (
                f"{axis} '{ELSEWHERE}' goes with models of adapter predictions, and with no others; change one of them"
            )
    reading = prompt.get("scene_text", "ocr")
    sources = configs.datasets[cell.dataset].get("scene_text", {})
    if reading != "ocr" and model["adapter"] != "predictions" and reading not in sources:
        return (
            f"prompt '{cell.prompt}' tells the text as '{reading}' read it, and data set '{cell.dataset}' has no such"
            f" scene_text{did_you_mean(reading, sources)}; add it to config/datasets/{cell.dataset}.yaml"
        )
    if prompt["frames"] == "none" and "ocr" in model["needs"]:
        return (
            f"model '{cell.model}' reads the text on frames, and prompt '{cell.prompt}' shows none; take another prompt"
            " or another model"
        )
    if "scene_text" in resolution and (prompt["frames"] == "none" or "frames" not in model["needs"]):
        return (
            f"resolution '{cell.resolution}' enlarges the text on frames, and model '{cell.model}' with prompt"
            f" '{cell.prompt}' sees none; take another resolution"
        )
    return ""


def check_models(names: Iterable[str], models: Iterable[str]) -> None:
    """Refuse a setting ``allow_unpinned`` that names no model.

    Raises:
        ConfigError: the first such name, and the one that may have been meant.
    """
    _check_known(names, models, "allow_unpinned: no model", "they are in config/models/")


def _check_known(names: Iterable[str], files: Iterable[str], what: str, where: str) -> None:
    known = sorted(files)
    for name in names:
        if name not in known:
            raise ConfigError(f"{what} '{name}'{did_you_mean(name, known)}; {where}")


def known_groups(source: dict[str, Any]) -> list[str] | None:
    """The groups of questions that score_cell can find in a rendered data set; None where only its questions tell."""
    if source["kind"] == "synthetic_rolling":
        return ["all", "macro", "RollingText", *MOTIONS[: source["videos"]]]
    if source["kind"] == "synthetic_signs":
        categories = [name for name in ("now", "first", "previous") if source["questions"][name]]
        return ["all", "macro", *categories, "current", "subset:previous" if "previous" in categories else "previous"]
    return None


def check_layout(table: dict[str, Any]) -> None:
    """Refuse a table that contradicts itself, whatever else there is in the configuration.

    Raises:
        ConfigError: two columns, or two rows of a section, with one label; an entry without one of its axes; ``only``
            or ``compare`` naming what isn't there; a comparison of what can't be compared; a pair of two metrics that
            are not of one judge.
    """
    columns = [column["label"] for column in table["columns"]]
    rows = [row_name(row) for row in table["rows"]]
    for kind, names in (("columns", columns), ("rows", rows)):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"table '{table['name']}': two {kind} are called '{twice}'; rename one of them")
    entries = table_entries(table)
    for row, of_row in zip(rows, entries, strict=True):
        for column, entry in zip(table["columns"], of_row, strict=True):
            if "pair" in column and entry and entry.metric != "judge_accuracy":
                raise ConfigError(
                    f"table '{table['name']}': column '{column['label']}' has a pair, and its metric in row '{row}' is"
                    f" {entry.metric}; set its metric to judge_accuracy, or leave out pair"
                )
    for asked in table.get("compare", []):
        _check_comparison(asked, dict(zip(rows, entries, strict=True)), columns, f"table '{table['name']}': compare")


def _check_comparison(
    asked: dict[str, Any], rows: dict[str, list[Entry | None]], columns: list[str], where: str
) -> None:
    for kind, name, known in (*(("row", row, rows) for row in asked["rows"]), ("column", asked["column"], columns)):
        if name not in known:
            raise ConfigError(f"{where}: no {kind} '{name}'{did_you_mean(name, known)}")
    first, second = asked["rows"]
    a, b = (rows[name][columns.index(asked["column"])] for name in (first, second))
    read = ("metric", "group", "judge", "cell.dataset")
    if a is None or b is None or any(attrgetter(name)(a) != attrgetter(name)(b) for name in read):
        raise ConfigError(
            f"{where}: '{first}' and '{second}' don't both have column '{asked['column']}' with one metric, group,"
            " judge and data set; compare other rows or another column"
        )
    if a == b:
        raise ConfigError(
            f"{where}: '{first}' and '{second}' are one and the same in column '{asked['column']}' ({a.cell}); compare"
            " two different rows"
        )


def check_asked(names: Iterable[str], tables: Iterable[str]) -> None:
    """Refuse a setting ``tables`` that names one without a file.

    Raises:
        ConfigError: the first such name, and the one that may have been meant.
    """
    _check_known(names, tables, "no table", "tables live in config/tables/")


def papers(tables: Iterable[str]) -> dict[str, list[str]]:
    """Folders of tables, ``demo``, with the names of their tables, ``demo/rolling``."""
    found: dict[str, list[str]] = {}
    for name in sorted(tables):
        if "/" in name:
            found.setdefault(name.split("/")[0], []).append(name)
    return found


def short_names(tables: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """What to type for each table, ``demo_rolling``, with its name, ``demo/rolling``.

    Args:
        taken: what means something else on Snakemake's command line: the rules.

    Raises:
        ConfigError: two tables, a table and a folder of tables, or one of them and a rule would be called the same.
    """
    folders = papers(tables)
    owner = {rule: f"rule {rule}" for rule in taken}
    for folder in folders:
        if folder in owner:
            raise ConfigError(f"config/tables/{folder}/: {owner[folder]} has this name; rename the folder")
        owner[folder] = f"config/tables/{folder}/"
    found: dict[str, str] = {}
    for name in sorted(tables):
        short = name.replace("/", "_")
        if short in owner:
            raise ConfigError(
                f"config/tables/{name}.yaml: its target '{short}' would also mean {owner[short]}; rename the table"
            )
        owner[short] = f"config/tables/{name}.yaml"
        found[short] = name
    return found


def needed_scores(name: str, tables: Named, asked: Iterable[str], results: Path) -> list[Scored]:
    """The scores that a table waits for: all, or under ``allow_missing`` those made before or made anyway.

    Made anyway is what the tables without ``allow_missing`` ask for that are made together with this one: those asked
    for, where it is one of them, else those of its folder.

    Args:
        asked: names of the tables in the settings.
        results: the folder in which ``Scored.folder`` is.
    """
    wanted = table_scores(tables[name])
    if not tables[name].get("allow_missing"):
        return wanted
    asked = list(asked)
    together = asked if name in asked else papers(tables).get(name.split("/")[0], [])
    strict = [tables[other] for other in together if not tables[other].get("allow_missing")]
    made = {scored for other in strict for scored in table_scores(other)}
    return [scored for scored in wanted if scored in made or (results / scored.folder / "scores.json").is_file()]
