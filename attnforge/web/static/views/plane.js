// Two inputs: the partition coloured by cell, the output, the error and its worst point.

import { numbers, rows } from "../api.js";
import { ORANGE, PALETTE, axis, draw, isDark, panels, place, shown } from "../plots.js";
import { SHARED, parseDomain, sharpnessOf } from "../state.js";

export const plane = {
  id: "plane", title: "Two inputs", job: "plane", group: "plane", kind: "plane",
  controls: ["function", "domain", "construction", "p", "sharpness", "dtype", "tol"],
  constructions: [["max_affine", "max_affine: sampled"], ["tensor_grid", "tensor_grid: fitted"]],
  countName: "Cells or anchors an input", range: [2, 32],
  examples: [["sin(3*x)*cos(2*y)", "x=-1:1, y=-1:1"], ["exp(-3*(x^2 + y^2))", "x=-1:1, y=-1:1"], ["abs(x - y)", "x=-1:1, y=-1:1"], ["sin(8*x*y)", "x=0:1, y=0:1"]],
  defaults: { function: "sin(3*x)*cos(2*y)", domain: "x=-1:1, y=-1:1", construction: "max_affine", p: 8, sharpness: "hard", ...SHARED },
  explanation: `<p><b>Attention divides the domain</b> (after Liu et al. 2025): the score of a key is an affine function, their maximum is a
    max-affine function, and where a key scores highest is its convex cell. A hard head gives every cell one value: an error of at most
    L·h/2 for Lipschitz constant L. Softer heads blend neighbours: of order h² for smooth targets, and with fitted values spectrally accurate.
    The last picture shows the error on a logarithmic scale, with the worst point.</p>`,
  idle: ({ sharpness }) => (sharpness === "tolerance" ? [] : ["tol"]),
  request(params) {
    const { function: text, construction, p, dtype, tol } = params;
    return { function: text, domain: parseDomain(params.domain), construction, p, sharpness: sharpnessOf(params), dtype, tol };
  },
  draw(figure, result) {
    const x = numbers(result.x), y = numbers(result.y), grid = panels(figure, "plane");
    const axes = { xaxis: axis(result.names[0], { range: [x[0], x[x.length - 1]] }), yaxis: axis(result.names[1], { range: [y[0], y[y.length - 1]] }), margin: { l: 50, r: 8, t: 34, b: 44 } };
    const heading = (text) => ({ title: { text, font: { size: 14 }, x: 0.02, y: 0.97 } });
    const colours = rows(result.cells.colour), winners = rows(result.cells.winner);
    const count = 1 + Math.max(...numbers(result.cells.colour)), scale = [];
    for (let i = 0; i < count; i += 1) scale.push([i / count, PALETTE[i % PALETTE.length]], [(i + 1) / count, PALETTE[i % PALETTE.length]]);
    const centres = (list, name, symbol) => ({ x: list.map(([a]) => a), y: list.map(([, b]) => b), mode: "markers", marker: { color: isDark() ? "#fff" : "#000", size: list.length > 200 ? 2 : 4, symbol }, name, hoverinfo: "skip", showlegend: false });
    draw(place(grid, "cells", "middle", "The cells into which the head divides the plane"), [
      { type: "heatmap", x, y, z: colours, customdata: winners, colorscale: scale, zmin: -0.5, zmax: count - 0.5, showscale: false, opacity: 0.75, hovertemplate: "key %{customdata}<extra></extra>" },
      centres(result.centres.inside, "centres", "circle"),
    ], { ...axes, ...heading("partition, by the winning key") });
    const ends = [Math.min(...numbers(result.target)), Math.max(...numbers(result.target))];
    draw(place(grid, "target", "middle", "The target"), [
      { type: "heatmap", x, y, z: rows(result.target), colorscale: "Viridis", zmin: ends[0], zmax: ends[1], colorbar: { thickness: 10 }, hovertemplate: "target %{z:.4g}<extra></extra>" },
    ], { ...axes, ...heading("target") });
    draw(place(grid, "output", "middle", "The output"), [
      { type: "heatmap", x, y, z: rows(result.output), colorscale: "Viridis", zmin: ends[0], zmax: ends[1], colorbar: { thickness: 10 }, hovertemplate: "output %{z:.4g}<extra></extra>" },
    ], { ...axes, ...heading("output") });
    const logs = rows(result.error).map((row) => Array.from(row, (e) => (e > 0 ? Math.log10(e) : null)));
    const top = Math.log10(result.worst.error || 1e-16), bottom = top - 4, decades = [0, 1, 2, 3, 4].map((d) => Math.floor(top) - d);
    const at = result.found?.at?.length === 2 ? result.found : { at: result.worst.at, error: result.worst.error };
    draw(place(grid, "error", "middle", `The error; worst point seen ${at.at.map((v) => shown(v)).join(", ")} with ${shown(at.error)}`), [
      { type: "heatmap", x, y, z: logs, colorscale: "Cividis", zmin: bottom, zmax: top, colorbar: { thickness: 10, tickvals: decades, ticktext: decades.map((d) => `10<sup>${d}</sup>`) }, hovertemplate: "error 10^%{z:.2f}<extra></extra>" },
      { x: [at.at[0]], y: [at.at[1]], mode: "markers", marker: { symbol: "x", size: 11, color: ORANGE, line: { color: "#fff", width: 1.5 } }, showlegend: false, hoverinfo: "skip", cliponaxis: false },
    ], { ...axes, ...heading(`error, worst ${shown(at.error, 3)}`) });
  },
};
