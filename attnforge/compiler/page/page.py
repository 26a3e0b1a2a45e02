"""The page, section by section: what it is, how far it is proved, what it looks like, what it costs, how to use it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attnforge.compiler.diagnosing import diagnose
from attnforge.compiler.measuring import measure
from attnforge.compiler.page.checking import checking, is_stored
from attnforge.compiler.page.cost import costs
from attnforge.compiler.page.figures import pictures
from attnforge.compiler.page.look import RULES
from attnforge.compiler.report import facts
from attnforge.display import Fact
from attnforge.display.markup import Markup, Part, document, element, joined, stylesheet
from attnforge.errors import AttnforgeError

if TYPE_CHECKING:
    from attnforge.certification import Certificate
    from attnforge.compiler.compiled import Compiled

POINTS = 20_000  # random points of the search for the worst one
LONGEST = 120  # characters of a title
MEANINGS = {
    "proved": "The bound holds at every point of the domain. Every part was evaluated with outward rounding, "
    "from the weights and the target alone.",
    "conditional": "The bound holds at every point of the domain if the assumptions below hold. "
    "They were stated by whoever built this network, or could not be proved.",
    "sampled": "There is no bound. Errors were only measured at single points; between them they may be larger.",
}

AGAIN = "This is the certificate as stored; `attnforge certify` proves it again."
STORED = "This is the certificate as stored. The function is not in the file: to prove it again, hand that in."
REFUTED = "The error found exceeds the bound: the certificate is wrong."


def page(
    compiled: Compiled, *, file: str = "model.safetensors", timing: bool = False, points: int = POINTS, seed: int = 0
) -> str:
    """One HTML page about a compiled target that needs no other file and asks nothing of the network.

    Figures are images inside it. All text of the target, of names and of claims is shown as it is, never as markup.
    Two calls give the same page, unless ``timing`` is asked for.

    Args:
        compiled: what it is about.
        file: the name under which the commands on the page load it.
        timing: measure the time an evaluation takes.
        points: random points of the search for the largest error.
        seed: of these points.
    """
    name = " ".join(compiled.target.describe().split())
    title = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} – attnforge"),
        stylesheet(RULES),
    )
    body = element(
        "body",
        element(
            "header", element("p", "attnforge: a function as softmax attention", class_="kind"), element("h1", title)
        ),
        element("main", *_sections(compiled, file, timing, points, seed)),
    )
    return document(element("html", head, body, lang="en"))


def _sections(compiled: Compiled, file: str, timing: bool, points: int, seed: int) -> list[Markup]:
    if compiled.target.layout == "prompt":
        return _sections_of_examples(compiled, file)
    return [
        _section("What it is", _table(_described(compiled))),
        _section("How close it is", *_certificate(compiled), _measured(compiled, points, seed)),
        _section("What it looks like", *pictures(compiled)),
        *_diagnosis(compiled, seed),
        _section("What it costs", _table(costs(compiled, timing=timing))),
        _section("How to load it", *_loading(compiled, file)),
        _section("How to check it", *checking(compiled, file)),
        _section("Its layers", element("pre", str(compiled.network))),
    ]


def _sections_of_examples(compiled: Compiled, file: str) -> list[Markup]:
    """Of a network that runs an algorithm on its prompt: there is no point of a box to measure or draw."""
    lines = ["import attnforge as af", "", f"net = af.load({file!r})"]
    call, exact = compiled.target.call, compiled.target.exact
    lines += [f"{call}  # for examples X (..., n, d) and y (..., n)"]
    lines += [f"{call.replace('net', 'net.certify')}  # how far that is from the {exact}, on these examples"]
    certificate: Certificate | None = compiled.certificate
    stated = [element("p", compiled.reason)] if certificate is None else _certificate(compiled)
    shell = f"attnforge certify {shlex.quote(file)} --check"
    return [
        _section("What it is", _table(_described(compiled))),
        _section("How close it is", *stated),
        _section(
            "How to load and check it", *(element("pre", element("code", text)) for text in ("\n".join(lines), shell))
        ),
        _section("Its layers", element("pre", str(compiled.network))),
    ]


def _section(name: str, *parts: Part) -> Markup:
    return element("section", element("h2", name), *parts)


def _table(lines: Mapping[str, Fact]) -> Markup:
    told = {
        label: value if isinstance(value, str) else element("pre", "\n".join(value)) for label, value in lines.items()
    }
    rows = [element("tr", element("th", label, scope="row"), element("td", value)) for label, value in told.items()]
    return element("table", *rows)


def _described(compiled: Compiled) -> dict[str, Fact]:
    """The facts of the report, but for those that have a section of their own."""
    elsewhere = ("certificate", "parts", "measured", "assuming", "parameters", "digest")
    return {label: value for label, value in facts(compiled).items() if label not in elsewhere}


def _certificate(compiled: Compiled) -> list[Markup]:
    certificate = compiled.certificate
    status = element("span", certificate.status, class_=f"status {certificate.status}")
    if certificate.bound is None:
        statement: Part = "no bound is known."
    else:
        distance = "|net(x) − f(x)|" if certificate.norm == "sup" else f"the {certificate.norm} error"
        statement = element("strong", f"{distance} ≤ {certificate.bound:.4g} on the whole domain, in {compiled.dtype}.")
    parts: list[Markup] = [element("p", status, " ", statement), element("p", MEANINGS[certificate.status])]
    if certificate.bound is not None:
        parts.append(element("p", AGAIN if is_stored(compiled.target) else STORED, class_="note"))
    if certificate.parts and certificate.bound:
        parts.append(_parts(certificate))
    if certificate.assumptions:
        assumed = [element("li", assumption) for assumption in certificate.assumptions]
        parts.append(joined(element("p", "Assumed:"), element("ul", *assumed)))
    return parts


def _parts(certificate: Certificate) -> Markup:
    """The parts of the bound, with a bar for each."""
    bound = certificate.bound or 1.0
    rows = [
        element(
            "tr",
            element("th", name, scope="row"),
            element("td", f"{value:.3g}", class_="number"),
            element("td", element("span", class_="bar", style=f"width:{100 * value / bound:.2f}%"), class_="bars"),
        )
        for name, value in certificate.parts.items()
    ]
    names = element("tr", element("th", "part of the bound"), element("th", "size"), element("th", "share"))
    return element("table", element("thead", names), element("tbody", *rows), class_="parts")


def _measured(compiled: Compiled, points: int, seed: int) -> Markup:
    """The largest error found now and the one stored, beside the bound."""
    lines, certificate, refuted = {}, compiled.certificate, False
    try:
        measured = measure(compiled, points=points, seed=seed)
        place = ", ".join(f"{value:.6g}" for value in measured.at.ravel()[:8]) + ", …" * (measured.at.size > 8)
        lines["largest error found"] = f"{measured.sup:.4g} at ({place}), of {measured.points:,} evaluations"
        lines["root mean square"] = f"{measured.rms:.4g}"
        if certificate.bound and certificate.norm == "sup":
            lines["share of the bound"] = f"{100 * measured.sup / certificate.bound:.1f} %"
        refuted = certificate.bound is not None and certificate.norm == "sup" and not measured.sup <= certificate.bound
    except AttnforgeError as error:
        lines["not measured here"] = str(error)
    if certificate.estimate is not None:
        what = "largest error" if certificate.norm == "sup" else f"{certificate.norm} error, by quadrature,"
        lines["found when it was built"] = f"{what} {certificate.estimate.error:.4g}"
    note = "A measured error is a lower bound of the true one: it can refute a certificate, never replace it."
    warning = [element("p", element("strong", REFUTED, class_="sampled"))] if refuted else []
    return joined(element("h3", "Measured"), *warning, _table(lines), element("p", note, class_="note"))


def _diagnosis(compiled: Compiled, seed: int) -> list[Markup]:
    """What is wrong with it, if anything; nothing where it cannot be looked at."""
    try:
        diagnosis = str(diagnose(compiled, seed=seed))
    except AttnforgeError:
        return []
    return [_section("What may be wrong with it", element("pre", diagnosis))]


def _loading(compiled: Compiled, file: str) -> list[Markup]:
    lines = [
        "import attnforge as af",
        "",
        f"net = af.load({file!r})",
        _call(compiled),
        "module = net.module()  # torch",
    ]
    shell = f"attnforge inspect {shlex.quote(file)}"
    return [
        element("pre", element("code", "\n".join(lines))),
        element("pre", element("code", shell)),
        element("p", "SHA-256 of the network: ", element("code", compiled.certificate.digest, class_="digest")),
    ]


def _call(compiled: Compiled) -> str:
    """How it is called, with the shapes of its inputs."""
    network = compiled.network
    if network.context is not None:
        return "net(X, Y)"
    if compiled.target.layout == "tokens":
        return f"net(x)  # x of shape (..., {network.tokens or 'n'}, {network.features})"
    names = compiled.target.names
    named = f", or net({', '.join(f'{name}=...' for name in names)})" if names and len(names) <= 6 else ""
    return f"net(x)  # x of shape (..., {network.features}){named}"
