# SPDX-License-Identifier: BSL-1.0
"""The report in a real browser: Debian's Chromium, driven by Playwright, judged by axe-core."""

import os
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
# Their charts are dots, lines, figures beside each other, and percentiles; one has families, one a cell that failed.
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
def file(quick_report):
    return quick_report.path


@pytest.fixture(scope="module")
def short(quick_report, tmp_path_factory):
    """A page with every part that a page can have, and each kind of chart: the third of the whole one."""
    shown = quick_report.results.only(
        {each for each in quick_report.results.cells() if each.workload in PARTS and each.toolchain == "gcc"}
    )
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
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        if how.get("java_script_enabled", True):
            self.page.wait_for_function("document.documentElement.dataset.drawnAfter !== undefined")


@pytest.fixture
def visit(browser, file):
    visits = []

    def go(of=file, **how):
        visits.append(Visit(browser, of, **how))
        return visits[-1]

    yield go
    for each in visits:
        each.context.close()


def test_every_chart_is_drawn_without_an_error_or_a_request(visit, file):
    opened = visit(**DESKTOP)
    drawings = opened.page.locator("figure.chart .drawing")
    assert drawings.count() > 15
    opened.page.click("#unfold")
    opened.page.wait_for_function(
        "document.querySelectorAll('.drawing[data-drawn=true]').length === document.querySelectorAll('.drawing').length"
    )
    assert opened.page.locator(".drawing[data-drawn=true] svg .mark-symbol path").count() > 100
    assert opened.page.locator(".drawing[data-drawn=true] svg").count() == drawings.count()
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [file.as_uri()]


def axe(opened, options=None):
    opened.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    # What is well is not listed: to describe thousands of elements takes axe minutes.
    found = Axe().run(opened.page, options={"resultTypes": ["violations"], **(options or {})})
    assert found.violations_count == 0, found.generate_report()


COLOURS = "color-contrast"


# Colours are looked at where each part of a page is found a few times; all other rules on the whole page as well.
@pytest.mark.parametrize("how", [DESKTOP, DESKTOP | DARK], ids=["light", "dark"])
def test_axe_finds_no_colours_that_are_hard_to_read(visit, short, how):
    axe(visit(short, **how), {"runOnly": {"type": "rule", "values": [COLOURS]}})


def test_axe_finds_nothing_else(visit):
    axe(visit(**DESKTOP), {"rules": {COLOURS: {"enabled": False}}})


def test_axe_finds_nothing_else_on_a_phone(visit, short):
    axe(visit(short, **PHONE), {"rules": {COLOURS: {"enabled": False}}})


def test_without_scripts_the_charts_are_still_and_the_tables_hold_the_figures(visit):
    opened = visit(java_script_enabled=False, **DESKTOP)
    figures = opened.page.locator("figure.chart")
    assert figures.count() == opened.page.locator("figure.chart .drawing svg").count()
    assert figures.first.locator("svg").bounding_box()["width"] > 300
    opened.page.locator("#e1_list_churn > details > summary").click()
    details = opened.page.locator("#e1_list_churn details details")
    details.locator("summary").click()
    assert details.locator("td").first.is_visible()
    assert "make_shared" in details.inner_text()


def test_the_first_screen_has_the_three_answers_and_the_picture_begins(visit):
    opened = visit(**DESKTOP)
    questions = opened.page.locator(".answers h2").all_inner_texts()
    assert questions[0].startswith("Against glibc") and questions[1].startswith("Against the best malloc")
    assert questions[2] == "Where not to use it"
    answers, picture = (opened.page.locator(each).first.bounding_box() for each in (".answers", "#chart-picture svg"))
    assert answers["y"] + answers["height"] < 600
    assert picture["y"] + picture["height"] / 2 < DESKTOP["viewport"]["height"]


def test_the_machine_the_date_and_the_load_stand_before_any_figure(visit):
    page = visit(**DESKTOP).page
    assert page.locator("h1").inner_text() == "What pooling gains on Test CPU, 2 cores"
    assert page.locator("h1 + .origin").inner_text().startswith("quick.jsonl: Test CPU, 2 cores; measured 20")
    assert "this machine" not in page.locator("body").inner_text().lower()


def test_the_key_columns_of_the_summary_are_seen_on_a_screen_of_1400_pixels(visit):
    page = visit(viewport={"width": 1400, "height": 900}).page
    heads = page.locator("#summary thead th").all_inner_texts()
    assert heads[:3] == ["work", "glibc ÷ pooled", "best malloc ÷ pooled"]
    table = page.locator("#summary").bounding_box()
    assert table["x"] >= 0 and table["x"] + table["width"] <= 1400
    assert page.locator("#summary tr.use").count() >= 4


def test_the_picture_has_whiskers_labels_and_grey_for_what_is_undecided(visit):
    page = visit(**DESKTOP).page
    picture = page.locator("#chart-picture")
    assert picture.locator(".mark-rule line").count() > 40
    assert "× " in " ".join(picture.locator(".mark-text text").all_text_contents())


def test_sections_are_folded_and_a_link_unfolds_its_own(visit):
    page = visit(**DESKTOP).page
    chart = page.locator("#e5_handoff figure.chart").first
    assert not chart.is_visible()
    page.locator("nav a[href='#e5_handoff']").click()
    page.wait_for_selector("#e5_handoff figure.chart .drawing[data-drawn=true]")
    assert chart.is_visible() and not page.locator("#e8_teardown figure.chart").first.is_visible()


def test_the_filter_shows_only_rows_that_name_every_word(visit):
    page = visit(**DESKTOP).page
    page.fill("#filter", "mimalloc e5")
    assert page.locator("#e5_handoff").is_visible() and not page.locator("#e10_resident").is_visible()
    page.locator("#e5_handoff details details").evaluate("(each) => { each.open = true; }")
    rows = page.locator("#e5_handoff tbody tr:visible").all_inner_texts()
    assert rows and all("mimalloc" in row for row in rows)
    page.fill("#filter", "")
    assert page.locator("#e10_resident").is_visible()


def test_a_table_is_sorted_by_the_column_that_is_pressed(visit):
    page = visit(**DESKTOP).page
    page.locator("#e5_handoff").evaluate(
        "(e) => e.querySelectorAll('details').forEach((each) => { each.open = true; })"
    )
    table = page.locator("#e5_handoff table").first

    def times():
        return [float(each.replace(",", "")) for each in table.locator("td[data-name='ns/op']").all_inner_texts()]

    button = table.locator("th button", has_text="ns/op")
    button.click()
    assert times() == sorted(times())
    button.click()
    assert times() == sorted(times(), reverse=True)
    assert table.locator("th[aria-sort=descending]").count() == 1


def test_a_family_of_contenders_is_one_row_that_unfolds_into_its_members(visit):
    page = visit(**DESKTOP).page
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    table = page.locator("#e3_pointer_overhead table", has_text="std::unique_ptr (2)").first
    member = table.locator("tr", has=page.locator("th", has_text="unique_ptr_new")).first
    assert not member.is_visible()
    button = table.locator("button.family", has_text="std::unique_ptr").first
    button.focus()
    page.keyboard.press("Enter")
    assert member.is_visible() and button.get_attribute("aria-expanded") == "true"
    table.locator("thead button", has_text="ns/op").click()
    heads = table.locator("tbody tr:first-child td[data-name='ns/op']").all_inner_texts()
    least = [float(each.split("…")[0].replace(",", "")) for each in heads]
    assert least == sorted(least)
    assert member.evaluate("(row) => row.parentNode.rows[0].className") == "family"
    page.fill("#filter", "malloc_free")
    assert table.locator("tr:visible th", has_text="malloc_free").count() == 1


def test_without_scripts_every_member_of_a_family_is_shown(visit):
    page = visit(java_script_enabled=False, **DESKTOP).page
    page.locator("#e3_pointer_overhead > details > summary").click()
    page.locator("#e3_pointer_overhead details details summary").click()
    assert page.locator("#e3_pointer_overhead tr:visible th", has_text="unique_ptr_new").count() > 0


def test_a_table_on_a_phone_is_a_list_of_cards(visit):
    page = visit(**PHONE).page
    cell = page.locator("#summary td").first
    assert cell.evaluate("(each) => getComputedStyle(each, '::before').content") == '"glibc ÷ pooled"'
    widths = page.evaluate("(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(summary.parentElement)")
    assert widths[0] <= widths[1]


def test_nothing_is_cut_off_on_paper(visit):
    page = visit(**DESKTOP).page
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.wait_for_timeout(500)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 990})  # A4 within its margins
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    right = "[...document.querySelectorAll('.drawing svg, table')].map((each) => each.getBoundingClientRect().right)"
    assert max(page.evaluate(right)) <= 701


def test_printed_are_a_few_pages_unless_more_is_unfolded(visit):
    import re

    page = visit(**DESKTOP).page
    pages = len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(format="A4")))
    assert 2 <= pages <= 8


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_phone_is_not_too_narrow(visit, scripts):
    opened = visit(java_script_enabled=scripts, **PHONE)
    body = opened.page.locator("body").bounding_box()
    assert body["width"] <= 360
    if scripts:
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
        wide = opened.page.evaluate(
            "[...document.querySelectorAll('figure.chart:not(.wide) .drawing svg')]"
            ".filter((svg) => svg.getBoundingClientRect().width > 345).length"
        )
        assert wide == 0


def test_both_schemes_have_colours_of_their_own(visit):
    def colours(opened):
        get = "(name) => getComputedStyle(document.body)[name]"
        return opened.page.evaluate(get, "color"), opened.page.evaluate(get, "backgroundColor")

    def label(opened):
        return opened.page.evaluate("getComputedStyle(document.querySelector('#chart-picture svg text')).fill")

    light, dark = visit(**DESKTOP), visit(**DESKTOP, **DARK)
    assert colours(light) == ("rgb(31, 35, 40)", "rgb(255, 255, 255)")
    assert colours(dark) == ("rgb(230, 237, 243)", "rgb(13, 17, 23)")
    assert (label(light), label(dark)) == (colours(light)[0], colours(dark)[0])


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
    unreachable = page.evaluate(
        "[...document.querySelectorAll('.scroll')]"
        ".filter((each) => each.scrollWidth > each.clientWidth && each.tabIndex < 0).length"
    )
    assert unreachable == 0


def test_a_chart_says_in_words_what_it_shows(visit):
    page = visit(**DESKTOP).page
    names = page.evaluate("[...document.querySelectorAll('.drawing')].map((e) => e.getAttribute('aria-label'))")
    assert all(len(name) > 40 for name in names)
    assert len(set(names)) == len(names)


def test_a_mark_tells_its_figures_under_the_mouse(visit):
    page = visit(**DESKTOP).page
    page.locator("#chart-picture .mark-symbol.role-mark path").first.hover(force=True)  # marks may overlap
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "95% interval" in page.locator("#vg-tooltip-element").inner_text()


def test_a_chart_that_can_not_be_drawn_leaves_the_still_one(visit, file, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(
        file.read_text().replace('<script type="application/json">{', '<script type="application/json">x', 1)
    )
    opened = visit(broken, **DESKTOP)
    assert opened.page.locator("#chart-picture .drawing[data-drawn=false] svg").count() == 1
    opened.page.locator("#create_drop summary").first.click()
    opened.page.wait_for_selector("#create_drop .drawing[data-drawn=true]")
