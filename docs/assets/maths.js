// Maths is written out by KaTeX, from this site: in pages where Markdown marked it, in notebooks between dollars.
document.addEventListener("DOMContentLoaded", () => {
  const marked = [
    { left: "\\(", right: "\\)", display: false },
    { left: "\\[", right: "\\]", display: true },
  ];
  const dollars = [
    { left: "$$", right: "$$", display: true },
    { left: "$", right: "$", display: false },
  ];
  for (const part of document.querySelectorAll(".arithmatex")) renderMathInElement(part, { delimiters: marked });
  for (const part of document.querySelectorAll(".jp-RenderedMarkdown, .jp-RenderedHTMLCommon"))
    renderMathInElement(part, { delimiters: [...dollars, ...marked] });
});
