// Heads: a colour each, what each adds to the output, sentinels on the neighbours' anchors, and the borders.

import { numbers, rows } from "../api.js";
import { DASHES, GREEN, GREY, PALETTE, axis, draw, logAxis, place, shown, textColour } from "../plots.js";
import { SHARED, parseDomain } from "../state.js";
import { drawMap, requestOf } from "./line.js";

export const heads = {
  id: "heads", title: "Heads", job: "line", group: "heads", kind: "line",
  controls: ["function", "domain", "p", "heads", "sentinels", "sharpness", "dtype"],
  countName: "Anchors in all heads", range: [4, 256],
  examples: [["clamp(x, -1, 1)", "x=-1.5:1.5"], ["clamp(2*x + 0.3, -1, 2)", "x=-2:2"], ["max(0, x)", "x=-1:1"], ["min(1, 2*x)", "x=-1:2"]],
  defaults: { function: "clamp(x, -1, 1)", domain: "x=-1.5:1.5", p: 24, heads: 4, sentinels: 2, sharpness: "tuned", ...SHARED },
  explanation: `<p><b>H heads share one row of anchors</b> (after Hu et al. 2025): the error is that of H times as many anchors, O(1/(nH)). Each
    head holds a stretch of the row, and beyond its ends <b>sentinels</b> of value zero that sit exactly on the neighbours' anchors: there
    one head's weight fades as the other's grows, and the sum counts every anchor once. With r sentinels a side a border counts
    e<sup>−2c</sup>, e<sup>−4c</sup>/4, e<sup>−8c</sup> too much (r = 1, 2, 3). Dotted lines are the borders. The target must be a truncated
    linear function of one form: clamp, relu, max, min.</p>`,
  request: (params) => requestOf({ ...params, construction: "multihead_truncated_linear" }, { heads: params.heads, sentinels: params.sentinels }),
  draw(figure, result, params) {
    const [name, [low, high]] = Object.entries(parseDomain(params.domain))[0];
    const x = numbers(result.x), parts = result.parts ? rows(result.parts) : [numbers(result.output)];
    const error = Array.from(numbers(result.error), (e) => (e > 0 ? e : null));
    const traces = [
      { x, y: numbers(result.target), name: "target", mode: "lines", line: { color: GREY, width: 5 }, opacity: 0.5 },
      { x, y: numbers(result.output), name: "sum of the heads", mode: "lines", line: { color: textColour(), width: 1.5 } },
    ];
    parts.forEach((part, h) => {
      const colour = PALETTE[h % PALETTE.length];
      traces.push({ x, y: part, yaxis: "y2", name: `head ${h + 1}`, mode: "lines", line: { color: colour, width: 2, dash: DASHES[Math.floor(h / PALETTE.length) % DASHES.length] }, showlegend: parts.length <= 8 });
      for (const [role, symbol] of [["anchor", "circle"], ["sentinel", "x"], ["ghost", "square-open"]]) {
        const at = result.keys[h].x.filter((place, k) => result.keys[h].role[k] === role && place >= low && place <= high);
        traces.push({ x: at, y: at.map(() => -h), yaxis: "y3", mode: "markers", marker: { color: colour, symbol, size: symbol === "x" ? 9 : 7 }, showlegend: false, hovertemplate: `head ${h + 1}, ${role} at %{x:.3g}<extra></extra>` });
      }
    });
    traces.push({ x, y: error, yaxis: "y4", mode: "lines", line: { color: PALETTE[1], width: 1.5 }, showlegend: false });
    const borders = result.keys.slice(1).map((_, h) => {
      const last = Math.max(...result.keys[h].x.filter((at, k) => result.keys[h].role[k] === "anchor"));
      const first = Math.min(...result.keys[h + 1].x.filter((at, k) => result.keys[h + 1].role[k] === "anchor"));
      return { type: "line", x0: (last + first) / 2, x1: (last + first) / 2, yref: "paper", y0: 0, y1: 1, line: { color: GREY, width: 1, dash: "dot" } };
    });
    const most = Math.max(result.bound ?? 0, result.worst.error ?? 0);
    const bound = result.bound ? [{ type: "line", xref: "paper", x0: 0, x1: 1, yref: "y4", y0: result.bound, y1: result.bound, line: { color: GREEN, dash: "dash", width: 1.5 } }] : [];
    draw(place(figure, "heads", "tall", `Output as the sum of ${parts.length} heads; largest error seen ${shown(result.worst.error)}.`), traces, {
      xaxis: axis(name, { anchor: "y4", range: [low, high] }), yaxis: axis("value", { domain: [0.74, 1] }), yaxis2: axis("each head", { domain: [0.44, 0.7] }),
      yaxis3: axis("keys", { domain: [0.24, 0.4], tickvals: parts.map((_, h) => -h), ticktext: parts.map((_, h) => (parts.length <= 8 ? h + 1 : "")) }),
      yaxis4: logAxis("error", { domain: [0, 0.2], range: most > 0 ? [Math.log10(most) - 3, Math.log10(most) + 0.4] : undefined }), shapes: [...borders, ...bound],
    });
    drawMap(figure, result);
  },
};
