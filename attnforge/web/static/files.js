// What a reader takes along.

import { element } from "./plots.js";

export function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

const LOOKS = ["fill", "stroke", "stroke-width", "opacity", "font-size", "font-weight", "font-family"];

// A drawing of the page as a file: the looks that its style sheet gives come along.
export async function pictured(drawing, kind) {
  const copy = drawing.cloneNode(true), parts = copy.querySelectorAll("*"), { width, height } = drawing.viewBox.baseVal;
  drawing.querySelectorAll("*").forEach((part, i) => {
    const seen = getComputedStyle(part);
    for (const name of LOOKS) parts[i].style.setProperty(name, seen.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("style", `background:${getComputedStyle(document.body).backgroundColor};color:${getComputedStyle(drawing).color}`);
  for (const [name, value] of [["width", width], ["height", height]]) copy.setAttribute(name, value);
  const text = new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
  if (kind === "svg") return text;
  const image = new Image(), canvas = element("canvas", { width: 2 * width, height: 2 * height });
  image.src = URL.createObjectURL(text);
  await image.decode();
  URL.revokeObjectURL(image.src);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
