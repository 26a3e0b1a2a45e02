// In context: examples that one can drag, the line or boundary after every block, and the drift from exact descent.

import { BLUE, GREEN, ORANGE, axis, decades, draw, element, logAxis, outputColour, panels, place, shown } from "../plots.js";

const SIZE = 420, MARGIN = 34, REACH = 1.5; // the drawing, and the square [-REACH, REACH]² that it shows
const STEP = 0.05; // by which an arrow key moves an example

const toPixel = (v, isY) => MARGIN + ((isY ? REACH - v : v + REACH) / (2 * REACH)) * (SIZE - 2 * MARGIN);
const toValue = (pixel, isY) => (isY ? -1 : 1) * (((pixel - MARGIN) / (SIZE - 2 * MARGIN)) * 2 * REACH - REACH);
const clamp = (v) => Math.max(-REACH, Math.min(REACH, Math.round(v * 1000) / 1000));

function drawn(isLogistic, seed) {
  let state = seed;
  const random = () => { state = (1664525 * state + 1013904223) % 4294967296; return state / 4294967296; };
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const slope = 1.6 * random() - 0.8, shift = 0.6 * random() - 0.3;
  return Array.from({ length: isLogistic ? 24 : 12 }, (_, i) => {
    if (isLogistic) return [clamp(0.4 * normal() + (i % 2 ? 0.5 : -0.5)), clamp(0.4 * normal() + (i % 2 ? slope : -slope)), i % 2];
    const x = 2 * random() - 1;
    return [clamp(x), clamp(slope * x + shift + 0.15 * normal())];
  });
}

export const incontext = {
  id: "incontext", title: "In context", job: "in_context", group: "incontext",
  controls: ["algorithm", "steps", "rate", "alpha", "data"],
  defaults: { algorithm: "LeastSquares", steps: 20, rate: 0.5, alpha: 0.1, points: drawn(false, 7), seed: 7 },
  explanation: `<p><b>Frozen attention that learns from its prompt.</b> The weights are fixed; the examples are tokens. Every block of softmax heads
    is one step of gradient or proximal descent: with a barely sharp query, a head over examples and their mirror images returns
    (1/n) Σ (w·x<sub>i</sub> − y<sub>i</sub>) x<sub>i</sub>, the least-squares gradient, and a softmax over two keys is the logistic function exactly. Drag the examples (or move one
    with the arrow keys). Lines fade from the first block to the last; on the right, how far attention is from exact descent after every block, below what is
    proved for this prompt. A step size beyond two over the curvature diverges, and says so.</p>`,
  change: {
    algorithm(params, value) {
      const isLogistic = value === "Logistic", was = params.algorithm === "Logistic";
      return { ...params, algorithm: value, rate: isLogistic ? 2 : 0.5, points: isLogistic === was ? params.points : drawn(isLogistic, params.seed) };
    },
    data(params) {
      const seed = (params.seed * 48271) % 65521;
      return { ...params, seed, points: drawn(params.algorithm === "Logistic", seed) };
    },
  },
  idle: ({ algorithm }) => (["LeastSquares", "Huber"].includes(algorithm) ? ["alpha"] : []),
  request(params) {
    const isLogistic = params.algorithm === "Logistic";
    return {
      algorithm: params.algorithm, steps: params.steps, learning_rate: params.rate, alpha: params.alpha,
      x: params.points.map((point) => (isLogistic ? [point[0], point[1]] : [point[0]])), y: params.points.map((point) => point[isLogistic ? 2 : 1]),
    };
  },
  draw(figure, result, params, set) {
    const grid = panels(figure, "incontext");
    drawExamples(grid, result, params, set);
    drawDrift(grid, result);
  },
};

function drawExamples(grid, result, params, set) {
  const isLogistic = params.algorithm === "Logistic";
  let spot = grid.querySelector("svg.drawing");
  if (!spot) {
    spot = element("svg", { class: "drawing", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", "aria-label": "Examples and fits" });
    spot.append(element("g", { class: "frame" }), element("g", { class: "fits" }), element("g", { class: "points" }));
    grid.prepend(spot);
    spot.querySelector(".frame").append(...frame());
  }
  spot.querySelector(".fits").replaceChildren(...result.weights.flatMap((w, t) => fit(w, isLogistic, (t + 1) / result.weights.length)));
  const points = spot.querySelector(".points"), focused = [...points.children].indexOf(document.activeElement);
  if (points.dragging) return;
  points.replaceChildren(...params.points.map((point, i) => handle(spot, points, point, i, isLogistic, params, set)));
  points.children[focused]?.focus();
}

function frame() {
  const ticks = [-1, -0.5, 0, 0.5, 1];
  return [
    element("rect", { x: MARGIN, y: MARGIN, width: SIZE - 2 * MARGIN, height: SIZE - 2 * MARGIN, fill: "none", stroke: "currentColor", opacity: 0.4 }),
    ...ticks.flatMap((t) => [
      element("text", { x: toPixel(t, false), y: SIZE - 12, "text-anchor": "middle" }, String(t)),
      element("text", { x: MARGIN - 6, y: toPixel(t, true) + 4, "text-anchor": "end" }, String(t)),
    ]),
    element("text", { x: toPixel(1.4, false), y: SIZE - 12, "text-anchor": "middle" }, "x"),
    element("text", { x: MARGIN - 6, y: toPixel(1.4, true) + 4, "text-anchor": "end" }, "y"),
  ];
}

// y = a x + b, or the boundary a x + b y + c = 0, cut off at the frame.
function fit(w, isLogistic, age) {
  if (w.some((v) => v === null || Math.abs(v) > 1e6)) return [];
  const [a, b, c] = isLogistic ? w : [w[0], -1, w[1]];
  const ends = cut(a, b, c);
  if (!ends) return [];
  const [[x1, y1], [x2, y2]] = ends, isLast = age === 1;
  const look = { stroke: isLast ? outputColour() : BLUE, "stroke-width": isLast ? 3 : 1.2, opacity: isLast ? 1 : 0.08 + 0.35 * age };
  return [element("line", { x1: toPixel(x1), y1: toPixel(y1, true), x2: toPixel(x2), y2: toPixel(y2, true), ...look })];
}

function cut(a, b, c) {
  const found = [];
  for (const side of [-REACH, REACH]) {
    if (b !== 0) { const y = -(a * side + c) / b; if (Math.abs(y) <= REACH) found.push([side, y]); }
    if (a !== 0) { const x = -(b * side + c) / a; if (Math.abs(x) < REACH) found.push([x, side]); }
  }
  return found.length >= 2 ? [found[0], found[1]] : null;
}

function handle(spot, points, point, i, isLogistic, params, set) {
  const look = isLogistic ? (point[2] ? { fill: ORANGE } : { fill: GREEN }) : { fill: ORANGE };
  const made = element("circle", { class: "handle", cx: toPixel(point[0]), cy: toPixel(point[1], true), r: isLogistic && point[2] ? 8 : 7, tabindex: 0, role: "button", ...look });
  const name = () => `example ${i + 1}: ${shown(point[0])}, ${shown(point[1])}${isLogistic ? `, class ${point[2]}` : ""}. Arrow keys move it.`;
  made.setAttribute("aria-label", name());
  const moved = (x, y, settled) => {
    point = [clamp(x), clamp(y), ...point.slice(2)];
    made.setAttribute("cx", toPixel(point[0]));
    made.setAttribute("cy", toPixel(point[1], true));
    made.setAttribute("aria-label", name());
    params = { ...params, points: params.points.map((each, k) => (k === i ? point : each)) };
    set({ points: params.points }, settled);
  };
  made.addEventListener("pointerdown", (event) => {
    points.dragging = true;
    made.setPointerCapture(event.pointerId);
    const follow = (at) => {
      const box = spot.getBoundingClientRect();
      moved(toValue(((at.clientX - box.left) / box.width) * SIZE, false), toValue(((at.clientY - box.top) / box.height) * SIZE, true), false);
    };
    made.addEventListener("pointermove", follow);
    made.addEventListener("pointerup", (at) => {
      made.removeEventListener("pointermove", follow);
      points.dragging = false;
      moved(point[0], point[1], true);
    }, { once: true });
  });
  made.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] }[event.key];
    if (!step) return;
    event.preventDefault();
    moved(point[0] + step[0], point[1] + step[1], true);
  });
  return made;
}

function drawDrift(grid, result) {
  const blocks = result.drift.map((_, t) => t + 1);
  const moves = result.weights.map((w, t) => (w.includes(null) ? null : Math.max(...w.map((v, k) => Math.abs(v - (t ? result.weights[t - 1][k] : 0))))));
  const positive = (list) => list.map((v) => (v > 0 ? v : null));
  const bound = result.certificate.bound;
  const shapes = bound ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: bound, y1: bound, line: { color: GREEN, dash: "dash", width: 1.5 } }] : [];
  const notes = bound ? [{ xref: "paper", x: 0.98, xanchor: "right", y: Math.log10(bound), yanchor: "bottom", text: "proved for this prompt", showarrow: false, font: { color: GREEN } }] : [];
  draw(place(grid, "drift", "middle", `Drift from exact descent after every block; at the end ${shown(result.drift[result.drift.length - 1])}.`), [
    { x: blocks, y: positive(result.drift), name: "attention − exact descent", mode: "lines+markers", line: { color: ORANGE }, marker: { size: 4 } },
    { x: blocks, y: positive(moves), name: "what the block changes", mode: "lines", line: { color: outputColour(), dash: "dash" } },
  ], { xaxis: axis("block"), yaxis: logAxis("largest difference of a weight", { range: decades(result.drift, moves, [bound]) }), shapes, annotations: notes });
}
