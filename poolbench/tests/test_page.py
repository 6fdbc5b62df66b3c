# SPDX-License-Identifier: BSL-1.0
"""The report in a real browser: Debian's Chromium, driven by Playwright, judged by axe-core."""

import os
import re
import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from poolbench.plan import description
from poolbench.report import page as report

pytestmark = pytest.mark.browser

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
DARK = {"color_scheme": "dark"}
# One has a cell that failed.
PARTS = ("create_drop", "e3_pointer_overhead", "e6_fan_out", "e11_aging", "e12_latency")


@pytest.fixture(scope="module")
def browser():
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        pytest.fail("there is no Chromium: tools/setup test installs it")
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses root, which containers are.
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=path, args=arguments)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def short(quick_report, tmp_path_factory):
    """A page with every part that a page can have, and each kind of chart: the third of the whole one."""
    results, _ = quick_report
    shown = results.only({each for each in results.cells() if each.workload in PARTS and each.toolchain == "gcc"})
    path = tmp_path_factory.mktemp("page") / "short.html"
    report.write(path, report.render(shown, description.load()))
    return path


class Visit:
    """A page as opened, with what it said and asked for."""

    def __init__(self, browser, file, **how):
        self.context = browser.new_context(offline=True, **how)
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())

    def unfold(self):
        self.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


@pytest.fixture
def visit(browser, quick_report):
    visits = []

    def go(of=quick_report[1], **how):
        visits.append(Visit(browser, of, **how))
        return visits[-1]

    yield go
    for each in visits:
        each.context.close()


def test_every_chart_is_drawn_without_a_script_or_a_request(visit, quick_report):
    opened = visit(java_script_enabled=False, **DESKTOP)
    drawings = opened.page.locator("figure.chart .drawing > svg")
    assert drawings.count() == opened.page.locator("figure.chart").count() > 15
    assert opened.page.locator("script").count() == 0
    assert drawings.first.bounding_box()["width"] > 300
    assert opened.said == [] and [url for url in opened.asked if not url.startswith("data:")] == [
        quick_report[1].as_uri()
    ]


@pytest.mark.parametrize("how", [DESKTOP, DESKTOP | DARK, PHONE], ids=["light", "dark", "phone"])
def test_axe_finds_nothing(visit, short, how):
    opened = visit(short, **how)
    opened.unfold()
    # What is well is not listed: to describe thousands of elements takes axe minutes.
    found = Axe().run(opened.page, options={"resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()


def test_the_first_screen_has_the_machine_the_three_answers_and_the_picture_begins(visit):
    page = visit(**DESKTOP).page
    assert page.locator("h1").inner_text() == "What pooling gains on Test CPU, 2 cores"
    assert page.locator("h1 + .origin").inner_text().startswith("quick.jsonl: Test CPU, 2 cores; measured 20")
    assert "this machine" not in page.locator("body").inner_text().lower()
    questions = page.locator(".answers h2").all_inner_texts()
    assert questions[0].startswith("Against glibc") and questions[1].startswith("Against the best malloc")
    assert questions[2] == "Where not to use it"
    answers, picture = (page.locator(each).first.bounding_box() for each in (".answers", "#published svg"))
    assert answers["y"] + answers["height"] < 600
    assert picture["y"] + picture["height"] / 2 < DESKTOP["viewport"]["height"]


def test_a_phone_is_not_too_narrow_and_a_table_is_a_list_of_cards(visit):
    page = visit(**PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    cell = page.locator("#summary td").first
    assert cell.evaluate("(each) => getComputedStyle(each, '::before').content") == '"glibc ÷ pooled"'
    widths = page.evaluate("(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(summary.parentElement)")
    assert widths[0] <= widths[1]


def test_nothing_is_cut_off_on_paper_and_what_is_folded_is_not_printed(visit):
    opened = visit(**DESKTOP)
    assert 2 <= len(re.findall(rb"/Type\s*/Page[^s]", opened.page.pdf(format="A4"))) <= 8
    opened.unfold()
    opened.page.emulate_media(media="print")
    opened.page.set_viewport_size({"width": 700, "height": 990})  # A4 within its margins
    right = "[...document.querySelectorAll('.drawing svg, table')].map((each) => each.getBoundingClientRect().right)"
    assert max(opened.page.evaluate(right)) <= 701


def test_the_page_can_be_used_by_keyboard(visit):
    page = visit(**DESKTOP).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for summary in page.locator("#create_drop summary").all():
        summary.focus()
        page.keyboard.press("Enter")
    assert page.locator("#create_drop table").first.is_visible()


def test_a_chart_says_in_words_what_it_shows(visit):
    page = visit(**DESKTOP).page
    names = page.evaluate("[...document.querySelectorAll('.drawing')].map((e) => e.getAttribute('aria-label'))")
    assert all(len(name) > 40 for name in names)
    assert len(set(names)) == len(names)
