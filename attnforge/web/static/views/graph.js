// A formula as a graph of registers: click a node and see its head.

import { numbers, rows } from "../api.js";
import { GREEN, ORANGE, axis, decades, draw, element, logAxis, panels, place, shown } from "../plots.js";
import { SHARED, parseDomain } from "../state.js";

const WIDE = 190, HIGH = 62, ACROSS = 70, DOWN = 16; // of a node, and the room between nodes

export const graph = {
  id: "graph", title: "Formula graph", job: "graph", group: "graph", kind: "graph", isLong: true, isProved: true,
  controls: ["function", "domain", "tol", "dtype"],
  examples: [
    ["exp(-x^2)*sin(y) + x*y", "x=-1:1, y=-1:1"], ["m/sqrt(1 - v^2/c^2)", "m=1:5, v=1:2, c=3:10"], ["exp(-(t/s)^2/2)/(sqrt(2*pi)*s)", "t=1:3, s=1:3"],
    ["g*m1*m2/((x1-x2)^2 + (y1-y2)^2)", "g=1:2, m1=1:2, m2=1:2, x1=3:4, x2=1:2, y1=3:4, y2=1:2"], ["x/(y + z)", "x=0:1, y=1:2, z=0:1"],
  ],
  defaults: { function: "exp(-x^2)*sin(y) + x*y", domain: "x=-1:1, y=-1:1", ...SHARED, node: "" },
  explanation: `<p><b>One head a node</b> (ours). Sums and scalings are linear maps and cost nothing; every other node of a formula is one small head that writes a
    <b>register</b>: a fitted row for a function of one form, a multiplier of five to nine keys for a product, two keys for v·exp(l). Keys grow with the
    logarithm of 1/tolerance and not with the number of inputs. Errors are proved head by head, on ranges widened by the errors before them, and carried to the output by
    interval derivatives: a node's <b>share</b> is its part of the bound. Choose a node to see whom its head attends to and how far its register is from exact.</p>`,
  request: ({ function: text, domain, dtype, tol }) => ({ function: text, domain: parseDomain(domain), dtype, tol }),
  draw(figure, result, params, set) {
    const chosen = result.nodes.find((node) => node.name === params.node && node.head) ?? result.nodes.find((node) => node.head);
    drawGraph(figure, result, chosen, set);
    drawHead(figure, chosen);
  },
};

const named = (formula, nodes) => formula.replace(/r\[(\d+)\]/g, (text) => {
  const node = nodes.find((each) => each.name === text);
  return node && node.layer === 0 ? node.formula : text.replace("r[", "r").replace("]", "");
});

function drawGraph(figure, result, chosen, set) {
  const layers = [...new Set(result.nodes.map((node) => node.layer))].sort((a, b) => a - b);
  const columns = layers.map((layer) => result.nodes.filter((node) => node.layer === layer));
  const tallest = Math.max(...columns.map((column) => column.length));
  const width = columns.length * (WIDE + ACROSS) - ACROSS + 20, height = tallest * (HIGH + DOWN) + 30;
  const places = new Map();
  columns.forEach((column, i) => column.forEach((node, k) => {
    places.set(node.name, [10 + i * (WIDE + ACROSS), 24 + (k + (tallest - column.length) / 2) * (HIGH + DOWN)]);
  }));
  const spot = element("svg", { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Formula graph", style: `min-width:${Math.min(width, 640)}px;max-width:${width * 1.3}px` });
  layers.forEach((layer, i) => spot.append(element("text", { x: 10 + i * (WIDE + ACROSS), y: 14 }, layer === 0 ? "inputs" : `layer ${layer}`)));
  for (const [from, to] of result.edges) {
    const [x1, y1] = places.get(from), [x2, y2] = places.get(to), start = x1 + WIDE, middle = (start + x2) / 2;
    spot.append(element("path", { class: "edge", d: `M${start} ${y1 + HIGH / 2} C${middle} ${y1 + HIGH / 2} ${middle} ${y2 + HIGH / 2} ${x2} ${y2 + HIGH / 2}` }));
  }
  for (const node of result.nodes) spot.append(box(node, places.get(node.name), node === chosen, result.nodes, set));
  const holder = panels(figure, "graph");
  holder.className = "scroll";
  const focused = document.activeElement?.closest?.(".node")?.dataset.name;
  holder.replaceChildren(spot);
  if (focused) holder.querySelector(`[data-name="${focused}"]`)?.focus();
}

function box(node, [x, y], isChosen, nodes, set) {
  const short = (text, count) => (text.length > count ? `${text.slice(0, count - 1)}…` : text);
  const formula = named(node.formula, nodes), isInput = node.layer === 0;
  const lines = isInput ? [node.formula, "input"] : [`${node.name.replace(/[[\]]/g, "")} = ${short(formula, 19)}`, `${node.keys} keys, in [${shown(node.bound?.lower)}, ${shown(node.bound?.upper)}]`, `± ${shown(node.bound?.error)}, share ${Math.round(100 * (node.bound?.share ?? 0))} %`];
  const made = element("g", { class: "node", "data-name": node.name }, element("rect", { x, y, width: WIDE, height: HIGH, rx: 7 }), element("title", {}, formula));
  lines.forEach((line, k) => made.append(element("text", { x: x + 9, y: y + 18 + 17 * k, style: k === 0 ? "font-weight:600" : "font-size:11.5px" }, `${short(line, k === 0 ? 26 : 32)} `)));
  if (node.bound) made.append(element("rect", { x, y: y + HIGH - 4, width: Math.max(2, WIDE * Math.min(1, node.bound.share)), height: 4, style: `fill:${ORANGE};stroke:none` }));
  if (!isInput) {
    made.setAttribute("tabindex", 0);
    made.setAttribute("role", "button");
    made.setAttribute("aria-pressed", String(isChosen));
    made.setAttribute("aria-label", lines.join(" ")); // the text that is seen, word by word, for those who speak to it
    const choose = () => set({ node: node.name });
    made.addEventListener("click", choose);
    made.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } });
  }
  return made;
}

function drawHead(figure, node) {
  const values = numbers(node.values), error = numbers(node.error), table = rows(node.head.weights);
  const middle = table.map((row) => row.reduce((sum, weight, k) => sum + k * weight, 0)); // where a point looks on average
  const order = Array.from(middle.keys()).sort((a, b) => middle[a] - middle[b]);
  const keys = table[0].length, z = Array.from({ length: keys }, (_, k) => order.map((i) => table[i][k]));
  const grid = panels(figure, "head"), name = node.name.replace(/[[\]]/g, "");
  const largest = Math.max(...z.map((row) => Math.max(...row)));
  draw(place(grid, "attention", "middle", `Attention of the head that writes ${name}`), [
    { type: "heatmap", z, colorscale: "Viridis", zmin: 0, zmax: largest >= 0.5 ? 1 : largest, colorbar: { thickness: 10, title: { text: "weight" } }, customdata: node.head.roles.length ? node.head.roles.map((role) => order.map(() => role)) : undefined, hovertemplate: "key %{y} %{customdata}<br>weight %{z:.3g}<extra></extra>" },
  ], { xaxis: axis("random points, by where they look", { showticklabels: false }), yaxis: axis("key", { dtick: keys <= 12 ? 1 : undefined }), title: { text: `the head of ${name}`, font: { size: 14 }, x: 0.02 }, margin: { l: 56, r: 8, t: 34, b: 44 } });
  const bound = node.bound?.error;
  const shapes = bound ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: bound, y1: bound, line: { color: GREEN, dash: "dash", width: 1.5 } }] : [];
  draw(place(grid, "register", "middle", `Error of register ${name}`), [
    { x: values, y: Array.from(error, (e) => (e > 0 ? e : null)), mode: "markers", marker: { color: ORANGE, size: 5 }, name: "register − exact value" },
  ], { xaxis: axis(`value of ${name}`), yaxis: logAxis("error", { range: decades(error, [bound]) }), shapes, title: { text: "dashed: what its own head may add, proved", font: { size: 13 }, x: 0.02 }, margin: { l: 64, r: 8, t: 34, b: 44 } });
}
