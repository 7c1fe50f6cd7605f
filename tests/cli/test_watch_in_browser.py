"""The live page in a real browser: curves, films, log, phone, dark mode, hostile names, and what changes meanwhile."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from reference.browser import Page
from reference.run_folders import made_up_evaluations, made_up_run, made_up_study
from reference.studies import synthetic_study

from hindsight_rl.analysis.animation import animate
from hindsight_rl.analysis.live.views import Watcher
from hindsight_rl.cli.watch_server import make_server

HOSTILE = "<img src=x onerror=window.hostile=1>"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learns, one with bad names, one that is damaged, one that has just begun, and a study."""
    root = tmp_path_factory.mktemp("watched")
    learning = made_up_run(root / "runs" / "learning", made_up_evaluations(50))
    (learning / "policy.gif").write_bytes(animate([("start", "A.G"), ("end", "..*")]))
    failed = [{"run": 0, "seed": 0, "batch": 3, "cause": HOSTILE}]
    bad = made_up_run(root / HOSTILE, made_up_evaluations(), HOSTILE, HOSTILE, summary={"failed_runs": failed})
    (bad / "train.log").write_text(f"\x1b[31m{HOSTILE}\nlast line\n")
    (bad / f"{HOSTILE}.gif").write_bytes(animate([("start", "A.G")]))
    (bad / "page.gif").write_text("<script>window.hostile = 2</script>")
    made_up_run(root / "damaged").joinpath("evaluations.csv").write_text("nonsense")
    made_up_run(root / "begun")
    made_up_study(root / "studies" / "mine", synthetic_study(("four-rooms",), ("hpg", "gcpg"), (2,), runs=3))
    return root


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    server, found = make_server(Watcher(folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with Page.opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page, address: str) -> Page:
    browser.resize(1280)
    browser.prefer("light")
    browser.events.clear()
    browser.visit(address)
    wait(browser, "document.querySelectorAll('article').length === 5")
    return browser


def wait(page: Page, condition: str) -> None:
    end = time.monotonic() + PATIENCE
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


def card(name: str) -> str:
    return f"[...document.querySelectorAll('article')].find(one => one.querySelector('h2').textContent === {name!r})"


def open_details(page: Page, name: str) -> None:
    page.evaluate(f"{card(name)}.querySelector('button').click()")
    wait(page, f"{card(name)}.querySelector('pre').textContent !== ''")


def test_runs_and_studies_have_states_and_curves_with_intervals(page: Page) -> None:
    states = "Object.fromEntries([...document.querySelectorAll('article')].map(one => "
    states += "[one.querySelector('h2').textContent, one.querySelector('.state').textContent]))"
    assert page.evaluate(states) == {
        "runs/learning": "stopped",
        HOSTILE: "finished",
        "damaged": "damaged",
        "begun": "stopped",
        "studies/mine": "finished",
    }
    assert page.evaluate(f"{card('runs/learning')}.querySelectorAll('polyline, polygon').length") == 2
    assert "50 of 100 batches" in page.evaluate(f"{card('runs/learning')}.textContent")
    assert page.evaluate(f"{card('studies/mine')}.querySelectorAll('polyline').length") == 2
    assert "is damaged" in page.evaluate(f"{card('damaged')}.textContent")


def test_details_show_metrics_film_and_log(page: Page) -> None:
    open_details(page, "runs/learning")
    titles = page.evaluate(f"[...{card('runs/learning')}.querySelectorAll('.chart h3')].map(one => one.textContent)")
    assert titles == ["average return", "success rate", "entropy"]
    wait(page, f"{card('runs/learning')}.querySelector('.films img').naturalWidth > 0")
    log = page.evaluate(f"{card('runs/learning')}.querySelector('pre').textContent")
    assert log.splitlines()[0].startswith("batch 50: return 2.7")


def test_hostile_names_stay_text_and_nothing_is_complained_of(page: Page, address: str) -> None:
    open_details(page, HOSTILE)
    log = page.evaluate(f"{card(HOSTILE)}.querySelector('pre').textContent")
    assert HOSTILE in log
    assert "last line" in log
    assert "\x1b" not in log
    wait(page, f"[...{card(HOSTILE)}.querySelectorAll('.films img')].some(one => one.naturalWidth > 0)")
    captions = page.evaluate(f"[...{card(HOSTILE)}.querySelectorAll('figcaption')].map(one => one.textContent)")
    assert sum(caption.startswith(f"{HOSTILE}.gif, ") for caption in captions) == 1
    assert page.evaluate("typeof window.hostile") == "undefined"
    assert page.complaints() == []
    assert all(one.startswith(address) for one in page.requests())


def test_policy_forbids_other_scripts_and_places(page: Page) -> None:
    blocked = """new Promise(done => {
        const directives = [];
        addEventListener("securitypolicyviolation", event => {
            directives.push(event.effectiveDirective);
            if (directives.length === 3) done(directives.sort());
        });
        document.body.append(Object.assign(new Image(), { src: "https://example.org/a.png" }));
        document.body.append(Object.assign(document.createElement("script"), { textContent: "window.hostile = 3" }));
        fetch("https://example.org/").catch(() => 0);
    })"""
    assert page.evaluate(blocked) == ["connect-src", "img-src", "script-src-elem"]
    assert page.evaluate("typeof window.hostile") == "undefined"


def test_page_changes_as_a_run_learns(page: Page, folder: Path) -> None:
    (folder / "begun" / "evaluations.csv").write_text(made_up_evaluations(20).to_csv())
    wait(page, f"{card('begun')}.querySelectorAll('polyline').length === 1")
    assert "20 of 100 batches" in page.evaluate(f"{card('begun')}.textContent")


def test_filter_and_axis(page: Page) -> None:
    page.evaluate("(box => { box.value = 'study'; box.dispatchEvent(new Event('input')); })(filter)")
    assert page.evaluate("[...document.querySelectorAll('h2')].map(one => one.textContent)") == ["studies/mine"]
    page.evaluate("(box => { box.value = ''; box.dispatchEvent(new Event('input')); })(filter)")
    last = f"[...{card('runs/learning')}.querySelectorAll('text')].at(-1).textContent"
    assert page.evaluate(last) == "40"
    page.evaluate("(box => { box.value = 'episodes'; box.dispatchEvent(new Event('change')); })(over)")
    assert page.evaluate(last) == "400"


def test_phone_and_dark_mode(page: Page) -> None:
    page.resize(360)
    open_details(page, "studies/mine")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    fits = "[...document.querySelectorAll('svg, .legend li, .films img')].every(one => "
    assert page.evaluate(fits + "one.getBoundingClientRect().right <= 360)")
    grounds = []
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        grounds.append(page.evaluate("getComputedStyle(document.querySelector('article')).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(28, 32, 37)"]


def test_why_nothing_new_is_shown_is_said(page: Page) -> None:
    status = "document.getElementById('status').textContent"
    refusal = "{ ok: false, text: async () => 'This cannot be shown (<b>X</b>).\\n' }"
    page.evaluate(f"window.fetch = async () => ({refusal})")
    wait(page, f"{status} === 'This cannot be shown (<b>X</b>). What is below was read before.'")
    page.evaluate("window.fetch = async () => { throw new TypeError('gone') }")
    wait(page, f"{status}.startsWith('hindsight watch does not answer: ')")
