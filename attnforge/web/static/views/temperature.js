// Temperature: the largest error against the sharpness c, in every dtype.

import { DASHES, GREY, PALETTE, axis, draw, isDark, logAxis, place, shown } from "../plots.js";
import { CONSTRUCTIONS, line, requestOf } from "./line.js";

const MARKS = ["circle", "square", "diamond", "triangle-up"];

export const temperature = {
  ...line, id: "temperature", title: "Temperature", job: "temperature", isLong: true,
  constructions: CONSTRUCTIONS.slice(0, 3), // one head whose sharpness is chosen
  explanation: `<p><b>The unit that matters is c = βh²</b>, sharpness times the squared step. Below 6/p² a head averages all it holds
    (<b>uniform</b>). Where weights overlap, between about 0.25 and 3, it is <b>tuned</b>: a clamp is best at c = 2.7, where the error is
    0.063 h, eight times below the staircase; fitted values like it softer still, until their fit is ill-conditioned. Beyond, <b>steps</b>
    appear, and from c = ln(1/u) on nothing changes any more (<b>hard</b>). Crosses mark where rounding of the scores makes another key win
    than the nearest: <b>lost argmax</b>, or scores that overflow.</p>`,
  request: (params) => requestOf({ ...params, sharpness: "tuned", dtype: "float64" }),
  draw(figure, result, params) {
    const errors = Object.values(result.curves).flatMap(({ error }) => error.filter((e) => e > 0));
    const low = Math.min(...errors), high = Math.max(...errors);
    const firstLost = Object.values(result.curves).findIndex(({ lost }) => lost.includes(true));
    const traces = Object.entries(result.curves).flatMap(([dtype, curve], i) => {
      const lost = result.c.map((c, k) => [c, curve.error[k] ?? high]).filter((_, k) => curve.lost[k]);
      return [
        { x: result.c, y: curve.error, name: dtype, mode: "lines+markers", line: { color: PALETTE[i], dash: DASHES[i], width: dtype === params.dtype ? 3.5 : 1.8 }, marker: { symbol: MARKS[i], size: 6 } },
        { x: lost.map(([c]) => c), y: lost.map(([, e]) => e), mode: "markers", name: "lost argmax", marker: { symbol: "x-thin", size: 12, line: { width: 2, color: PALETTE[i] } }, showlegend: i === firstLost, hovertemplate: "c = %{x:.3g}: the argmax is lost<extra></extra>" },
      ];
    });
    const first = result.c[0], last = result.c[result.c.length - 1];
    const seen = result.regimes.filter(({ from, to }) => to > first && from < last)
      .map((regime) => ({ ...regime, from: Math.max(regime.from, first), to: Math.min(regime.to, last) }));
    const shade = isDark() ? "rgba(255,255,255,0.07)" : "rgba(0,0,0,0.05)";
    const bands = seen.filter((_, i) => i % 2 === 0).map(({ from, to }) => ({ type: "rect", x0: from, x1: to, yref: "paper", y0: 0, y1: 1, fillcolor: shade, line: { width: 0 }, layer: "below" }));
    const names = seen.map(({ name, from, to }) => ({ x: (Math.log10(from) + Math.log10(to)) / 2, y: 1, yref: "paper", yanchor: "top", text: name, showarrow: false }));
    const here = Number.isFinite(+params.sharpness) ? +params.sharpness : result.named[params.sharpness];
    const marker = here && here >= first && here <= last
      ? [{ type: "line", x0: here, x1: here, yref: "paper", y0: 0, y1: 0.93, line: { color: GREY, dash: "dot", width: 2 } }] : [];
    const best = result.c[result.curves.float64.error.reduce((at, e, k, all) => (e !== null && (all[at] === null || e < all[at]) ? k : at), 0)];
    draw(place(figure, "temperature", "tall", `Largest error against sharpness in four dtypes; smallest in float64 at c = ${shown(best)}.`), traces, {
      xaxis: axis("sharpness c = βh²", { type: "log", dtick: 1, range: [Math.log10(first) - 0.05, Math.log10(last) + 0.05] }), yaxis: logAxis("largest error", { range: [Math.log10(low) - 0.15, Math.log10(high) + 0.35] }),
      shapes: [...bands, ...marker], annotations: names,
    });
  },
};
