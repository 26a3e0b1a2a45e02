// The form: each control is bound to one number or text of the view's parameters.

import { shown } from "./plots.js";

const byId = (id) => document.getElementById(id);
const round = (value, digits = 3) => +value.toPrecision(digits);

const PLAIN = { read: (field) => field.value, write: (field, value) => { field.value = value; }, tell: () => "" };
const WHOLE = { ...PLAIN, read: (field) => Math.round(+field.value), tell: (value) => String(value) };
const DECADE = {
  read: (field) => round(10 ** +field.value), write: (field, value) => { field.value = Math.log10(value); }, tell: (value) => shown(value, 1),
};

const BOUND = {
  function: PLAIN, domain: PLAIN, construction: PLAIN, dtype: PLAIN, algorithm: PLAIN, program: PLAIN, tokens: PLAIN,
  p: WHOLE, heads: WHOLE, sentinels: WHOLE, steps: WHOLE, layer: WHOLE, tol: DECADE, rate: { ...DECADE, tell: (value) => shown(value, 2) },
  alpha: { ...PLAIN, read: (field) => +field.value, tell: (value) => shown(value, 2) },
  sharpness: {
    read: (field) => round(10 ** +field.value),
    write: (field, value) => { if (Number.isFinite(+value)) field.value = Math.log10(+value); },
    tell: (value) => (Number.isFinite(+value) ? `c = ${shown(+value, 2)}` : value === "tolerance" ? "from tolerance" : value),
  },
};

export class Controls {
  // `changed(name, value, settled)` is called while a control moves, and once more when it has come to rest.
  constructor(changed) {
    this.changed = changed;
    for (const [name, kind] of Object.entries(BOUND)) {
      const field = byId(name);
      field.addEventListener("input", () => this.moved(name, kind.read(field), field.type === "text" ? null : false));
      field.addEventListener("change", () => this.moved(name, kind.read(field), true));
    }
    for (const radio of document.querySelectorAll("[name=switch], [name=fault]")) {
      radio.addEventListener("change", () => changed(radio.name, radio.value, true));
    }
    for (const button of document.querySelectorAll("[data-regime]")) {
      button.addEventListener("click", () => changed("sharpness", button.dataset.regime, true));
    }
    byId("examples").addEventListener("change", (event) => {
      if (event.target.value !== "") changed("example", +event.target.value, true);
      event.target.value = "";
    });
    byId("new-data").addEventListener("click", () => changed("data", null, true));
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
  }

  moved(name, value, settled) {
    this.tell(name, value);
    if (settled !== null) this.changed(name, value, settled);
  }

  // Show the view's controls with the parameters' values.
  show(view, params) {
    this.view = view;
    fill(byId("construction"), view.constructions ?? []);
    if (view.programs) fill(byId("program"), view.programs);
    fill(byId("examples"), [["", "choose one"], ...(view.examples ?? []).map(([text], i) => [i, text])]);
    const p = byId("p");
    [p.min, p.max] = view.range ?? [2, 512];
    byId("p-label").textContent = view.countName ?? "Anchors p";
    this.update(params);
  }

  update(params) {
    const idle = this.view.idle?.(params) ?? []; // what has no effect is not offered
    for (const field of document.querySelectorAll("[data-control]")) {
      field.hidden = !this.view.controls.includes(field.dataset.control) || idle.includes(field.dataset.control);
    }
    for (const [name, value] of Object.entries(params)) {
      if (!BOUND[name]) continue;
      BOUND[name].write(byId(name), value);
      this.tell(name, value);
    }
    for (const radio of document.querySelectorAll("[name=fault]")) radio.checked = radio.value === params.fault;
    const chosen = params.construction === "tensor_grid" ? "fitted"
      : params.construction === "max_affine" && ["hard", "tuned"].includes(params.sharpness) ? params.sharpness : null;
    for (const radio of document.querySelectorAll("[name=switch]")) radio.checked = radio.value === chosen;
    for (const button of document.querySelectorAll("[data-regime]")) {
      button.setAttribute("aria-pressed", String(button.dataset.regime === params.sharpness));
    }
  }

  tell(name, value) {
    const place = byId(`${name}-value`);
    if (place) place.textContent = BOUND[name].tell(value);
  }

  // The sharpness that a regime came to.
  tellSharpness(params, c) {
    if (c === null || c === undefined || Number.isFinite(+params.sharpness)) return;
    byId("sharpness").value = Math.log10(c);
    byId("sharpness-value").textContent = `c = ${shown(c, 2)}, ${params.sharpness === "tolerance" ? "from tolerance" : params.sharpness}`;
  }

  tellComparison(errors) {
    for (const name of ["hard", "tuned", "fitted"]) {
      const error = errors?.[name];
      byId(`error-${name}`).textContent = error === undefined ? "\u00a0" : error === null ? "refused" : shown(error, 2);
    }
  }

  // An error of the formula, with a mark below the column it points at.
  pointAt(text, error) {
    const field = byId("function"), place = byId("function-error");
    field.setAttribute("aria-invalid", String(Boolean(error)));
    place.hidden = !error;
    place.textContent = error ? `${text}\n${" ".repeat(error.column - 1)}^\n${error.message}` : "";
  }
}

function fill(select, options) {
  const listed = options.map(([value, text]) => new Option(text, value));
  if (listed.length !== select.options.length || listed.some((option, i) => option.value !== select.options[i].value)) {
    select.replaceChildren(...listed);
  }
}
