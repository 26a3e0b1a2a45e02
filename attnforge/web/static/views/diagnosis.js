// Diagnosis: switch a fault on, and see its signature.

import { numbers } from "../api.js";
import { GREEN, ORANGE, axis, decades, draw, element, logAxis, panels, place, shown } from "../plots.js";
import { SHARED, parseDomain } from "../state.js";
import { CONSTRUCTIONS, ONE_INPUT, drawMap, requestOf } from "./line.js";

const CLAMP = "clamp(2*x, -1, 1)";

export const diagnosis = {
  id: "diagnosis", title: "Diagnosis", job: "diagnosis", group: "diagnosis", isLong: true, hasCertificate: false,
  controls: ["fault", "function", "domain", "construction", "p", "sharpness"],
  constructions: CONSTRUCTIONS.slice(0, 4), examples: ONE_INPUT, range: [4, 512],
  defaults: { function: "sin(8*x)", domain: "x=-1:1", construction: "tensor_grid", p: 33, sharpness: "0.5", fault: "missing ghosts", ...SHARED },
  explanation: `<p><b>Softmax heads fail in few ways</b>, and each leaves a trace: attention that is nearly <b>uniform</b> (sharpness too low); errors that pile up at the
    <b>ends</b> of the domain (ghosts that are missing) or at <b>borders</b> between heads (a sentinel that is not where the neighbour's anchor is); a
    <b>staircase</b> where none was wanted, or the reverse; scores that <b>overflow</b> or round to another winner (a dtype too small for so many keys).
    <code>af.diagnose</code> names them with the evidence, also for other people's attention. It proves nothing; the certificate does.</p>`,
  change: {
    fault(params, value) {
      const sentinels = value === "shifted sentinel";
      if (sentinels) return { ...params, fault: value, function: CLAMP, domain: "x=-1:1", construction: "multihead_truncated_linear", sharpness: "tuned" };
      const back = params.construction === "multihead_truncated_linear" ? { function: "sin(8*x)", construction: "tensor_grid", sharpness: "0.5" } : {};
      return { ...params, ...back, fault: value, p: value === "float16" ? Math.max(params.p, 400) : Math.min(params.p, 128) };
    },
  },
  request: (params) => requestOf(params, { fault: params.fault }),
  draw(figure, result, params) {
    const [name] = Object.keys(parseDomain(params.domain)), x = numbers(result.x);
    const positive = (values) => Array.from(values, (v) => (v > 0 ? v : null));
    const findings = panels(figure, "findings");
    findings.className = "";
    findings.replaceChildren(...told(result.diagnosis));
    draw(place(figure, "errors", "middle", `Error of the sound and of the faulty network; the faulty one's largest is ${shown(result.worst.error)}.`), [
      { x, y: positive(numbers(result.sound)), name: "as it was built", mode: "lines", line: { color: GREEN, width: 1.5, dash: "dash" } },
      { x, y: positive(numbers(result.error)), name: params.fault === "none" ? "error" : `with ${params.fault}`, mode: "lines", line: { color: ORANGE, width: 2 } },
    ], { xaxis: axis(name), yaxis: logAxis("error", { range: decades(numbers(result.sound), numbers(result.error)) }) });
    drawMap(figure, result);
  },
};

function told(found) {
  if (!found.findings.length) return [element("p", { class: "finding" }, "healthy: none of the known signatures was seen")];
  const number = (value) => (typeof value === "number" ? shown(value, 3) : value);
  return found.findings.map((each) => element("div", { class: `finding ${each.severity}` },
    element("strong", {}, `${each.severity}: ${each.signature}`),
    element("p", { class: "note" }, Object.entries(each.evidence).map(([name, value]) => `${name} ${number(value)}`).join("; ")),
    element("p", {}, each.cause), element("p", {}, each.remedy)));
}
