// Questions to the server: JSON there, lines of JSON back. An exported page has the answers with it.

export class Refusal extends Error {
  constructor(error) {
    super(error.message);
    this.column = error.column ?? null;
    this.kind = error.kind;
  }
}

// An exported page holds [job, request, result] of some positions, and no server.
export const exported = () => globalThis.ATTNFORGE_ANSWERS ?? null;

export async function ask(job, request, { signal, onProgress } = {}) {
  if (exported()) return nearest(job, request);
  const response = await fetch(`/api/${job}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request), signal,
  });
  if (!response.ok) throw new Refusal((await response.json()).error);
  let result = null;
  for await (const message of messages(response.body)) {
    if (message.error) throw new Refusal(message.error);
    if ("progress" in message) onProgress?.(message.progress, message.text);
    else result = message.result;
  }
  if (result === null) throw new Refusal({ message: "The server ended before it had answered.", kind: "connection" });
  return result;
}

async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) yield JSON.parse(line);
  }
}

// The answer to the request that is most alike, and that request: numbers by their ratio, all else by being the same.
function nearest(job, request) {
  let best = null, least = Infinity;
  for (const [of, asked, result] of exported()) {
    const far = of === job ? distance(request, asked) : Infinity;
    if (far < least) [best, least] = [{ ...result, asked }, far];
  }
  if (!best) throw new Refusal({ message: "This page holds no answer to that.", kind: "limit" });
  return best;
}

const OTHER = 20; // how far texts are apart that differ: further than any two positions of a slider

function distance(a, b) {
  if (a === undefined || b === undefined) return 0;
  if (typeof a === "number" && typeof b === "number") return a > 0 && b > 0 ? Math.abs(Math.log(a / b)) : a === b ? 0 : 1;
  if (a && b && typeof a === "object" && typeof b === "object" && !Array.isArray(a)) {
    return Object.keys({ ...a, ...b }).reduce((sum, name) => sum + distance(a[name], b[name]), 0);
  }
  return JSON.stringify(a) === JSON.stringify(b) ? 0 : OTHER;
}

// Numbers that came as bytes.
export function numbers(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  if (packed.kind === "f32") return new Float32Array(bytes.buffer);
  const whole = new Uint16Array(bytes.buffer);
  return Float32Array.from(whole, (n) => n / 65535);
}

export function rows(packed) {
  const flat = numbers(packed), [, width] = packed.shape;
  return Array.from({ length: packed.shape[0] }, (_, i) => flat.subarray(i * width, (i + 1) * width));
}

// The latest question counts: while one is under way the next waits, and only the last of those that wait is asked.
export class Latest {
  constructor() { this.running = false; this.waiting = null; this.abort = null; }

  // Resolves to the answer, or to null where a later question took its place.
  ask(job, request, options = {}) {
    return new Promise((resolve, reject) => {
      this.waiting?.resolve(null);
      this.waiting = { job, request, options, resolve, reject };
      if (!this.running) this.next();
    });
  }

  async next() {
    const { job, request, options, resolve, reject } = this.waiting;
    this.waiting = null;
    this.running = true;
    this.abort = new AbortController();
    try {
      resolve(await ask(job, request, { ...options, signal: this.abort.signal }));
    } catch (error) {
      if (error.name === "AbortError") resolve(null); else reject(error);
    } finally {
      this.running = false;
      if (this.waiting) this.next();
    }
  }

  cancel() {
    this.waiting?.resolve(null);
    this.waiting = null;
    this.abort?.abort();
  }
}
