// Plotly with our colours (Okabe and Ito, which colour-blind readers can tell apart), light or dark.

export const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999", "#8C6D31"];
export const BLUE = "#0072B2";
export const SKY = "#56B4E9";
export const ORANGE = "#D55E00";
export const GREEN = "#009E73";
export const PURPLE = "#CC79A7";
export const GREY = "#888888";
export const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const isDark = () => document.documentElement.dataset.theme === "dark";
export const textColour = () => variable("--text");
export const outputColour = () => (isDark() ? SKY : BLUE);

export function axis(title, extra = {}) {
  const faint = variable("--line");
  return { title: { text: title, standoff: 8 }, gridcolor: faint, zerolinecolor: faint, linecolor: faint, automargin: true, ...extra };
}

// The decades that positive numbers span, with some room.
export function decades(...lists) {
  const logs = lists.flatMap((list) => Array.from(list)).filter((v) => v > 0 && Number.isFinite(v)).map(Math.log10);
  return logs.length ? [logs.reduce((a, b) => Math.min(a, b)) - 0.2, logs.reduce((a, b) => Math.max(a, b)) + 0.3] : undefined;
}

// Decades have names; where there are few of them, twos and fives have names too.
export function logAxis(title, extra = {}) {
  const [low, high] = extra.range ?? [0, 3], span = high - low;
  return axis(title, { type: "log", exponentformat: "power", dtick: span < 1.8 ? "D2" : Math.ceil(span / 6), ...extra });
}

export function draw(place, traces, layout = {}) {
  const text = variable("--text"), back = variable("--back");
  const whole = {
    paper_bgcolor: back, plot_bgcolor: back, font: { color: text, family: "system-ui, sans-serif", size: 13 },
    margin: { l: 64, r: 16, t: 12, b: 44 }, hovermode: "closest", uirevision: "keep", autosize: true, width: place.clientWidth, height: place.clientHeight,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } }, ...layout,
  };
  const config = { displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], displayModeBar: false };
  place.drawn = globalThis.Plotly.react(place, traces, whole, config);
  return place.drawn;
}

// Plots have the size of their places: when another place comes beside one, or the window changes, it is drawn anew.
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) target.drawn?.then(() => fit(target));
});

function fit(plot) {
  const { clientWidth: width, clientHeight: height, layout } = plot;
  if (width && height && (layout.width !== width || layout.height !== height)) globalThis.Plotly.relayout(plot, { width, height });
}

// A place for a plot inside of the figure, made once and kept while the view stays.
export function place(parent, name, className, label) {
  let found = parent.querySelector(`[data-plot="${name}"]`);
  if (!found) {
    found = document.createElement("div");
    found.dataset.plot = name;
    found.className = `plot ${className}`;
    found.setAttribute("role", "group");
    parent.append(found);
    sizes.observe(found);
  }
  found.setAttribute("aria-label", label);
  return found;
}

export function panels(parent, name, className = "") {
  let found = parent.querySelector(`[data-panels="${name}"]`);
  if (!found) {
    found = document.createElement("div");
    found.dataset.panels = name;
    found.className = `panels ${className}`;
    parent.append(found);
  }
  return found;
}

export const shown = (number, digits = 2) =>
  number === null || number === undefined ? "not finite" : number === 0 ? "0"
    : Math.abs(number) >= 1e-3 && Math.abs(number) < 1e5 ? String(+number.toPrecision(digits + 1)) : number.toExponential(digits - 1);

export function element(tag, attributes = {}, ...children) {
  const space = ["svg", "g", "rect", "circle", "line", "path", "text", "title", "marker"].includes(tag) && attributes.svg !== false;
  const made = space ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (name !== "svg") made.setAttribute(name, value);
  made.append(...children);
  return made;
}
