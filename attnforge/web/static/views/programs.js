// Programs: tokens one can edit, attention maps a layer at a time, registers beside their exact values.

import { rows } from "../api.js";
import { element, panels, shown } from "../plots.js";

const PROGRAMS = {
  reverse: "a b c d e", sort: "c a b a d", histogram: "a b a c a", most_frequent: "a b b c", majority: "0 1 1 0 1", count_compare: "a b a a b",
  dyck1: "( ( ) ) ( )", dyck2: "( [ ] ) (", parity: "1 0 1 1 0", induction: "a b c a b", kth_largest: "3 7 7 2", addition: "1+9 4+5 7+8", balanced: "( x ) x",
};

export const programs = {
  id: "programs", title: "Programs", job: "program", group: "programs", isTable: true,
  controls: ["program", "tokens", "layer"],
  programs: Object.keys(PROGRAMS).map((name) => [name, name.replace("_", " ")]),
  defaults: { program: "sort", tokens: PROGRAMS.sort, layer: 99 },
  explanation: `<p><b>Sequence programs</b> in the operations of RASP (select, aggregate, counts, tables), compiled into attention and linear maps, without any MLP,
    and <b>proved for every sequence</b> up to sixteen tokens here. A row of a map is a query, a column a key; darker is more weight; a dot stands for constant keys.
    Step through the layers: a head of a layer reads registers that layers before it have written. On the right of each register: the largest
    error of this run, below what is proved.</p>`,
  change: { program: (params, value) => ({ ...params, program: value, tokens: PROGRAMS[value], layer: 99 }) },
  request: ({ program, tokens }) => {
    const listed = tokens.split(/[\s,]+/).filter(Boolean);
    if (!listed.length || listed.length > 16) throw new Error(`A sequence has 1 to 16 tokens, with blanks between them. Got ${listed.length}.`);
    return { program, tokens: listed };
  },
  draw(figure, result, params) {
    const slider = document.getElementById("layer"), upTo = Math.min(params.layer, result.layers);
    slider.max = result.layers;
    slider.value = upTo;
    document.getElementById("layer-value").textContent = `${upTo} of ${result.layers}`;
    document.getElementById("tokens-hint").textContent = `of ${result.vocabulary.length > 12 ? `${result.vocabulary.slice(0, 6).join(" ")} … ${result.vocabulary.at(-1)}` : result.vocabulary.join(" ")}`;
    panels(figure, "what").replaceChildren(element("p", { class: "statement" }, result.description));
    const maps = panels(figure, "maps", "three");
    maps.replaceChildren(...result.maps.filter(({ layer }) => layer <= upTo).map((map) => drawn(map, result.tokens)));
    panels(figure, "trace").replaceChildren(registers(result, upTo));
  },
};

function drawn(map, tokens) {
  const table = rows(map.weights), keys = [...Array(map.constants).fill("·"), ...tokens];
  const head = element("tr", {}, element("td", { style: "border:0" }), ...keys.map((key) => element("th", { scope: "col" }, key)));
  const lines = tokens.map((token, q) => element("tr", {}, element("th", { scope: "row" }, token), ...Array.from(table[q], (weight, k) => {
    const cell = element("td", { title: `${token} → ${keys[k]}: ${shown(weight)}` });
    cell.style.background = `rgba(0, 114, 178, ${Math.round(100 * weight) / 100})`;
    return cell;
  })));
  const title = `layer ${map.layer}: ${map.name}`;
  return element("div", { class: "scroll", role: "group", "aria-label": `Attention map, ${title}` }, element("h3", { style: "font-size:.9rem;margin:.4rem 0" }, title), element("table", { class: "map" }, element("thead", {}, head), element("tbody", {}, ...lines)));
}

function registers(result, upTo) {
  const seen = result.registers.filter(({ layer, name }) => layer <= upTo && (name !== "result" || upTo === result.layers));
  const head = element("tr", {}, ...["layer", "register", ...result.tokens, "error", "proved"].map((text) => element("th", { scope: "col" }, text)));
  const lines = seen.map((each) => element("tr", {}, ...[each.layer, each.name, ...each.values, shown(each.error, 1), shown(each.bound, 1)].map((text) => element("td", {}, String(text)))));
  return element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Registers" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)));
}
