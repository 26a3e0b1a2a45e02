// One input: target, output, anchors as stems; error; attention map; weights of the input under the cursor.

import { numbers, rows } from "../api.js";
import { GREEN, GREY, ORANGE, PURPLE, axis, draw, element, logAxis, outputColour, panels, place, shown } from "../plots.js";
import { SHARED, parseDomain, sharpnessOf } from "../state.js";

export const CONSTRUCTIONS = [
  ["max_affine", "max_affine: sampled"], ["tensor_grid", "tensor_grid: fitted"],
  ["truncated_linear", "truncated_linear"], ["multihead_truncated_linear", "several heads"],
  ["gate", "gate: three keys"], ["compile", "compile chooses"],
];

export const ONE_INPUT = [
  ["sin(8*x)", "x=-1:1"], ["sin(8*x) + abs(x)", "x=-1:1"], ["clamp(2*x, -1, 1)", "x=-1:1"], ["exp(-8*x^2)*cos(20*x)", "x=-1:1"],
  ["1/(1 + 25*x^2)", "x=-1:1"], ["tanh(20*x)", "x=-1:1"], ["sqrt(x)", "x=0:1"], ["max(0, x - 0.3)", "x=-1:1"],
];

export function requestOf(params, further = {}) {
  return {
    function: params.function, domain: parseDomain(params.domain), construction: params.construction, p: params.p,
    sharpness: sharpnessOf(params), dtype: params.dtype, tol: params.tol, ...further,
  };
}

export const line = {
  id: "line", title: "One input", job: "line", group: "one", kind: "line",
  controls: ["function", "domain", "switch", "construction", "p", "sharpness", "dtype", "tol"],
  constructions: CONSTRUCTIONS, examples: ONE_INPUT, range: [2, 512], hasComparison: true,
  defaults: { function: "sin(8*x)", domain: "x=-1:1", construction: "max_affine", p: 33, sharpness: "tuned", ...SHARED },
  explanation: `<p><b>One softmax head.</b> Every anchor is a key with a value; an input attends to the anchors near it, with Gaussian
    weights of standard deviation 1/√(2c) steps, and the output is the weighted mean of their values. <b>Hard</b> (c ≫ 10) is the papers'
    selection: a staircase, of order 1/p (after Hu et al. 2025 and Liu et al. 2025). <b>Tuned</b> lets neighbours overlap just enough.
    <b>Fitted</b> chooses the values by least squares instead of sampling them: the same head, the same keys, and an error many orders
    of magnitude smaller, until saturation e<sup>−π²/c</sup> (ours, after Maz'ya and Schmidt).</p>`,
  idle: ({ construction, sharpness }) => ({ gate: ["p", "sharpness", "tol"], compile: ["p", "sharpness"] }[construction] ?? (sharpness === "tolerance" ? [] : ["tol"])),
  request: (params) => requestOf(params),
  draw(figure, result, params) {
    drawCurves(figure, result, params);
    drawMap(figure, result);
  },
};

export function drawCurves(figure, result, params, further = []) {
  const [name, [low, high]] = Object.entries(parseDomain(params.domain))[0];
  const x = numbers(result.x), target = numbers(result.target), output = numbers(result.output), error = numbers(result.error);
  const bottom = Math.min(...target), top = Math.max(...target), room = 0.25 * (top - bottom || 1);
  const traces = [
    { x, y: target, name: "target", mode: "lines", line: { color: GREY, width: 5 }, opacity: 0.5, hoverinfo: "skip" },
    ...stems(result.keys, Math.min(0, bottom - room), low, high, params),
    { x, y: output, name: "attention output", mode: "lines", line: { color: outputColour(), width: 2 } },
    ...further,
    { x, y: positive(error), name: "error", mode: "lines", yaxis: "y2", line: { color: ORANGE, width: 1.5 }, showlegend: false },
  ];
  if (result.worst.error) {
    traces.push({ x: [result.worst.at], y: [result.worst.error], yaxis: "y2", mode: "markers", marker: { color: ORANGE, size: 9, symbol: "diamond" }, name: "worst seen", showlegend: false });
  }
  const reach = 0.06 * (high - low);
  const shapes = result.bound ? [{ type: "line", xref: "paper", x0: 0, x1: 1, yref: "y2", y0: result.bound, y1: result.bound, line: { color: GREEN, dash: "dash", width: 1.5 } }] : [];
  const spot = place(figure, "curves", "middle", `Target and output of ${params.function}; below, the error. Largest error seen ${shown(result.worst.error)}.`);
  draw(spot, traces, {
    xaxis: axis(name, { range: [low - reach, high + reach], anchor: "y2" }),
    yaxis: axis("value", { range: [bottom - room, top + room], domain: [0.42, 1] }),
    yaxis2: logAxis("error", { domain: [0, 0.34], range: errorRange(error, result.bound) }), shapes,
  });
  follow(spot, figure);
}

// From a little above the largest error or bound down by so many decades: the depths between two anchors say nothing.
const DECADES = 4;
function errorRange(error, bound) {
  const most = Math.max(bound ?? 0, ...error.filter(Number.isFinite));
  return most > 0 ? [Math.log10(most) - DECADES, Math.log10(most) + 0.4] : [-17, -12];
}

// Zero has no logarithm: an exact point is left out.
const positive = (values) => Array.from(values, (v) => (v > 0 ? v : null));

function stems(keys, base, low, high, params) {
  const roles = new Map();
  keys.forEach(({ x, value, role }) => x.forEach((at, k) => {
    const kind = role[k] === "ghost" ? "ghost" : role[k] === "sentinel" ? "sentinel" : "anchor";
    if (!roles.has(kind)) roles.set(kind, { x: [], y: [], lines: [], heights: [] });
    const held = roles.get(kind);
    held.x.push(at); held.y.push(value[k]);
    held.lines.push(at, at, null); held.heights.push(base, value[k], null);
  }));
  const looks = { anchor: [ORANGE, "circle"], ghost: [GREEN, "square-open"], sentinel: [PURPLE, "x"] };
  return [...roles].flatMap(([kind, held]) => [
    { x: held.lines, y: held.heights, mode: "lines", line: { color: looks[kind][0], width: held.x.length > 80 ? 0.4 : 1 }, opacity: 0.5, hoverinfo: "skip", showlegend: false },
    { x: held.x, y: held.y, mode: "markers", name: `${kind}s (${held.x.length})`, marker: { color: looks[kind][0], symbol: looks[kind][1], size: held.x.length > 80 ? 3 : 6 } },
  ]);
}

export function drawMap(figure, result) {
  const x = numbers(result.map.x), table = rows(result.map.weights), keys = table[0].length;
  const turned = Array.from({ length: keys }, (_, k) => Float32Array.from(table, (row) => row[k]));
  const largest = table.reduce((most, row) => Math.max(most, Math.max(...row)), 0);
  const grid = panels(figure, "map");
  const spot = place(grid, "map", "middle", "Attention map: query along x, key along y.");
  const shapes = result.map.starts.slice(1).map((start) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: start - 0.5, y1: start - 0.5, line: { color: "#ffffff", width: 1 } }));
  draw(spot, [{
    type: "heatmap", x, z: turned, colorscale: "Viridis", zmin: 0, zmax: largest >= 0.5 ? 1 : largest, colorbar: { title: { text: "weight" }, thickness: 12 },
    hovertemplate: "x = %{x:.3g}<br>key %{y}<br>weight %{z:.3g}<extra></extra>",
  }], { xaxis: axis("query x"), yaxis: axis("key"), shapes, margin: { l: 56, r: 8, t: 28, b: 44 }, title: { text: "attention", font: { size: 14 }, x: 0.02 } });
  const side = panels(grid, "cursor");
  side.className = "";
  cursorOf(side, x, table, result.map.labels);
  figure.dataset.first = x[0];
  figure.dataset.last = x[x.length - 1];
  follow(spot, figure);
}

// The weights of one input: chosen by pointing at a plot, or by a slider, which the keyboard moves too.
function cursorOf(side, x, table, labels) {
  let slider = side.querySelector("input");
  if (!slider) {
    const told = element("output", { for: "cursor" });
    slider = element("input", { id: "cursor", type: "range", min: 0, step: 1, "aria-label": "Input whose weights are shown" });
    const label = element("label", { for: "cursor" }, "weights at ");
    side.append(element("div", { class: "cursor" }, label, told, slider));
    slider.addEventListener("input", () => side.redraw());
  }
  slider.max = x.length - 1;
  if (!side.dataset.ready) { slider.value = Math.floor(0.62 * x.length); side.dataset.ready = "yes"; }
  side.redraw = () => {
    const at = +slider.value, row = Array.from(table[at]);
    side.querySelector("output").textContent = `x = ${shown(x[at], 3)}`;
    const first = row.findIndex((w) => w > 1e-4), last = row.length - 1 - [...row].reverse().findIndex((w) => w > 1e-4);
    const from = Math.max(0, first - 2), to = Math.min(row.length, last + 3);
    const names = labels.slice(from, to).map((text, k) => text || `key ${from + k}`);
    draw(place(side, "weights", "low", "Attention weights of the input chosen"), [{
      type: "bar", x: names.map((_, k) => from + k), y: row.slice(from, to), marker: { color: outputColour() }, text: names, textposition: "none",
      hovertemplate: "%{text}<br>weight %{y:.3g}<extra></extra>",
    }], { xaxis: axis("key"), yaxis: axis("weight", { rangemode: "tozero" }), margin: { l: 56, r: 8, t: 8, b: 44 } });
  };
  side.redraw();
}

function follow(spot, figure) {
  spot.removeAllListeners?.("plotly_hover");
  spot.on("plotly_hover", (event) => {
    const side = figure.querySelector('[data-panels="cursor"]'), slider = side?.querySelector("input");
    const at = event.points?.[0]?.x, first = +figure.dataset.first, last = +figure.dataset.last;
    if (!slider || !Number.isFinite(at)) return;
    slider.value = Math.round(((at - first) / (last - first)) * +slider.max);
    side.redraw();
  });
}
