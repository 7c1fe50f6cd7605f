"""Tables in their three forms, and the tables of a study."""

import csv
import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.studies import keep_runs, synthetic_study

from hindsight_rl.analysis.report.content import failures_table
from hindsight_rl.analysis.study import tables as study_tables
from hindsight_rl.analysis.study.aggregates import aggregate, aggregate_comparisons
from hindsight_rl.analysis.study.sensitivity import sensitivities
from hindsight_rl.analysis.study.summaries import comparisons, missing, performance, thresholds
from hindsight_rl.analysis.tables import Column, Table, Value, to_csv, to_latex, to_markdown
from hindsight_rl.core.cells import meant
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.runs import DEFINITIVE, FinishedRun, StudyResults

TABLE = Table(
    "Results & more",
    (
        Column("method", "text"),
        Column("runs", "count"),
        Column("performance", "spread"),
        Column("interval (95 %)", "interval", digits=1),
        Column("difference", "number"),
        Column("learning rate", "rate"),
        Column("done", "flag"),
    ),
    (
        ("hpg_1", 12000, (4.599, 0.061), (-1.25, 2.0), -0.001, 5e-4, True),
        ("a|b", 0, (None, None), None, -3.14159, 1e-5, False),
        (None, None, (float("nan"), 1.0), (1.0, None), float("nan"), None, None),
    ),
)


def read(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(table))))


def cell(kind: str, value: Value, digits: int = 2) -> tuple[str, str]:
    """How a value is shown in Markdown and in LaTeX."""
    table = Table("t", (Column("h", kind, digits),), ((value,),))  # type: ignore[arg-type]
    markdown = to_markdown(table).splitlines()[-1].removeprefix("| ").removesuffix(" |")
    latex = to_latex(table).splitlines()[8].removesuffix(r" \\")
    return markdown, latex


def test_csv_has_raw_numbers() -> None:
    assert to_csv(TABLE) == (
        "method,runs,performance_mean,performance_std,interval_95_low,interval_95_high,difference,learning_rate,done\n"
        "hpg_1,12000,4.599,0.061,-1.25,2.0,-0.001,0.0005,True\n"
        "a|b,0,,,,,-3.14159,1e-05,False\n"
        ",,,1.0,1.0,,,,\n"
    )


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.text(st.characters(exclude_characters="\r")))
def test_csv_gives_every_value_back(number: float, end: float, text: str) -> None:
    columns = (Column("text", "text"), Column("number", "number"), Column("pair", "interval"))
    stream = io.StringIO(to_csv(Table("t", columns, ((text, number, (end, number)),))), newline="")
    (row,) = csv.DictReader(stream)
    assert meant(row["text"]) == text
    assert [float(row[name]) for name in ("number", "pair_low", "pair_high")] == [number, end, number]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", "\tb", "'=1", "''=1"])
def test_text_is_no_formula_to_a_spreadsheet(text: str) -> None:
    cell = to_csv(Table("t", (Column("h", "text"),), ((text,),))).splitlines()[1]
    assert cell == f"'{text}"
    assert meant(cell) == text


def test_text_does_not_steer_a_terminal_or_a_page() -> None:
    columns = (Column("h", "text"), Column("n", "count"))
    shown = to_markdown(Table("t\x1b]0;x\x07", columns, (("\x1b[31m<script>", 1),)))
    assert shown.splitlines()[0] == r"**t\\x1b\]0;x\\x07**"
    assert shown.splitlines()[-1] == r"| \\x1b\[31m\<script> | 1 |"


def test_line_breaks_in_csv_are_plain_ones() -> None:
    table = Table("t", (Column("h", "text"), Column("n", "count")), (("a\r\nb\rc", 1),))
    assert to_csv(table) == 'h,n\n"a\nb\nc",1\n'


def test_markdown() -> None:
    assert to_markdown(TABLE).splitlines() == [
        "**Results & more**",
        "",
        "| method | runs | performance | interval (95 %) | difference | learning rate | done |",
        "| :--- | ---: | ---: | ---: | ---: | ---: | :--- |",
        r"| hpg\_1 | 12,000 | 4.60 ± 0.06 | [-1.2, 2.0] | 0.00 | 0.0005 | yes |",
        r"| a\|b | 0 | — | — | -3.14 | 1e-5 | no |",
        "| — | — | — | — | — | — | — |",
    ]


def test_latex() -> None:
    assert to_latex(TABLE).splitlines() == [
        r"% Needs \usepackage{booktabs} for its rules.",
        r"\begin{table}",
        r"\centering",
        r"\caption{Results \& more}",
        r"\begin{tabular}{lrrrrrl}",
        r"\toprule",
        r"method & runs & performance & interval (95 \%) & difference & learning rate & done \\",
        r"\midrule",
        r"hpg\_1 & 12,000 & 4.60 $\pm$ 0.06 & [$-$1.2, 2.0] & 0.00 & 0.0005 & yes \\",
        r"a\textbar{}b & 0 & --- & --- & $-$3.14 & $1 \times 10^{-5}$ & no \\",
        r"--- & --- & --- & --- & --- & --- & --- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "markdown", "latex"),
    [
        ("rate", 0.001, "0.001", "0.001"),
        ("rate", 2.5e-5, "2.5e-5", r"$2.5 \times 10^{-5}$"),
        ("rate", 1e6, "1e6", r"$1 \times 10^{6}$"),
        ("rate", -1e-5, "-1e-5", r"$-1 \times 10^{-5}$"),
        ("number", float("inf"), "inf", "inf"),
        ("number", -1234.5678, "-1,234.57", "$-$1,234.57"),
        ("spread", (-0.004, 0.0), "0.00 ± 0.00", r"0.00 $\pm$ 0.00"),
        ("spread", (5.08, None), "5.08", "5.08"),  # of one run
        ("spread", (None, None), "—", "---"),
        ("interval", (0.0, 1.0), "[0.00, 1.00]", "{}[0.00, 1.00]"),
        ("text", "bit-flipping-8", "bit-flipping-8", "bit-flipping-8"),
        ("text", "*", r"\*", "{}*"),
        ("text", "two\nlines", "two lines", "two lines"),
        ("text", r"a\b", r"a\\b", r"a\textbackslash{}b"),
        ("text", "50 % ~ <#>", r"50 % ~ \<#>", r"50 \% \textasciitilde{} \textless{}\#\textgreater{}"),
    ],
)
def test_values_as_people_read_them(kind: str, value: Value, markdown: str, latex: str) -> None:
    assert cell(kind, value) == (markdown, latex)


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["C"])))
def test_latex_text_has_no_special_character_left(text: str) -> None:
    shown = cell("text", text)[1]
    # Whatever is left of it without known escapes must be harmless.
    rest = re.sub(r"\\text[a-z]+\{\}|\\[&%$#_{}]|^\{\}", "", shown)
    assert not set(rest) & set("\\&%$#_{}~^<>|")


@given(st.text())
def test_text_cannot_break_a_markdown_row(text: str) -> None:
    table = Table("t", (Column("h", "text"), Column("n", "count")), ((text, 1),))
    lines = to_markdown(table).splitlines()
    assert len(lines) == 5
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", lines[-1])) == 3


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", 1.0),
        ("count", "1"),
        ("count", True),
        ("flag", 1),
        ("number", (1.0, 2.0)),
        ("spread", 1.0),
        ("interval", (1.0, 2.0, 3.0)),
        ("interval", ("1", "2")),
    ],
)
def test_value_of_another_kind_is_refused(kind: str, value: Value) -> None:
    with pytest.raises(HindsightError, match=f"'h' holds a {kind}"):
        cell(kind, value)


def test_table_of_the_wrong_form_is_refused() -> None:
    with pytest.raises(HindsightError, match="'t' has 2 values for 1 columns"):
        Table("t", (Column("h", "text"),), (("a", "b"),))
    with pytest.raises(HindsightError, match="'t' needs at least one column"):
        Table("t", (), ())
    with pytest.raises(HindsightError, match=r"no kind 'numbr' of column\. Did you mean 'number'"):
        Column("h", "numbr")  # type: ignore[arg-type]


# The tables of a study

BEST = {"bit-flipping-8": 5.0, "four-rooms": 10.0}


def paper(environment: str, method: str, batch_size: int) -> tuple[float, float] | None:
    return (4.0, 0.0 if method == "gcpg" else 0.5) if environment == "bit-flipping-8" else None


def tables_of(study: StudyResults) -> dict[str, Table]:
    rows = performance(study, paper)
    return {
        "performance": study_tables.performance_table(rows),
        "paper": study_tables.paper_table(rows),
        "threshold": study_tables.threshold_table(thresholds(study, BEST)),
        "comparison": study_tables.comparison_table(comparisons(study)),
        "sensitivity": study_tables.sensitivity_table(sensitivities(study)),
        "missing": study_tables.missing_table(missing(study)),
        "aggregate": study_tables.aggregate_table(aggregate(study, BEST)),
        "aggregate comparison": study_tables.aggregate_comparison_table(aggregate_comparisons(study, BEST)),
    }


STUDY = synthetic_study(methods=("gcpg", "hpg+b"))
TABLES = tables_of(STUDY)


def test_numbers_in_the_tables_are_those_of_the_rows() -> None:
    rows, records = performance(STUDY, paper), read(TABLES["performance"])
    assert len(rows) == len(records) == len(STUDY.plans)
    for row, record in zip(rows, records, strict=True):
        assert (record["environment"], int(record["batch_size"]), record["method"]) == row.cell
        assert float(record["average_performance_mean"]) == row.mean
        assert float(record["average_performance_std"]) == row.std
        assert float(record["interval_95_low"]) == row.low
        assert float(record["interval_95_high"]) == row.high
        assert record["baseline_learning_rate"] == ("" if row.cell.method == "gcpg" else "0.001")
        assert (int(record["planned_runs"]), int(record["failed"])) == (row.planned, row.failed)


def test_there_is_a_column_for_each_option_that_is_searched() -> None:
    def other(run: FinishedRun) -> FinishedRun:
        searched = (("clip", 0.2), ("gradient_steps", 40), *run.key.choices)
        return replace(run, key=run.key._replace(choices=searched)) if run.cell.method == "hpg+b" else run

    plans = {
        cell: plan
        if cell.method == "gcpg"
        else {**plan, "choices": {"clip": [], "gradient_steps": [], **plan["choices"]}}
        for cell, plan in STUDY.plans.items()
    }
    study = replace(STUDY, plans=plans, runs=[other(run) for run in STUDY.runs])
    names = ["learning rate", "clip", "gradient steps", "baseline learning rate"]
    for runs in (study.runs, []):
        found = tables_of(replace(study, runs=runs))["performance"]
        assert [column.header for column in found.columns[6:10]] == names
    tables = tables_of(study) | {"failures": failures_table(study)}
    for name in ("performance", "sensitivity", "failures"):
        headers = [column.header for column in tables[name].columns]
        assert headers.count("gradient steps") == 1
        for record in read(tables[name]):
            assert record["gradient_steps"] == ("" if record["method"] == "gcpg" else "40")
            assert record["learning_rate"]
    assert "| 0.2 | 40 |" in to_markdown(tables["sensitivity"])


def test_table_beside_the_paper_has_the_papers_cells_only() -> None:
    records = read(TABLES["paper"])
    assert {record["environment"] for record in records} == {"bit-flipping-8"}
    for record in records:
        difference = float(record["here_mean"]) - float(record["paper_mean"])
        assert float(record["difference"]) == difference
        relative = record["in_the_paper_s_standard_deviations"]
        assert relative == "" if record["method"] == "gcpg" else float(relative) == difference / 0.5


def test_table_of_what_is_missing_names_the_causes() -> None:
    (record,) = read(TABLES["missing"])
    assert (record["environment"], record["batch_size"], record["method"]) == ("four-rooms", "16", "hpg+b")
    assert record["causes"] == "The gradient was not finite. (seed 5 in batch 40)"
    assert (record["missing"], record["failed"], record["search_unfinished"]) == ("0", "1", "False")


def test_tables_of_comparisons_say_how_many_there_are() -> None:
    for name in ("comparison", "aggregate comparison"):
        count = len(TABLES[name].rows)
        said = re.search(r"\((\d+) comparisons, not corrected for their number\)$", TABLES[name].title)
        assert int(said[1]) == count > 1 if said else count == 1
    one = study_tables.comparison_table(comparisons(STUDY)[:1])
    assert "comparisons" not in one.title


def test_other_tables_have_a_row_for_each_row() -> None:
    lengths = {name: len(table.rows) for name, table in TABLES.items()}
    assert lengths == {
        "performance": 8,
        "paper": 4,
        "threshold": 8,
        "comparison": 4,
        "sensitivity": 4 * (3 + 6),
        "missing": 1,
        "aggregate": 4,
        "aggregate comparison": 2,
    }
    assert read(TABLES["aggregate"])[0]["environments"] == "bit-flipping-8, four-rooms"
    probability = comparisons(STUDY)[0].probability
    assert float(read(TABLES["comparison"])[0]["probability"]) == probability


@pytest.mark.parametrize("form", [to_csv, to_markdown, to_latex])
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_unfinished_studies_have_all_forms(name: str, form: object) -> None:
    unfinished = [
        keep_runs(STUDY, lambda run: False),
        keep_runs(STUDY, lambda run: run.key.stage != DEFINITIVE),
        keep_runs(STUDY, lambda run: run.cell.environment == "four-rooms"),
    ]
    for study in (STUDY, *unfinished):
        text = form(tables_of(study)[name])  # type: ignore[operator]
        assert text.endswith("\n")
        assert "None" not in text
        assert "nan" not in text


@pytest.mark.parametrize("name", TABLES)
def test_columns_of_a_csv_file_have_different_names(name: str) -> None:
    header = to_csv(TABLES[name]).splitlines()[0].split(",")
    assert len(set(header)) == len(header)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", field) for field in header)
