"""The report in a real browser: it shows everything, sorts, fits a phone, has a dark side, and asks no network."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from reference.browser import Page
from reference.studies import keep_runs, synthetic_study

from hindsight_rl.analysis.animation import animate
from hindsight_rl.analysis.report.build import Report, ReportTable, build_report, render_report
from hindsight_rl.analysis.report.page import SECTIONS
from hindsight_rl.analysis.tables import Column, Table
from hindsight_rl.records.runs import DEFINITIVE

HOSTILE = "<script>window.hostile=1</script>\"><img src=x onerror='window.hostile=2'>"
PROBE = Table(
    "Probe",
    (Column("name", "text"), Column("number", "number"), Column("pair", "spread"), Column("flag", "flag")),
    (
        ("maze-10", 10.0, (2.0, 0.1), True),
        ("maze-9", 9.5, (10.0, 0.2), False),
        ("maze-100", None, (None, None), None),
        ("Maze-1", -2.0, (-1.5, 0.1), True),
        (None, float("nan"), (0.5, 0.1), False),
        ("maze-2", 0.00001, (0.0, 0.1), True),
        ("maze-20", 1000.0, None, False),
    ),
)


def a_report() -> Report:
    """Half a study with a bad name, a failed run, long tables, wide tables and an animation."""
    study = synthetic_study(methods=("gcpg", "hpg+b", "hpg"), batch_sizes=(2,), runs=5)
    study = replace(study, facts={"name": HOSTILE, "description": "Made up for tests."})
    study = keep_runs(study, lambda run: run.key.stage != DEFINITIVE or run.cell[::2] != ("four-rooms", "gcpg"))
    animations = {HOSTILE: animate([("start", "A.G"), ("end", "..*")])}
    report = build_report(study, lambda *_: (4.6, 0.1), {"bit-flipping-8": 4.992}, animations)
    probes = {
        "probe": ReportTable("performance", PROBE),
        "long": ReportTable("sensitivity", replace(PROBE, rows=10 * PROBE.rows)),
    }
    return replace(report, tables={**report.tables, **probes})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(a_report()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with Page.opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page, file: Path) -> Page:
    browser.resize(1280)
    browser.prefer("light")
    browser.events.clear()
    browser.open(file)
    return browser


def column(page: Page, index: int) -> list[str]:
    rows = "[...document.querySelectorAll('#table-probe tbody tr')]"
    return page.evaluate(f"{rows}.map(row => row.cells[{index}].textContent.trim())")


def header(index: int) -> str:
    return f"#table-probe th:nth-child({index + 1}) button"


def sorting(page: Page) -> list[str]:
    headers = "[...document.querySelectorAll('#table-probe th')]"
    return page.evaluate(f"{headers}.map(header => header.getAttribute('aria-sort'))")


def test_everything_is_shown(page: Page) -> None:
    for section in ("summary", *(section.id for section in SECTIONS)):
        assert page.evaluate(f"document.getElementById('{section}').getBoundingClientRect().height > 20"), section
    report = a_report()
    images = page.evaluate("[...document.images].map(image => [image.complete, image.naturalWidth, image.width])")
    assert len(images) == len(report.figures) + len(report.animations)
    assert all(complete and natural > 0 and shown > 20 for complete, natural, shown in images)
    assert page.evaluate("document.querySelectorAll('table').length") == len(report.tables) + 1
    assert page.evaluate("document.title") == page.evaluate("document.querySelector('h1').textContent") == HOSTILE


def test_no_complaints_no_requests_no_hostile_script(page: Page, file: Path) -> None:
    page.evaluate("new Promise(done => setTimeout(done, 200))")
    assert page.complaints() == []
    assert page.requests() == [file.as_uri()]
    assert page.evaluate("typeof window.hostile") == "undefined"


def test_policy_forbids_the_network_and_other_scripts(page: Page) -> None:
    blocked = """new Promise(done => {
        const directives = [];
        addEventListener("securitypolicyviolation", event => {
            directives.push(event.effectiveDirective);
            if (directives.length === 2) done(directives.sort());
        });
        document.body.append(Object.assign(new Image(), { src: "https://example.org/a.png" }));
        document.body.append(Object.assign(document.createElement("script"), { textContent: "window.hostile = 3" }));
    })"""
    assert page.evaluate(blocked) == ["img-src", "script-src-elem"]
    assert page.evaluate("typeof window.hostile") == "undefined"


def test_answer_is_on_the_first_screen(page: Page) -> None:
    """The best method of the first rows, on a laptop and on a phone."""
    for width, height in ((1280, 800), (390, 844)):
        page.resize(width, height)
        bottom = page.evaluate("document.querySelector('#verdicts tbody tr').getBoundingClientRect().bottom")
        assert 0 < bottom < height
        shown = page.evaluate("document.querySelector('#verdicts tbody .method').getBoundingClientRect().width")
        assert shown > 0


def test_click_sorts_numbers_with_missing_ones_last(page: Page) -> None:
    before = column(page, 0)
    page.click(header(1))
    assert column(page, 0) == ["Maze-1", "maze-2", "maze-9", "maze-10", "maze-20", before[2], before[4]]
    assert sorting(page) == ["none", "ascending", "none", "none"]
    page.click(header(1))
    assert column(page, 0) == ["maze-20", "maze-10", "maze-9", "maze-2", "Maze-1", before[2], before[4]]
    assert sorting(page) == ["none", "descending", "none", "none"]
    page.click(header(2))
    assert column(page, 0) == ["Maze-1", "maze-2", before[4], "maze-10", "maze-9", "maze-20", before[2]]
    assert sorting(page) == ["none", "none", "ascending", "none"]


def test_text_sorts_as_people_count(page: Page) -> None:
    page.click(header(0))
    names = column(page, 0)
    assert names[:-1] == ["Maze-1", "maze-2", "maze-9", "maze-10", "maze-20", "maze-100"]
    page.click(header(3))
    assert column(page, 3)[:-1] == ["no"] * 3 + ["yes"] * 3


def test_keyboard_sorts(page: Page) -> None:
    page.evaluate("document.querySelector('#table-probe .scroll').focus()")
    page.press("Tab")
    assert page.evaluate(f"document.activeElement === document.querySelector('{header(0)}')")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.press("Tab")
    page.press("Enter")
    assert sorting(page) == ["none", "ascending", "none", "none"]
    assert column(page, 0)[0] == "Maze-1"
    page.press(" ")
    assert sorting(page) == ["none", "descending", "none", "none"]
    assert column(page, 0)[0] == "maze-20"
    assert page.evaluate(f"document.activeElement === document.querySelector('{header(1)}')")


def test_sorting_one_table_leaves_the_others_alone(page: Page) -> None:
    others = "[...document.querySelectorAll('table:not(#table-probe table)')].map(table => table.outerHTML).join()"
    before = page.evaluate(others)
    page.click(header(1))
    assert page.evaluate(others) == before


def test_link_unfolds_a_long_table(page: Page) -> None:
    folded = "document.querySelector('#table-long details')"
    assert page.evaluate(f"{folded} && {folded}.open") is False
    page.evaluate("location.hash = '#table-long'")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.evaluate(f"{folded}.open")


@pytest.mark.parametrize("width", [360, 768, 1024, 1280])
def test_page_is_never_wider_than_the_screen(page: Page, width: int) -> None:
    page.resize(width)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate("scrollTo(10000, 0)")
    assert page.evaluate("scrollX") == 0


def test_wide_tables_and_figures_scroll_inside_on_a_phone(page: Page) -> None:
    page.resize(360)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    boxes = "[...document.querySelectorAll('{}')].filter(box => box.scrollWidth > box.clientWidth + 1)"
    for selector in ("#table-performance .scroll", "#learning-curves .card"):
        wider = boxes.format(selector)
        assert page.evaluate(f"{wider}.length") >= 1
        assert page.evaluate(f"(box => (box.scrollLeft = 50, box.scrollLeft))({wider}[0])") == 50
    # Letters that are ten points high on paper, as most are, stay about eight pixels high or more.
    scales = page.evaluate(
        "[...document.querySelectorAll('figure[id] img')].map(i => i.width / i.getAttribute('width'))"
    )
    assert min(scales) > 0.6


def test_legend_is_on_the_screen_of_a_phone(page: Page) -> None:
    page.resize(360)
    lists = (
        "[...document.querySelectorAll('#learning-curves figure')].map(one => [...one.querySelectorAll('.legend li')]"
    )
    assert all(
        any(name.startswith("hpg (") for name in names) for names in page.evaluate(f"{lists}.map(i => i.textContent))")
    )
    assert page.evaluate(f"{lists}.every(item => item.getBoundingClientRect().right <= 360)).every(Boolean)")
    page.resize(1280)  # where the figure shows its own
    assert page.evaluate("getComputedStyle(document.querySelector('.legend')).display") == "none"


def test_dark_mode_changes_colours_and_stays_readable(page: Page) -> None:
    background = {}
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        background[scheme] = colour(page, "body", "backgroundColor")
        for selector, least in (("body", 7.0), (".soft", 4.5), ("nav a", 4.5), (".notes strong", 4.5)):
            behind = colour(page, ".notes", "backgroundColor") if "notes" in selector else background[scheme]
            assert contrast(colour(page, selector, "color"), behind) >= least, (scheme, selector)
        for verdict in page.evaluate("[...new Set([...document.querySelectorAll('.verdict')].map(v => v.className))]"):
            selector = "." + verdict.replace(" ", ".")
            text, behind = (colour(page, selector, part) for part in ("color", "backgroundColor"))
            assert contrast(text, behind) >= 4.5, (scheme, verdict)
        # A figure's white turns into the colour of its card.
        white = {"light": (255, 255, 255), "dark": (31, 31, 31)}[scheme]
        assert colour(page, "figure[id] .card", "backgroundColor") == white
        filters = page.evaluate("getComputedStyle(document.querySelector('figure[id] img')).filter")
        assert filters == {"light": "none", "dark": "invert(0.88) hue-rotate(180deg)"}[scheme]
    assert luminance(background["light"]) > 0.8
    assert luminance(background["dark"]) < 0.05
    assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('.card')).borderTopLeftRadius)") > 4


def colour(page: Page, selector: str, part: str) -> tuple[int, ...]:
    text = page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{part}")
    found = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", text)
    assert found, f"{selector} has {part} {text}"
    return tuple(int(number) for number in found.groups())


def luminance(rgb: tuple[int, ...]) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    shares = [number / 255 for number in rgb]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    red, green, blue = linear
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: tuple[int, ...], second: tuple[int, ...]) -> float:
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("ci", "ends"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_a_browser_tests_are_skipped_and_in_ci_they_fail(
    ci: str, ends: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ends, match=r"There is no chromium .*make system-packages"), Page.opened(tmp_path):
        pass
