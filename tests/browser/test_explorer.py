"""The explorer in a real browser: what is typed and dragged changes the numbers as the Python interface says."""

from pathlib import Path

import pytest

import attnforge as af

VIEWS = ("line", "heads", "plane", "temperature", "incontext", "graph", "programs", "diagnosis")
AXE = (Path(__file__).parent / "vendor/axe.min.js").read_text("utf-8")
D = {"x": (-1, 1)}


def bound(net: af.Compiled) -> str:
    """The certificate's statement, as the page shows it."""
    return net.certificate.statement()


# Labels that leave their plot, and plots that leave their place.
CLIPPED = """() => [...document.querySelectorAll('.js-plotly-plot')].flatMap((plot) => {
            const box = plot.getBoundingClientRect(), drawn = plot.querySelector('.main-svg').getBoundingClientRect();
            const fits = Math.abs(drawn.width - box.width) <= 1 && Math.abs(drawn.height - box.height) <= 1;
            if (!fits) return [plot.dataset.plot];
            const labels = plot.querySelectorAll('.xtitle, .ytitle, .xtick text, .ytick text, .legendtext');
            return [...labels].filter((text) => {
                const own = text.getBoundingClientRect(), slack = 1;
                const beside = own.left < box.left - slack || own.right > box.right + slack;
                return own.width && (beside || own.bottom > box.bottom + slack);
            }).map((text) => text.textContent);
        })"""


# Sizes and colours change from one frame to the next; plots follow, and have the size of their places then.
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
FITTING = """() => [...document.querySelectorAll('.plot')].every(({ layout, clientWidth, clientHeight }) =>
    !layout || !clientWidth || (layout.width === clientWidth && layout.height === clientHeight))"""


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible_and_fits(explorer, view: str) -> None:
    page = explorer.page
    page.emulate_media(reduced_motion="reduce")  # colours in the middle of a change are no colours to judge
    explorer.open(f"?view={view}")
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 420), ("dark", 420)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(FRAMES)
        page.wait_for_function(FITTING)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        assert page.evaluate(CLIPPED) == []
        page.evaluate(AXE)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        serious = [
            (each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], (scheme, width)


def test_typing_a_function_changes_picture_and_certificate(explorer) -> None:
    page = explorer.page
    explorer.open()
    net = af.constructions.max_affine("cos(5*x)", D, cells=33)
    page.fill("#function", "cos(5*x)")
    page.press("#function", "Enter")
    explorer.proved(bound(net))
    assert "max_affine('cos(5*x)'" in page.inner_text("#python")


def test_every_control_does_what_the_library_does(explorer) -> None:
    page = explorer.page
    explorer.open()
    explorer.slide("p", 20)
    net = af.constructions.max_affine("sin(8*x)", D, cells=20)
    explorer.fact("keys", net.anchors)
    explorer.proved(bound(net))
    explorer.slide("sharpness", 0.3)  # c = 2.0, of steps of a tenth
    explorer.proved(bound(af.constructions.max_affine("sin(8*x)", D, cells=20, sharpness=2.0 / 0.1**2)))
    page.select_option("#dtype", "float32")
    explorer.proved(
        bound(af.constructions.max_affine("sin(8*x)", D, cells=20, sharpness=2.0 / 0.1**2, dtype="float32"))
    )
    page.select_option("#dtype", "float64")
    page.check("input[name=switch][value=fitted]", force=True)
    explorer.fact("construction", "tensor_grid")
    explorer.slide("tol", -9)
    c = af.anchors.saturation.sharpness_for(1e-9)
    explorer.proved(bound(af.constructions.tensor_grid("sin(8*x)", D, anchors=20, sharpness=c / (2 / 19) ** 2)))
    page.fill("#domain", "x=0:1")
    page.press("#domain", "Enter")
    explorer.proved(bound(af.constructions.tensor_grid("sin(8*x)", {"x": (0, 1)}, anchors=20, sharpness=c * 19**2)))
    page.select_option("#construction", "compile")
    explorer.proved(bound(af.compile("sin(8*x)", {"x": (0, 1)}, tol=1e-9)))


def test_controls_of_heads_and_two_inputs_do_what_the_library_does(explorer) -> None:
    page = explorer.page
    explorer.open("?view=heads")
    explorer.slide("heads", 3)
    explorer.slide("sentinels", 1)
    box = af.Box(-1.5, 1.5, shape=(1,))
    clamp = af.constructions.multihead_truncated_linear
    explorer.proved(bound(clamp([1.0], 0.0, -1.0, 1.0, tokens=10, heads=3, sentinels=1, domain=box)))
    page.click("#tabs a[data-view=plane]")
    explorer.slide("p", 5)
    square = {"x": (-1, 1), "y": (-1, 1)}
    explorer.proved(bound(af.constructions.max_affine("sin(3*x)*cos(2*y)", square, cells=5, sharpness="hard")))
    page.click("[data-regime=tuned]")
    explorer.proved(bound(af.constructions.max_affine("sin(3*x)*cos(2*y)", square, cells=5)))


def test_what_has_no_effect_is_not_offered(explorer) -> None:
    page = explorer.page
    explorer.open("?view=line&function=max(0,x)&construction=gate")
    assert page.is_hidden("#p")
    assert page.is_hidden("#sharpness")
    page.click("#tabs a[data-view=temperature]")  # which is swept in rows of anchors, and has no gate
    explorer.holds("#construction", "max_affine")
    assert page.is_visible("#p")


def test_the_switch_shows_orders_of_magnitude(explorer) -> None:
    explorer.open()
    explorer.page.wait_for_function("() => document.querySelector('#error-fitted').innerText.trim() !== ''")
    hard, tuned, fitted = (float(explorer.page.inner_text(f"#error-{name}")) for name in ("hard", "tuned", "fitted"))
    assert hard > 2 * tuned > 1000 * fitted


def test_the_address_holds_the_state_and_back_undoes(explorer) -> None:
    page = explorer.page
    explorer.open("?view=line&function=cos(x)&p=12&sharpness=hard")
    explorer.fact("keys", 12)
    assert page.input_value("#function") == "cos(x)"
    explorer.slide("p", 40)
    explorer.fact("keys", 40)
    assert "p=40" in page.url
    page.reload()
    explorer.fact("keys", 40)
    page.go_back()
    explorer.fact("keys", 12)
    assert page.input_value("#p") == "12"
    page.go_forward()
    explorer.fact("keys", 40)


def test_errors_point_at_the_column(explorer) -> None:
    page = explorer.page
    explorer.open()
    page.fill("#function", "x + foo(x)")
    page.press("#function", "Enter")
    page.wait_for_selector("#function-error:not([hidden])")
    lines = page.inner_text("#function-error").splitlines()
    assert lines[1].index("^") == lines[0].index("foo")
    assert "not a function" in lines[2]
    assert page.get_attribute("#function", "aria-invalid") == "true"
    page.fill("#function", "x^2")
    page.press("#function", "Enter")
    page.wait_for_selector("#function-error", state="hidden")
    page.fill("#domain", "x from 0 to 1")
    page.press("#domain", "Enter")
    page.wait_for_selector("#problem:not([hidden])")
    assert "x=-1:1" in page.inner_text("#problem")


def test_downloads(explorer, tmp_path: Path) -> None:
    explorer.open("?view=line&construction=tensor_grid&sharpness=0.5&p=17")
    net = af.constructions.tensor_grid("sin(8*x)", D, anchors=17, sharpness=0.5 * 8**2)
    explorer.proved(bound(net))
    files = {}
    for kind, ending in (
        ("weights", ".safetensors"),
        ("certificate", ".json"),
        ("svg", "-map.svg"),
        ("png", "-map.png"),
    ):
        files[kind] = explorer.downloaded(kind, ending, tmp_path)
    loaded = af.load(files["weights"])
    assert loaded.certificate.digest == net.certificate.digest
    assert af.Certificate.from_json(files["certificate"].read_text()).bound == net.certificate.bound
    assert files["svg"].read_text().startswith("<svg")
    assert files["png"].read_bytes().startswith(b"\x89PNG")


def test_drawings_are_downloaded_like_plots(explorer, tmp_path: Path) -> None:
    explorer.open("?view=incontext")
    assert explorer.downloaded("png", "-incontext.png", tmp_path).read_bytes().startswith(b"\x89PNG")
    text = explorer.downloaded("svg", "-incontext.svg", tmp_path).read_text()
    assert "rgb(213, 94, 0)" in text  # the examples keep their colour


def test_light_and_dark(explorer) -> None:
    page = explorer.page
    page.emulate_media(color_scheme="dark")
    explorer.open()
    back = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(back) == "rgb(23, 24, 26)"
    page.click("#theme")
    assert page.evaluate(back) == "rgb(255, 255, 255)"


def test_the_keyboard_reaches_and_moves_everything(explorer) -> None:
    page = explorer.page
    explorer.open("?view=line&p=20")
    page.focus("#p")
    page.keyboard.press("ArrowRight")
    explorer.fact("keys", af.constructions.max_affine("sin(8*x)", D, cells=21).anchors)
    page.focus("#cursor")
    before = page.inner_text(".cursor output")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".cursor output") != before
    page.focus("#tabs a[data-view=programs]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".map")


def test_the_cursor_shows_the_weights_of_an_input(explorer) -> None:
    page = explorer.page
    explorer.open()
    before = page.inner_text(".cursor output")
    area = page.locator("[data-plot=map] .nsewdrag")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.5 * box["height"])
    page.wait_for_function("text => document.querySelector('.cursor output').innerText !== text", arg=before)


def test_examples_are_dragged_and_fits_follow(explorer) -> None:
    page = explorer.page
    explorer.open("?view=incontext")
    before = page.inner_text("#python")
    box = page.locator(".handle").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 40, box["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_function("text => document.querySelector('#python').innerText !== text", arg=before)
    assert "points=" in page.url
    page.locator(".handle").nth(2).focus()
    moved = page.get_attribute(".handle >> nth=2", "aria-label")
    page.keyboard.press("ArrowUp")
    assert page.get_attribute(".handle >> nth=2", "aria-label") != moved
    page.select_option("#algorithm", "Logistic")
    page.wait_for_function("() => document.querySelectorAll('.handle').length === 24")
    assert "proved" in page.inner_text("#certificate-body")


def test_a_node_of_the_graph_shows_its_head(explorer) -> None:
    page = explorer.page
    explorer.open("?view=graph")
    page.click(".node >> text=r5")
    page.wait_for_function("() => document.querySelector('[data-plot=attention]').innerText.includes('r5')")
    assert "node=r" in page.url


def test_programs_run_on_edited_tokens(explorer) -> None:
    page = explorer.page
    explorer.open("?view=programs")
    page.fill("#tokens", "d c b a")
    page.press("#tokens", "Enter")
    page.wait_for_function(
        "() => document.querySelector('[data-panels=trace] tbody tr:last-child').innerText.includes('a\\tb\\tc\\td')"
    )
    explorer.slide("layer", 1)
    page.wait_for_function("() => document.querySelectorAll('.map').length === 2")
    page.fill("#tokens", "zebra")
    page.press("#tokens", "Enter")
    page.wait_for_selector("#problem:not([hidden])")


@pytest.mark.parametrize(
    ("fault", "signature"),
    [
        ("missing ghosts", "boundary artefact"),
        ("too soft", "uniform attention"),
        ("float16", "lost argmax"),
        ("none", "healthy"),
    ],
)
def test_faults_have_signatures(explorer, fault: str, signature: str) -> None:
    page = explorer.page
    explorer.open("?view=diagnosis")
    page.check(f"input[name=fault][value='{fault}']")
    page.wait_for_function("text => document.querySelector('.finding').innerText.includes(text)", arg=signature)


def test_long_work_shows_progress_and_can_be_cancelled(explorer) -> None:
    page = explorer.page
    page.goto(explorer.address + "?view=temperature&p=512&construction=tensor_grid")
    page.wait_for_selector("#busy-bar:not([hidden])")
    page.click("#cancel")
    assert "cancelled" in page.inner_text("#busy-text")
    explorer.slide("p", 9)
    explorer.drawn()


def test_an_exported_page_needs_no_server(page, tmp_path: Path) -> None:
    from attnforge.web.export import page as written
    from attnforge.web.index import INDEX
    from attnforge.web.jobs import ANSWERS

    answers = []
    for p in (9, 21):
        request = {"function": "cos(3*x)", "domain": D, "construction": "max_affine", "p": p, "sharpness": "tuned"}
        for job, asked in (("line", request), ("certificate", {"of": {"kind": "line", **request}})):
            answers.append([job, asked, ANSWERS[job](INDEX[job].request.model_validate(asked), lambda *_: None)])
    place = tmp_path / "page.html"
    place.write_text(written(answers), "utf-8")
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(place.as_uri())
    page.wait_for_selector("#figure[data-milliseconds]")
    page.fill("#p", "19")
    page.dispatch_event("#p", "change")
    page.wait_for_function("() => document.querySelector('#p-value').innerText === '21'")
    net = af.constructions.max_affine("cos(3*x)", D, cells=21)
    page.wait_for_function(
        "text => document.querySelector('#certificate-body').innerText.includes(text)", arg=net.certificate.statement()
    )
    assert page.input_value("#function") == "cos(3*x)"
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
