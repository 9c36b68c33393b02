"""One table in its four forms: LaTeX for the paper, CSV (tidy) and JSON for programs, Markdown for the terminal."""

import csv
import io
import json
from dataclasses import asdict
from typing import Any

from scripts.lib import latex
from scripts.tables.costs import cost_line, costs
from scripts.tables.footnotes import counts_vary, detectable, notes
from scripts.tables.printed import BY_DESIGN, MISSING, NOTHING_SCORED, heading, interval, main_text, texts, used
from scripts.tables.rows import Number, Table

SCORES = ("value", "low", "high", "n", "n_scored", "n_videos", "detectable")
OF_A_JUDGE = ("judge_title", "judge_note", "judgements", "flags", "again")


def to_latex(table: Table) -> str:
    r"""A ``table`` environment to ``\input``; the preamble needs booktabs and graphicx."""
    spec = table.spec
    always = counts_vary(table)
    lines = [
        latex.Line(row.label, [_latex_number(number, always) for number in row.numbers], row.section)
        for row in table.rows
    ]
    columns = [
        latex.Column(column.get("heading", column["label"]), column.get("over", "")) for column in spec["columns"]
    ]
    layout = latex.Layout(spec["caption"], f"tab:{spec.get('label', spec['name'])}", columns, notes(table))
    return "% Written by scripts.tables.make_table; needs \\usepackage{booktabs,graphicx}.\n" + latex.table(
        layout, lines
    )


def _latex_number(number: Number, always: bool) -> tuple[str, str]:
    style = {1: r"\textbf{%s}", 2: r"\underline{%s}"}.get(number.rank, "%s")
    beside = " ".join(filter(None, [interval(number), used(number, always)]))
    first, second = map(latex.escape, texts(number))
    return " ".join(filter(None, [style % first, second])), rf"{{\scriptsize {latex.escape(beside)}}}" if beside else ""


def to_markdown(table: Table) -> str:
    """Title, caption, table, notes and, where anything was counted, what it cost."""
    columns = [heading(column) for column in table.spec["columns"]]
    always = counts_vary(table)
    lines = [
        f"**{_markdown(table.spec['title'])}**",
        "",
        _markdown(table.spec["caption"]),
        "",
        "| " + " | ".join(["", *map(_markdown, columns)]) + " |",
        "| " + " | ".join(["---", *["---:"] * len(columns)]) + " |",
    ]
    for row in table.rows:
        cells = [_markdown_number(number, always) for number in row.numbers]
        lines.append("| " + " | ".join([_markdown(row.name), *cells]) + " |")
    below = [*notes(table), *filter(None, [cost_line(table)])]
    return "\n".join([*lines, "", *[f"- {_markdown(note)}" for note in below], ""])


def _markdown_number(number: Number, always: bool) -> str:
    style = {1: "**{}**", 2: "<u>{}</u>"}.get(number.rank, "{}")
    first, second = texts(number)
    return " ".join(filter(None, [style.format(first), second, interval(number), used(number, always)]))


def _markdown(text: str) -> str:
    """One line of plain text in which nothing is markup of a table."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def to_csv(table: Table) -> str:
    """One line per value that the table asks for, so two of a pair; values as in scores.json (0–1, judge_score 0–5),
    empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["section", "row", "column", "cell", "judge", "metric", "group", *SCORES])
    for row in table.rows:
        for number, column in zip(row.numbers, table.spec["columns"], strict=True):
            if number.entry:
                entry = number.entry
                named = [row.section, row.label, column["label"], str(entry.cell), entry.judge]
                for metric, score in ((entry.metric, number.score), (column.get("pair", ""), number.pair)):
                    if metric:
                        writer.writerow([*named, metric, entry.group, *[(score or {}).get(name) for name in SCORES]])
    return out.getvalue()


def to_json(table: Table) -> str:
    """Everything: the specification, each number with its cell and state, statuses, judges and costs of the cells,
    comparisons and notes."""
    content = {
        "name": table.spec["name"],
        "spec": table.spec,
        "rows": [
            {
                "section": row.section,
                "label": row.label,
                "entries": [_json_entry(number, counts_vary(table)) for number in row.numbers],
            }
            for row in table.rows
        ],
        "statuses": {str(scored): found["statuses"] for scored, found in table.found.items()},
        "judges": {
            str(scored): {"judge": scored.judge, **{name: found[name] for name in OF_A_JUDGE}}
            for scored, found in table.found.items()
            if scored.judge
        },
        "frames_changed": {
            str(scored.cell): changed for scored, found in table.found.items() if (changed := found["frames_changed"])
        },
        "missing": [str(scored) for scored in table.missing],
        "comparisons": [
            {
                "rows": list(one.rows),
                "column": one.column,
                "metric": one.metric,
                **({**asdict(found), "detectable": detectable(found)} if (found := one.difference) else {}),
                "p_holm": one.p_holm,
            }
            for one in table.comparisons
        ],
        "cost": costs(table),
        "footnotes": notes(table),
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _json_entry(number: Number, always: bool) -> dict[str, Any]:
    """``state`` is ``scored``, ``nothing_scored``, ``missing`` or ``not_asked``; ``text``, ``interval`` and ``used``
    are as printed, the other values as in scores.json (null where there is none)."""
    states = {BY_DESIGN: "not_asked", MISSING: "missing", NOTHING_SCORED: "nothing_scored"}
    entry, score, pair = number.entry, number.score or {}, None
    if number.pair is not None:
        values = {name: number.pair.get(name) for name in SCORES}
        published = number.published.get(number.pair_metric)
        pair = {"metric": number.pair_metric, **values, "as_published": published}
    return {
        "state": states.get(main_text(number), "scored"),
        "cell": str(entry.cell) if entry else None,
        "judge": entry.judge if entry and entry.judge else None,
        "metric": entry.metric if entry else None,
        "group": entry.group if entry else None,
        **{name: score.get(name) for name in SCORES},
        "as_published": number.published.get(entry.metric) if entry else None,
        "pair": pair,
        "rank": number.rank,
        "text": main_text(number),
        "interval": interval(number),
        "used": used(number, always),
    }
