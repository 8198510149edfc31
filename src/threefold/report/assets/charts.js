"use strict";
// One drawing routine a kind of figure. Everything that came from data enters as text, never as markup.
const NS = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "1 3", "12 4", "5 2 1 2", "3 6"];
const FRAME = { width: 560, height: 320, left: 62, right: 14, top: 12, bottom: 46 };

function node(tag, attributes = {}, parent = null, text = null) {
  const made = tag === tag.toLowerCase() && SVG_TAGS.has(tag) ? document.createElementNS(NS, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
const SVG_TAGS = new Set(["svg", "path", "line", "rect", "text", "g", "circle", "title"]);

function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  for (const [unit, name] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (size >= unit) return +(value / (name === "k" ? 1e3 : unit)).toPrecision(3) + (name === "k" ? "k" : name);
  return size < 1e-3 ? value.toExponential(1) : String(+value.toPrecision(3));
}

function ticks(low, high, log) {
  if (log) {
    const made = [];
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const step = Math.max(1, Math.ceil((last - first) / 6));
    for (let e = first; e <= last; e += step) made.push(10 ** e);
    return made.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  }
  const span = high - low || 1, rough = span / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const made = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) made.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return made;
}

function scale(values, from, to, log) {
  const usable = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
  let low = Math.min(...usable), high = Math.max(...usable);
  if (!usable.length) { low = log ? 1 : 0; high = log ? 10 : 1; }
  if (low === high) { low = log ? low / 2 : low - 0.5; high = log ? high * 2 : high + 0.5; }
  const f = log ? Math.log10 : (v) => v;
  const place = (v) => from + ((f(v) - f(low)) / (f(high) - f(low))) * (to - from);
  return { place, low, high, log, ok: (v) => Number.isFinite(v) && (!log || v > 0) };
}

function axes(svg, figure, xs, ys, options = {}) {
  const { width, height, left, right, top, bottom } = FRAME;
  node("line", { class: "axis", x1: left, y1: height - bottom, x2: width - right, y2: height - bottom }, svg);
  node("line", { class: "axis", x1: left, y1: top, x2: left, y2: height - bottom }, svg);
  if (xs) for (const v of ticks(xs.low, xs.high, xs.log)) {
    node("line", { class: "axis", x1: xs.place(v), x2: xs.place(v), y1: height - bottom, y2: height - bottom + 4 }, svg);
    node("text", { x: xs.place(v), y: height - bottom + 18, "text-anchor": "middle" }, svg, short(v));
  }
  for (const v of ticks(ys.low, ys.high, ys.log)) {
    node("line", { class: "axis", x1: left, x2: width - right, y1: ys.place(v), y2: ys.place(v), opacity: .5 }, svg);
    node("text", { x: left - 7, y: ys.place(v) + 4, "text-anchor": "end" }, svg, short(v));
  }
  if (figure.x) node("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, svg, figure.x);
  node("text", { x: 0, y: 0, transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, figure.y || "");
}

// The drawing is as wide as its holder, so that words stay the same size on a phone and on a desk.
function canvas(holder, figure, height) {
  holder.replaceChildren();
  FRAME.height = Math.round(Math.min(FRAME.width * 0.57, 420));
  height ??= FRAME.height;
  const svg = node("svg", { class: "chart", viewBox: `0 0 ${FRAME.width} ${height}`, role: "img" }, holder);
  svg.setAttribute("aria-label", `${figure.title}. ${figure.says}`);
  return svg;
}

function measure(holder) { FRAME.width = Math.max(280, Math.min(940, holder.clientWidth || 560)); }

function drawLines(holder, figure) {
  measure(holder);
  const svg = canvas(holder, figure), { width, height, left, right, top, bottom } = FRAME;
  const all = figure.series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]);
  const xs = scale([...figure.series.flatMap((s) => s.x), ...figure.marks.map((m) => m.x)], left, width - right, figure.log_x);
  const ys = scale(all, height - bottom, top, figure.log_y);
  axes(svg, figure, xs, ys);
  for (const mark of figure.marks) {
    if (!xs.ok(mark.x)) continue;
    node("line", { class: "mark", x1: xs.place(mark.x), x2: xs.place(mark.x), y1: top, y2: height - bottom }, svg);
    const end = xs.place(mark.x) > width * 0.7 ? "end" : "start";
    node("text", { x: xs.place(mark.x) + (end === "end" ? -4 : 4), y: top + 10, "text-anchor": end }, svg, mark.says);
  }
  figure.series.forEach((s, i) => {
    const colour = `var(--s${i % 8})`;
    if (s.low && s.low.length) {
      const up = s.x.map((x, j) => [x, s.high[j]]), down = s.x.map((x, j) => [x, s.low[j]]).reverse();
      const ring = [...up, ...down].filter(([x, y]) => xs.ok(x) && ys.ok(y)).map(([x, y]) => `${xs.place(x)} ${ys.place(y)}`);
      if (ring.length) node("path", { d: "M" + ring.join("L") + "Z", fill: colour, opacity: .15 }, svg);
    }
    const points = s.x.map((x, j) => [x, s.y[j]]).filter(([x, y]) => xs.ok(x) && ys.ok(y));
    const path = points.map(([x, y]) => `${xs.place(x).toFixed(1)} ${ys.place(y).toFixed(1)}`).join("L");
    if (path) node("path", { d: "M" + path, fill: "none", stroke: colour, "stroke-width": 2.2, "stroke-dasharray": DASHES[i % 8] }, svg);
    if (points.length === 1) node("circle", { cx: xs.place(points[0][0]), cy: ys.place(points[0][1]), r: 3.5, fill: colour }, svg);
  });
  legend(holder, figure.series.map((s) => s.name));
}

function legend(holder, names) {
  if (names.length < 2) return;
  const list = node("ul", { class: "legend" }, holder);
  names.forEach((name, i) => {
    const item = node("li", {}, list);
    const key = node("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, item);
    node("path", { d: "M0 5H26", stroke: `var(--s${i % 8})`, "stroke-width": 2.6, "stroke-dasharray": DASHES[i % 8] }, key);
    item.appendChild(document.createTextNode(name));
  });
}

function drawBars(holder, figure) {
  measure(holder);
  const rows = figure.names.length, height = 46 + 30 * rows, svg = canvas(holder, figure, height);
  const left = Math.min(150, FRAME.width * 0.3), letters = Math.floor(left / 6.6), right = FRAME.width - 70;
  const ends = [...figure.values, ...figure.low, ...figure.high];
  const xs = scale(figure.log_y ? ends : [0, ...ends], left, right, figure.log_y);
  figure.names.forEach((name, i) => {
    const y = 14 + 30 * i, start = figure.log_y ? left : xs.place(0), end = xs.place(figure.values[i]);
    node("text", { x: left - 8, y: y + 13, "text-anchor": "end" }, svg, name.length > letters ? name.slice(0, letters - 1) + "…" : name);
    node("rect", { x: Math.min(start, end), y, width: Math.max(1, Math.abs(end - start)), height: 18, rx: 3, fill: `var(--s${i % 8})` }, svg);
    if (figure.low.length) {
      node("path", { d: `M${xs.place(figure.low[i])} ${y + 9}H${xs.place(figure.high[i])}`, stroke: "var(--ink)", "stroke-width": 2 }, svg);
      for (const v of [figure.low[i], figure.high[i]]) node("path", { d: `M${xs.place(v)} ${y + 4}v10`, stroke: "var(--ink)", "stroke-width": 2 }, svg);
    }
    const reach = figure.high.length ? Math.max(end, xs.place(figure.high[i])) : end;
    node("text", { x: reach + 6, y: y + 13 }, svg, short(figure.values[i]));
  });
  node("text", { x: (left + right) / 2, y: height - 10, "text-anchor": "middle" }, svg, figure.y);
}

function shade(value, low, high, signed) {
  const span = signed ? Math.max(Math.abs(low), Math.abs(high)) || 1 : high - low || 1;
  const t = signed ? value / span : (value - low) / span;
  const hue = signed && t < 0 ? "var(--s1)" : "var(--s0)";
  return `color-mix(in srgb, ${hue} ${Math.round(Math.min(1, Math.abs(t)) * 92)}%, var(--wash))`;
}

function drawMatrix(holder, figure) {
  measure(holder);
  const rows = figure.values.length, columns = rows ? figure.values[0].length : 0;
  const named = figure.row_names.length > 0, left = named ? 96 : 40, top = 8, right = 8;
  const cell = (FRAME.width - left - right) / Math.max(1, columns);
  const tall = figure.printed ? Math.min(40, Math.max(24, cell * .5)) : Math.min(named ? 16 : cell, Math.max(named ? 5 : 2, 300 / Math.max(1, rows)));
  const height = top + tall * rows + 42, svg = canvas(holder, figure, height);
  const flat = figure.values.flat(), low = Math.min(...flat), high = Math.max(...flat);
  figure.values.forEach((row, i) => row.forEach((value, j) => {
    const x = left + j * cell, y = top + i * tall;
    const box = node("rect", { x, y, width: cell + .4, height: tall + .4, fill: shade(value, low, high, figure.signed) }, svg);
    if (rows * columns <= 4000) node("title", {}, box, `${figure.row_names[i] ?? i}, ${figure.column_names[j] ?? j}: ${short(value)}`);
    if (figure.printed) {
      const strong = (value - low) / (high - low || 1) > .55;
      node("text", { class: "cell-text", x: x + cell / 2, y: y + tall / 2, ...(strong ? { style: "fill: var(--on-accent)" } : {}) }, svg, short(value));
    }
  }));
  const every = Math.max(1, Math.ceil(14 / Math.max(tall, 1)));
  figure.row_names.forEach((name, i) => { if (i % every === 0) node("text", { x: left - 5, y: top + (i + .5) * tall + 4, "text-anchor": "end" }, svg, name.slice(0, 13)); });
  const skip = Math.max(1, Math.ceil((figure.printed ? 40 : 13) / cell));
  figure.column_names.forEach((name, j) => { if (j % skip === 0) node("text", { x: left + (j + .5) * cell, y: top + rows * tall + 15, "text-anchor": "middle" }, svg, name.slice(0, 9)); });
  node("text", { x: left + columns * cell / 2, y: height - 8, "text-anchor": "middle" }, svg, figure.columns);
  node("text", { transform: `translate(11 ${top + rows * tall / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, figure.rows);
}

const DRAW = { lines: drawLines, bars: drawBars, matrix: drawMatrix };

function download(name, header, rows) {
  const quote = (v) => (v === null ? "" : /[",\n]/.test(String(v)) ? `"${String(v).replaceAll('"', '""')}"` : String(v));
  const text = [header, ...rows].map((row) => row.map(quote).join(",")).join("\n") + "\n";
  const link = node("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
