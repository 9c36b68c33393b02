"""Mistakes in tables that are found before anything runs, and what a table with missing scores waits for."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.judge.scoring import groups
from scripts.lib import cells, config, metrics, plan
from scripts.lib.errors import ConfigError
from scripts.lib.records import MACRO, Case
from scripts.synth import motion, signs

ROOT = Path(__file__).parents[2]
MODELS = {
    "reader": {"adapter": "ocr_reader", "needs": ["ocr"]},
    "seer": {"adapter": "transformers", "needs": ["frames"]},
    "people": {"adapter": "predictions", "needs": []},
}
PROMPTS = {
    "v_q": {"answers": "open", "frames": "sampled"},
    "v_q_options": {"answers": "option", "frames": "sampled"},
    "q": {"answers": "open", "frames": "none"},
    "v_q_azure": {"answers": "open", "frames": "sampled", "scene_text": "azure"},
}
RESOLUTIONS = {
    "native": {"kind": "native"},
    "elsewhere": {"kind": "elsewhere"},
    "sr": {"kind": "native", "scene_text": {"method": "lanczos"}},
}
DATASETS = {
    "signs": {"source": {"kind": "synthetic_signs", "questions": {"now": 2, "first": 1, "previous": 2}}},
    "rolling": {"source": {"kind": "synthetic_rolling", "videos": 14}},
    "mine": {"source": {"kind": "local"}, "scene_text": {"azure": {"format": "azure_read", "files": "f"}}},
}
JUDGES = {
    "words": {"name": "words", "kind": "lexical"},
    "letter": {"name": "letter", "kind": "option_letter"},
    "raters": {"name": "raters", "kind": "human", "sheets": []},
    "theirs": {"name": "theirs", "kind": "elsewhere", "files": {"people": "file.json"}},
}
CONFIGS = plan.Configs(MODELS, PROMPTS, DATASETS, RESOLUTIONS, JUDGES)


def table(**changes) -> dict:
    base = {
        "name": "p/t",
        "defaults": {"dataset": "signs", "resolution": "native", "prompt": "v_q", "metric": "rouge_l"},
        "columns": [{"label": "all"}, {"label": "now", "group": "now"}],
        "rows": [
            {"section": "Größe", "label": "four", "model": "reader", "sampler": "uniform_4"},
            {"section": "Größe", "label": "one", "model": "reader", "sampler": "uniform_1"},
            {"label": "four", "model": "seer", "sampler": "uniform_4"},
        ],
        "compare": [{"rows": ["Größe / four", "four"], "column": "now"}],
    }
    return base | changes


def judged(judge: str, **column: str) -> dict:
    """A change of the table: its only column is judged."""
    return {"columns": [{"label": "now", "metric": "judge_accuracy", "judge": judge, **column}]}


def check(wanted: dict) -> None:
    plan.check_table(wanted, CONFIGS)


def test_a_sound_table_passes_and_stays_as_it_is() -> None:
    wanted = table()
    before = copy.deepcopy(wanted)
    check(wanted)
    assert wanted == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": [{"label": "x"}, {"label": "x"}], "compare": []}, "two columns are called 'x'; rename"),
        (
            {"rows": [{"section": "é", "label": "r", "model": "seer", "sampler": "s"}] * 2, "compare": []},
            "two rows are called 'é / r'",
        ),
        (
            {"columns": [{"label": "all"}, {"label": "now", "metric": "accuracy"}]},
            "row 'Größe / four', column 'now': metric 'accuracy' needs a prompt with answers: option, and prompt 'v_q'"
            " has answers: open",
        ),
        (
            {"columns": [{"label": "now", "prompt": "v_q_options"}]},
            "column 'now': metric 'rouge_l' needs a prompt with answers: open, and prompt 'v_q_options' has answers:"
            " option",
        ),
        ({"columns": [{"label": "now", "group": "nwo"}]}, "data set 'signs' has no group 'nwo' (did you mean 'now'?)"),
        ({"columns": [{"label": "now", "group": "rtl"}]}, "has no group 'rtl'"),
        (
            {"columns": [{"label": "now", "dataset": "rolling", "group": "previous"}]},
            "data set 'rolling' has no group 'previous'",
        ),
        (
            {"columns": [{"label": "now", "dataset": "rolling", "prompt": "v_q_options", "metric": "accuracy"}]},
            "questions of data set 'rolling' have no options",
        ),
        (
            {"columns": [{"label": "now", "prompt": "q"}]},
            "model 'reader' reads the text on frames, and prompt 'q' shows",
        ),
        ({"columns": [{"label": "now", "resolution": "sr"}]}, "model 'reader' with prompt 'v_q' sees none"),
        ({"columns": [{"label": "now", "resolution": "elsewhere"}]}, "resolution 'elsewhere' goes with models of"),
        (
            {"rows": [{"label": "r", "model": "people", "sampler": "uniform_4"}], "compare": []},
            "sampler 'elsewhere' goes with models of adapter predictions, and with no others",
        ),
        (
            {"columns": [{"label": "now", "prompt": "v_q_azure"}]},
            "prompt 'v_q_azure' tells the text as 'azure' read it, and data set 'signs' has no such scene_text; add it",
        ),
        (
            {"columns": [{"label": "now", "metric": "judge_score"}]},
            "row 'Größe / four', column 'now' names no judge; set it in defaults, the row or the column",
        ),
        (
            {"columns": [{"label": "now", "pair": "judge_score"}]},
            "column 'now' has a pair, and its metric in row 'Größe / four' is rouge_l; set its metric to",
        ),
        (judged("wrods"), "no judge 'wrods' (did you mean 'words'?)"),
        (judged("letter"), "judge 'letter' needs a prompt with answers: option, and prompt 'v_q' has answers: open"),
        (judged("words", prompt="v_q_options"), "judge 'words' needs a prompt with answers: open, and prompt"),
        (judged("raters"), "judge 'raters' has no rating sheets; list them in config/judges/raters.yaml"),
        (judged("theirs"), "judge 'theirs' has no file for model 'reader'; add one to files in config/judges/theirs"),
        (
            {
                "rows": [
                    {"label": "a", "model": "seer", "sampler": "s", "judge": "words"},
                    {"label": "b", "model": "seer", "sampler": "t", "judge": "others"},
                ],
                "columns": [{"label": "now", "metric": "judge_score"}],
                "compare": [{"rows": ["a", "b"], "column": "now"}],
            },
            "'a' and 'b' don't both have column 'now' with one metric, group, judge and data set",
        ),
        ({"columns": [{"label": "now", "prompt": "vq"}]}, "no prompt 'vq' (did you mean 'v_q'?)"),
        ({"compare": [{"rows": ["Größe / fuor", "four"], "column": "all"}]}, "no row 'Größe / fuor' (did you mean"),
        ({"compare": [{"rows": ["Größe / one", "four"], "column": "nwo"}]}, "no column 'nwo' (did you mean 'now'?)"),
        ({"compare": [{"rows": ["four", "four"], "column": "all"}]}, "'four' and 'four' are one and the same"),
        (
            {
                "rows": [{"label": name, "model": "seer", "sampler": "s"} for name in ("a", "b")],
                "compare": [{"rows": ["a", "b"], "column": "all"}],
            },
            "'a' and 'b' are one and the same in column 'all' (signs/seer/s/native/v_q); compare two different rows",
        ),
        (
            {
                "rows": [
                    {"label": "a", "model": "seer", "sampler": "s", "only": ["all"]},
                    {"label": "b", "model": "seer", "sampler": "t"},
                ],
                "compare": [{"rows": ["a", "b"], "column": "now"}],
            },
            "'a' and 'b' don't both have column 'now'",
        ),
    ],
)
def test_mistakes_are_named(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check(table(**changes))
    assert str(raised.value).startswith("table 'p/t': ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_blind_prompt_is_fine_where_no_text_is_read() -> None:
    blind = {"label": "blind", "model": "seer", "sampler": "uniform_1", "prompt": "q"}
    check(table(rows=[blind], compare=[]))


def test_judges_have_their_place_beside_other_metrics() -> None:
    columns = [
        {"label": "now", "metric": "judge_score", "group": "macro"},
        {"label": "all", "metric": "exact_match"},
        {"label": "letter", "metric": "judge_accuracy", "judge": "letter", "prompt": "v_q_options"},
    ]
    wanted = table(columns=columns, defaults=table()["defaults"] | {"judge": "words"})
    check(wanted)
    cell = cells.parse("signs/seer/uniform_4/native/v_q")
    options = cells.parse("signs/seer/uniform_4/native/v_q_options")
    scored = [cells.Scored(cell), cells.Scored(cell, "words"), cells.Scored(options, "letter")]
    assert [one for one in cells.table_scores(wanted) if one.cell.model == "seer"] == scored
    assert [one.folder.as_posix() for one in scored[:2]] == [f"scores/{cell}", f"judged/words/{cell}"]
    theirs = {"label": "people", "model": "people", "sampler": "elsewhere", "resolution": "elsewhere"}
    check(table(rows=[theirs], compare=[], **judged("theirs")))


def test_what_was_made_elsewhere_and_what_somebody_else_read_have_their_place() -> None:
    people = {"label": "people", "model": "people", "sampler": "elsewhere", "resolution": "elsewhere"}
    read = {"label": "read", "model": "seer", "sampler": "s", "prompt": "v_q_azure", "dataset": "mine"}
    larger = {"label": "larger", "model": "seer", "sampler": "s", "resolution": "sr"}
    check(table(rows=[people, read, larger], columns=[{"label": "all"}], compare=[]))


def agreement(**changes) -> dict:
    cell = {"dataset": "signs", "model": "seer", "sampler": "s", "resolution": "native", "prompt": "v_q"}
    cells_ = [{"label": "one", **cell}, {"label": "two", **cell, "sampler": "t"}]
    return {"name": "a", "judge": "words", "cells": cells_, "sheets": []} | changes


def test_people_are_compared_with_a_judge_that_can_judge_these_answers() -> None:
    plan.check_agreement(agreement(), CONFIGS)
    assert list(cells.rated_cells(agreement())) == ["one", "two"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"judge": "wrods"}, "agreement 'a': cell 'one': no judge 'wrods' (did you mean 'words'?)"),
        (
            {"judge": "letter", "cells": [agreement()["cells"][0] | {"prompt": "v_q_options"}]},
            "cell 'one' answers with an option's letter, which nobody needs to rate",
        ),
        ({"judge": "letter"}, "agreement 'a': cell 'one': judge 'letter' needs a prompt with answers: option"),
        ({"judge": "people_"}, "agreement 'a': judge 'people_' is people; compare them with another judge"),
        ({"cells": [agreement()["cells"][0]] * 2}, "agreement 'a': 'one' (signs/seer/s/native/v_q) is there twice"),
        (
            {"cells": [agreement()["cells"][0] | {"model": "sear"}]},
            "cell 'one': no model 'sear' (did you mean 'seer'?)",
        ),
    ],
)
def test_mistakes_in_a_comparison_of_people_are_named(changes: dict, message: str) -> None:
    people = {"name": "people_", "kind": "human", "sheets": ["s.csv"]}
    configs = plan.Configs(MODELS, PROMPTS, DATASETS, RESOLUTIONS, JUDGES | {"people_": people})
    with pytest.raises(ConfigError) as raised:
        plan.check_agreement(agreement(**changes), configs)
    assert message in str(raised.value)


def test_sheets_that_are_not_there_yet_are_asked_for() -> None:
    assert plan.rating_sheets(agreement(sheets=["a.csv"])) == ["a.csv"]
    with pytest.raises(ConfigError, match=r"config/agreement/a\.yaml lists no sheets; have raters fill in"):
        plan.rating_sheets(agreement())
    with pytest.raises(ConfigError, match=r"sheet 'results/agreement/a/sheet\.csv' is below results/, .*; move it"):
        plan.rating_sheets(agreement(sheets=["b.csv", "results/agreement/a/sheet.csv"]))
    filled = {"raters": JUDGES["raters"] | {"sheets": ["results/s.csv"]}}
    configs = plan.Configs(MODELS, PROMPTS, DATASETS, RESOLUTIONS, JUDGES | filled)
    with pytest.raises(ConfigError, match=r"judge 'raters': sheet 'results/s\.csv' is below results/"):
        plan.check_table(table(compare=[], **judged("raters")), configs)


def test_to_list_a_sheet_draws_nothing_anew() -> None:
    drawn = plan.what_is_drawn(agreement(n=5, seed=1))
    assert drawn == plan.what_is_drawn(agreement(n=5, seed=1, sheets=["a.csv"], title="other", judge="letter"))
    assert drawn != plan.what_is_drawn(agreement(n=6, seed=1))


def test_a_model_allowed_to_run_unpinned_must_exist() -> None:
    plan.check_models(["seer"], MODELS)
    with pytest.raises(ConfigError, match=r"allow_unpinned: no model 'sear' \(did you mean 'seer'\?\)"):
        plan.check_models(["sear"], MODELS)


def test_groups_of_a_data_set_of_ones_own_are_not_guessed() -> None:
    check(table(columns=[{"label": "now", "dataset": "mine", "group": "Straßenschild"}]))


def test_known_groups_are_those_that_scoring_makes() -> None:
    def case(at: int, category: str, subset: str) -> Case:
        return Case(key=f"d/v/{at}", video="v", category=category, subsets=[subset], status="ok", answer="", metrics={})

    asked = [(category, subset) for category in signs.WORDING for subset in ("current", "previous")]
    of_signs = groups([case(at, *one) for at, one in enumerate(asked)])
    assert set(plan.known_groups(DATASETS["signs"]["source"])) == {MACRO, *of_signs}
    fewer = groups([case(at, *one) for at, one in enumerate(asked) if one[0] != "previous"])
    source = {"kind": "synthetic_signs", "questions": {"now": 2, "first": 1, "previous": 0}}
    assert set(plan.known_groups(source)) == {MACRO, *fewer}
    of_rolling = groups([case(at, "RollingText", one) for at, one in enumerate(motion.MOTIONS)])
    assert set(plan.known_groups(DATASETS["rolling"]["source"])) == {MACRO, *of_rolling}
    assert plan.known_groups({"kind": "synthetic_rolling", "videos": 2}) == [
        "all",
        "macro",
        "RollingText",
        *motion.MOTIONS[:2],
    ]


def test_what_the_snakefile_cannot_import_agrees() -> None:
    assert plan.CHOICE == metrics.CHOICE
    assert plan.MOTIONS == motion.MOTIONS


def test_it_needs_nothing_that_snakemakes_environment_lacks() -> None:
    code = "import sys, scripts.lib.plan; print([m for m in ('pydantic', 'numpy', 'rapidfuzz') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted(config.names("table", ROOT / "config")))
def test_shipped_tables_are_whole(name: str) -> None:
    root = ROOT / "config"
    loaded = (
        {name: config.load(kind, name, root) for name in config.names(kind, root)}
        for kind in ("model", "prompt", "dataset", "resolution", "judge")
    )
    plan.check_table(config.load("table", name, root), plan.Configs(*loaded))


def test_a_table_that_may_miss_scores_waits_for_those_made_before_or_anyway(tmp_path: Path) -> None:
    strict = table(rows=[{"label": "r", "model": "seer", "sampler": "uniform_4"}], compare=[])
    tables = {"p/free": table(allow_missing=True), "p/strict": strict, "q/strict": strict, "q/free": table()}
    tables["q/free"]["allow_missing"] = True
    before = cells.Scored(cells.parse("signs/reader/uniform_1/native/v_q"))
    anyway = cells.Scored(cells.parse("signs/seer/uniform_4/native/v_q"))
    assert plan.needed_scores("p/free", tables, ["p/free"], tmp_path) == []
    assert plan.needed_scores("p/free", tables, ["p/free", "q/strict"], tmp_path) == [anyway]
    assert plan.needed_scores("q/free", tables, ["p/free"], tmp_path) == [anyway], "made with its folder"
    (tmp_path / before.folder).mkdir(parents=True)
    (tmp_path / before.folder / "scores.json").write_text("{}", encoding="utf-8")
    assert plan.needed_scores("p/free", tables, ["p/free", "p/strict"], tmp_path) == [before, anyway]
    assert plan.needed_scores("p/strict", tables, ["p/free"], tmp_path) == [anyway]


def test_every_table_has_a_short_name_and_every_folder_its_tables() -> None:
    names = {"q/b": {}, "p/t": {}, "p/a": {}, "alone": {}}
    assert plan.papers(names) == {"p": ["p/a", "p/t"], "q": ["q/b"]}
    assert plan.short_names(names, ["all"]) == {"alone": "alone", "p_a": "p/a", "p_t": "p/t", "q_b": "q/b"}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a_b/c", "a/b_c"], "config/tables/a_b/c.yaml: its target 'a_b_c' would also mean config/tables/a/b_c.yaml"),
        (["run/cell"], "config/tables/run/cell.yaml: its target 'run_cell' would also mean rule run_cell"),
        (["all"], "config/tables/all.yaml: its target 'all' would also mean rule all"),
        (["all/x"], "config/tables/all/: rule all has this name; rename the folder"),
        (["p_q/x", "p/q"], "config/tables/p/q.yaml: its target 'p_q' would also mean config/tables/p_q/"),
    ],
)
def test_a_name_that_means_two_things_is_refused(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        plan.short_names(names, ["all", "run_cell"])
    assert message in str(raised.value)


def test_a_table_without_a_file_is_named() -> None:
    plan.check_asked(["p/t"], {"p/t": {}})
    with pytest.raises(ConfigError, match=r"no table 'p/y' \(did you mean 'p/t'\?\); tables live in config/tables/"):
        plan.check_asked(["p/t", "p/y"], {"p/t": {}})
