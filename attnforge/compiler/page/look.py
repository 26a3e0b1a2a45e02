"""The page's stylesheet: light and dark, narrow and wide, screen and paper."""

RULES = """
:root { color-scheme: light dark; --text: #1d1d1f; --faint: #5f6368; --back: #ffffff; --line: #d8dadd; --soft: #f4f5f7;
  --blue: #0072b2; --green: #00734f; --orange: #b34a00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8e8ea; --faint: #a5a9b0; --back: #17181a; --line: #3a3d42; --soft: #212327;
    --blue: #56b4e9; --green: #4cc79e; --orange: #ff9a57; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 56rem; background: var(--back); color: var(--text);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0 0 1rem; font-size: 1.6rem; line-height: 1.25; font-weight: 650; }
h2 { margin: 2.5rem 0 .75rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); font-size: 1.2rem; }
h3 { margin: 1.5rem 0 .5rem; font-size: 1rem; }
.kind, .note, figcaption { color: var(--faint); font-size: .9rem; }
.kind { margin: 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th[scope=row] { width: 13rem; font-weight: 500; color: var(--faint); }
thead th { font-weight: 500; font-size: .85rem; color: var(--faint); }
.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
.bars { width: 45%; vertical-align: middle; }
.bar { display: block; height: .6rem; min-width: 1px; border-radius: .2rem; background: var(--blue); }
.status { padding: .1rem .55rem; border: 1.5px solid currentcolor; border-radius: 1rem; font-weight: 600; }
.proved { color: var(--green); }
.conditional { color: var(--blue); }
.sampled { color: var(--orange); }
pre { padding: .75rem 1rem; border-radius: .4rem; background: var(--soft); overflow-x: auto; font-size: .85rem;
  overflow-wrap: normal; }
code, pre { font-family: ui-monospace, Menlo, Consolas, monospace; }
figure { margin: 1.25rem 0; break-inside: avoid; }
img { display: block; max-width: 100%; height: auto; padding: .5rem; border-radius: .4rem; background: #ffffff; }
figcaption { margin-top: .35rem; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  section { break-inside: auto; }
  h2 { break-after: avoid; }
  pre { white-space: pre-wrap; }
}
"""
