// What is proved, beside what was seen.

import { element, shown } from "./plots.js";

const byId = (id) => document.getElementById(id);

export function showCertificate(found) {
  const place = byId("certificate-body");
  if (!found) {
    place.replaceChildren(element("p", { class: "note" }, "…"));
    return;
  }
  const parts = Object.entries(found.parts ?? {}), total = parts.reduce((sum, [, value]) => sum + value, 0);
  const rows = parts.map(([name, value]) => {
    const bar = element("span", { class: "bar" });
    bar.style.width = `${total > 0 ? Math.max(1, (100 * value) / total) : 0}%`;
    return element("tr", {}, element("td", {}, name), element("td", {}, shown(value, 2)), element("td", { style: "width:45%" }, bar));
  });
  const seen = found.estimate && found.estimate.error !== null
    ? [element("p", { class: "note" }, `largest error found ${shown(found.estimate.error, 3)}${found.estimate.at.length ? ` at ${found.estimate.at.map((x) => shown(x, 3)).join(", ")}` : ""}`)] : [];
  const table = rows.length ? [element("table", {}, element("tbody", {}, ...rows))] : [];
  const assumed = found.assumptions?.length
    ? [element("details", {}, element("summary", { class: "note" }, "what is assumed"), element("p", { class: "note" }, found.assumptions.join("; ")))] : [];
  place.replaceChildren(
    element("p", {}, element("span", { class: `status ${found.status}` }, found.status)),
    element("p", { class: "statement" }, found.statement), ...table, ...seen, ...assumed,
  );
}

export function showFacts(facts) {
  const names = { construction: "construction", sharpness: "c = βh²", layers: "layers", heads: "heads", keys: "keys", parameters: "parameters", dtype: "runs in" };
  const listed = Object.entries(names).filter(([name]) => facts?.[name] !== undefined && facts[name] !== null);
  byId("facts").replaceChildren(...listed.flatMap(([name, text]) => {
    const value = facts[name];
    return [element("dt", {}, text), element("dd", {}, typeof value === "number" && name === "sharpness" ? shown(value, 2) : Number(value) === value ? value.toLocaleString("en") : value)];
  }));
}
