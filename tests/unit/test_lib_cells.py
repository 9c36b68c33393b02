"""Cells and what tables ask for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import cells
from scripts.lib.cells import Cell
from scripts.lib.errors import ConfigError

NAME = st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True)


@given(st.builds(Cell, NAME, NAME, NAME, NAME, NAME))
def test_path_round_trip(cell):
    assert cells.parse(str(cell)) == cell


def test_parse_refuses_another_shape():
    with pytest.raises(ConfigError, match="not of the form dataset/model"):
        cells.parse("a/b/c")


def table(**changes):
    return {
        "name": "t",
        "defaults": {"dataset": "d", "prompt": "p", "metric": "rouge_l"},
        "rows": [{"label": "A", "model": "m", "sampler": "s1"}, {"label": "B", "model": "m", "sampler": "s2"}],
        "columns": [
            {"label": "low", "resolution": "low"},
            {"label": "first", "resolution": "native", "group": "first"},
        ],
        **changes,
    }


def test_entries_overlay_defaults_columns_rows():
    rows = cells.table_entries(table())
    assert rows[1][1] == cells.Entry(Cell("d", "m", "s2", "native", "p"), "rouge_l", "first")
    assert rows[0][0].group == "all"
    assert len(cells.table_cells(table())) == 4


def test_a_row_overrides_its_column():
    rows = cells.table_entries(table(rows=[{"label": "A", "model": "m", "sampler": "s", "resolution": "low"}]))
    assert [entry.cell.resolution for entry in rows[0]] == ["low", "low"]


def test_an_axis_set_nowhere_is_named():
    with pytest.raises(ConfigError, match="row 'A', column 'low' names no prompt"):
        cells.table_entries(table(defaults={"dataset": "d", "metric": "rouge_l"}))


def test_unknown_names_get_a_suggestion():
    known = {axis: {"uniform_16"} for axis in cells.AXES}
    with pytest.raises(ConfigError, match=r"no sampler 'unifrom_16' \(did you mean 'uniform_16'\?\)"):
        cells.check_names(
            Cell("uniform_16", "uniform_16", "unifrom_16", "uniform_16", "uniform_16"), known, "table 't'"
        )
