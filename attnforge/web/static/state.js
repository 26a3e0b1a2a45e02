// What the page shows is in its address: reload, bookmark, back and forward work by themselves.

export const SHARED = { dtype: "float64", tol: 1e-6 };

export function parseDomain(text) {
  const domain = {};
  for (const part of text.split(",")) {
    const found = part.match(/^\s*([A-Za-z]\w*)\s*=\s*(\S+?)\s*:\s*(\S+)\s*$/);
    if (!found || !Number.isFinite(+found[2]) || !Number.isFinite(+found[3])) {
      throw new Error(`A domain is written x=-1:1, y=0:2. Got ${part.trim() || "nothing"}.`);
    }
    domain[found[1]] = [+found[2], +found[3]];
  }
  return domain;
}

export function toAddress(view, params, defaults) {
  const query = new URLSearchParams({ view });
  for (const [name, value] of Object.entries(params)) {
    if (JSON.stringify(value) !== JSON.stringify(defaults[name])) query.set(name, encode(value));
  }
  return `?${query}`;
}

export function fromAddress(search, views) {
  const query = new URLSearchParams(search);
  const view = views.find((each) => each.id === query.get("view")) ?? views[0];
  const params = { ...view.defaults };
  for (const [name, value] of Object.entries(view.defaults)) {
    if (query.has(name)) params[name] = decode(query.get(name), value);
  }
  return { view, params };
}

function encode(value) {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function decode(text, like) {
  if (typeof like === "number") return Number.isFinite(+text) && text !== "" ? +text : like;
  if (typeof like === "object") {
    try { return JSON.parse(text); } catch { return like; }
  }
  return text;
}

// The parameters that a request stands for: an exported page goes to the nearest position that it holds.
export function fromRequest(params, asked) {
  const domain = asked.domain && Object.entries(asked.domain).map(([name, [low, high]]) => `${name}=${low}:${high}`).join(", ");
  const points = asked.x && asked.x.map((x, i) => [...x, asked.y[i]]);
  const read = { ...asked, domain, points, rate: asked.learning_rate, tokens: asked.tokens?.join(" ") };
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, read[name] ?? value]));
}

// A regime by name, or the number c.
export const sharpnessOf = (params) => Number.isFinite(+params.sharpness) ? +params.sharpness : params.sharpness;
