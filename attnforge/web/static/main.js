// The page: which view, what it asks for, and what becomes of the answers.

import { Latest, Refusal, exported } from "./api.js";
import { showCertificate, showFacts } from "./certificate.js";
import { Controls } from "./controls.js";
import { bytesOf, pictured, save } from "./files.js";
import { element } from "./plots.js";
import { fromAddress, fromRequest, toAddress } from "./state.js";
import { diagnosis } from "./views/diagnosis.js";
import { graph } from "./views/graph.js";
import { heads } from "./views/heads.js";
import { incontext } from "./views/incontext.js";
import { line } from "./views/line.js";
import { plane } from "./views/plane.js";
import { programs } from "./views/programs.js";
import { temperature } from "./views/temperature.js";

const VIEWS = [line, heads, plane, temperature, incontext, graph, programs, diagnosis];
const PAUSE = 350; // milliseconds of rest before a proof is asked for
const byId = (id) => document.getElementById(id);

const picture = new Latest(), proof = new Latest(), comparison = new Latest(), file = new Latest();
const kept = new Map(); // parameters of views that were left, by group
let view, params, result = null, certificateText = null, proving = null, started = 0;

const controls = new Controls((name, value, settled) => {
  change(name, value);
  controls.update(params);
  refresh();
  if (settled) remember();
});

function change(name, value) {
  if (name === "switch") {
    const [construction, sharpness] = { hard: ["max_affine", "hard"], tuned: ["max_affine", "tuned"], fitted: ["tensor_grid", "tolerance"] }[value];
    params = { ...params, construction, sharpness };
  } else if (name === "example") {
    const [text, domain] = view.examples[value];
    params = { ...params, function: text, domain };
  } else if (view.change?.[name]) {
    params = view.change[name](params, value);
  } else {
    params = { ...params, [name]: value };
  }
}

export function set(changes, settled = true) {
  params = { ...params, ...changes };
  controls.update(params);
  refresh();
  if (settled) remember();
}

function remember() {
  const address = toAddress(view.id, params, view.defaults);
  if (address !== location.search && !exported()) history.pushState(null, "", address);
}

function show(next, values) {
  if (view) kept.set(view.group, params);
  const isNew = view !== next, known = (next.constructions ?? []).map(([name]) => name);
  if (known.length && !known.includes(values.construction)) values = { ...values, construction: next.defaults.construction };
  [view, params] = [next, values];
  result = null;
  for (const link of byId("tabs").querySelectorAll("a")) {
    if (link.dataset.view === view.id) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    if (link.dataset.view === view.id) byId("tabs").scrollLeft = link.offsetLeft - byId("tabs").clientWidth / 3; // on a phone
  }
  byId("view-title").textContent = view.title;
  byId("explanation").innerHTML = view.explanation; // our own words, no user's
  document.title = `${view.title} · attnforge explorer`;
  if (isNew) byId("figure").replaceChildren();
  for (const name of ["weights", "certificate"]) document.querySelector(`[data-download=${name}]`).hidden = !view.kind || Boolean(exported());
  for (const name of ["svg", "png"]) document.querySelector(`[data-download=${name}]`).hidden = view.isTable === true;
  byId("certificate").hidden = view.hasCertificate === false;
  controls.show(view, params);
  controls.tellComparison(null);
  refresh();
}

async function refresh() {
  clearTimeout(proving);
  proof.cancel();
  if (view.isLong) picture.cancel();
  let request;
  try {
    request = view.request(params);
  } catch (error) {
    fail(error);
    return;
  }
  const asked = view;
  let found;
  started = performance.now();
  busy("computing");
  try {
    found = await picture.ask(view.job, request, { onProgress: (fraction, text) => busy(text, fraction) });
    if (found === null || asked !== view) return;
    result = found;
    if (found.asked) { params = fromRequest(params, found.asked); controls.update(params); }
    fail(null);
    busy("");
    await draw();
  } catch (error) {
    if (asked === view) { busy(""); fail(error); }
    return;
  }
  if (found !== result) return; // another view or change came while this one was drawn, and asks for itself
  if (view.kind && !view.isProved) prove();
  if (view.hasComparison) compare();
}

async function draw() {
  byId("figure").classList.remove("old");
  await view.draw(byId("figure"), result, params, set);
  if (result.facts) showFacts(result.facts);
  controls.tellSharpness(params, result.facts?.sharpness ?? result.named?.[params.sharpness]);
  byId("python").textContent = result.python ?? "";
  byId("python").hidden = !result.python;
  byId("facts").closest(".card").hidden = !result.facts;
  document.querySelector("[data-download=python]").hidden = !result.python;
  if (result.certificate) showCertificate(result.certificate);
  byId("figure").dataset.milliseconds = Math.round(performance.now() - started);
}

function prove() {
  clearTimeout(proving); // of a change that was drawn since the last one was asked for
  showCertificate(null);
  certificateText = null;
  proving = setTimeout(async () => {
    const request = { of: { kind: view.kind, ...view.request(params) } }, of = result;
    busy("proving");
    try {
      const found = await proof.ask("certificate", request, { onProgress: (fraction, text) => busy(text, fraction) });
      if (found === null || of !== result) return;
      certificateText = found.json;
      showCertificate(found.certificate);
      result.bound = found.certificate.bound;
      result.found = found.certificate.estimate;
      busy("");
      await view.draw(byId("figure"), result, params, set);
    } catch (error) {
      busy("");
      fail(error);
    }
  }, exported() ? 0 : PAUSE);
}

async function compare() {
  const { function: text, domain, p, dtype, tol } = view.request(params);
  const found = await comparison.ask("comparison", { function: text, domain, p, dtype, tol }).catch(() => undefined);
  if (found !== null) controls.tellComparison(found);
}

let showing = null;
function busy(text, fraction = null) {
  clearTimeout(showing);
  const tell = () => {
    byId("busy-text").textContent = text && `${text} …`;
    byId("busy-bar").hidden = !text || fraction === null;
    byId("busy-bar").value = fraction ?? 0;
    byId("cancel").hidden = !text;
  };
  if (!text) tell(); else showing = setTimeout(tell, 250); // what is quick needs no words
  if (!text) byId("busy-text").textContent = "";
}

function fail(error) {
  const points = error instanceof Refusal && error.column !== null;
  controls.pointAt(params.function ?? "", points ? error : null);
  byId("problem").hidden = !error || points;
  byId("problem").textContent = error && !points ? error.message : "";
  byId("figure").classList.toggle("old", Boolean(error));
}

async function download(kind) {
  if (kind === "svg" || kind === "png") {
    for (const spot of byId("figure").querySelectorAll(".plot.js-plotly-plot")) {
      await globalThis.Plotly.downloadImage(spot, { format: kind, filename: `attnforge-${view.id}-${spot.dataset.plot}`, scale: 2, width: spot.clientWidth, height: spot.clientHeight });
    }
    for (const drawing of byId("figure").querySelectorAll("svg.drawing")) save(`attnforge-${view.id}.${kind}`, await pictured(drawing, kind));
  } else if (kind === "python") {
    await navigator.clipboard.writeText(result?.python ?? "");
    busy("");
    byId("busy-text").textContent = "copied";
  } else if (kind === "certificate") {
    const text = certificateText ?? (await made("certificate"))?.json;
    if (text) save(`attnforge-${view.id}-certificate.json`, new Blob([text], { type: "application/json" }));
  } else {
    const found = await made("download");
    if (found) save(found.name, new Blob([bytesOf(found.data)], { type: "application/octet-stream" }));
  }
}

// What the server makes of the view's network for a file; null where that was cancelled.
async function made(job) {
  busy("proving and packing");
  const request = { of: { kind: view.kind, ...view.request(params) } };
  const found = await file.ask(job, request, { onProgress: (fraction, text) => busy(text, fraction) });
  if (found) busy("");
  return found;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (result) draw();
}

function go(next) {
  show(next, { ...next.defaults, ...(kept.get(next.group) ?? {}) });
  remember();
}

for (const each of VIEWS) {
  const link = element("a", { href: `?view=${each.id}`, "data-view": each.id }, each.title);
  link.addEventListener("click", (event) => { event.preventDefault(); go(each); });
  byId("tabs").append(element("li", {}, link));
}
byId("cancel").addEventListener("click", () => { for (const each of [picture, proof, file]) each.cancel(); busy(""); byId("busy-text").textContent = "cancelled"; });
byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
for (const button of document.querySelectorAll("[data-download]")) {
  button.addEventListener("click", () => download(button.dataset.download).catch((error) => { busy(""); fail(error); }));
}
const preference = matchMedia("(prefers-color-scheme: dark)");
preference.addEventListener("change", () => setTheme(preference.matches ? "dark" : "light"));
setTheme(preference.matches ? "dark" : "light");

byId("why").open = !matchMedia("(max-width: 48rem)").matches; // on a phone the figure comes first
if (exported()) for (const id of ["function", "examples", "domain", "dtype", "tol", "tokens", "new-data", "rate", "alpha"]) byId(id).disabled = true;

function read() {
  const found = fromAddress(exported() ? "" : location.search, VIEWS);
  show(found.view, found.params);
}
addEventListener("popstate", read);
if (globalThis.Plotly) read(); else addEventListener("load", read);
