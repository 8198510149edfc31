"use strict";
// Live parts: sliders that recompute a figure from exact data prepared when the page was made.
class Panel {
  constructor(holder, panel) {
    this.data = panel.data; this.title = panel.title; this.holder = holder;
    this.drawing = holder.querySelector(".drawing"); this.answer = holder.querySelector(".answer");
    this.numbers = holder.querySelector(".numbers"); this.sliders = holder.querySelector(".sliders");
    this.reads = {};
  }
  control(name, label, made, read) {
    const box = node("label", {}, this.sliders, label + " ");
    const shown = node("span", { class: "value" }, box); // an <output> here would take the label from the control
    box.appendChild(made);
    made.name = name;
    this.reads[name] = { made, read, shown };
    made.addEventListener("input", () => this.update());
    return this;
  }
  slider(name, label, low, high, step, value, show = (v) => v) {
    const made = node("input", { type: "range", min: low, max: high, step, value });
    return this.control(name, label, made, () => { const v = Number(made.value); return [v, show(v)]; });
  }
  choice(name, label, values, start, show = (v) => String(v)) {
    const made = node("input", { type: "range", min: 0, max: values.length - 1, step: 1, value: values.indexOf(start) });
    return this.control(name, label, made, () => { const v = values[Number(made.value)]; return [v, show(v)]; });
  }
  menu(name, label, values) {
    const made = node("select", {});
    for (const value of values) node("option", { value }, made, value);
    return this.control(name, label, made, () => [made.value, ""]);
  }
  run(update) { this.redraw = update; this.update(); }
  update() {
    const at = {};
    for (const [name, { made, read, shown }] of Object.entries(this.reads)) {
      const [value, text] = read();
      at[name] = value; shown.textContent = text;
      if (text !== "") made.setAttribute("aria-valuetext", text);
    }
    this.redraw(at);
  }
  table(header, rows) {
    this.numbers.replaceChildren();
    const details = node("details", {}, this.numbers);
    details.open = this.opened || false;
    details.addEventListener("toggle", () => { this.opened = details.open; });
    node("summary", {}, details, "Numbers");
    const scroll = node("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": this.title + ": numbers" }, details);
    const table = node("table", {}, scroll), head = node("tr", {}, node("thead", {}, table)), body = node("tbody", {}, table);
    header.forEach((cell, i) => node("th", { scope: "col", ...(i ? { class: "number" } : {}) }, head, cell));
    for (const row of rows) {
      const line = node("tr", {}, body);
      for (const cell of row) node("td", typeof cell === "number" ? { class: "number" } : {}, line, typeof cell === "number" ? group(cell) : cell);
    }
    const save = node("button", { type: "button" }, node("p", {}, details), "Save as CSV");
    save.addEventListener("click", () => download(this.title.replace(/[^\w-]+/g, "-") + ".csv", header, rows));
  }
}
const group = (v) => (Number.isInteger(v) ? v.toLocaleString("en") : String(+v.toPrecision(6)));

// A polynomial is [[coefficient, {axis: power}], ...], exactly as planned. The axis "⌈T/64⌉" is a number of chunks,
// and "[T>64]" is 1 where it holds and 0 elsewhere.
function size(axis, at) {
  if (axis.startsWith("[")) { const [source, least] = axis.slice(1, -1).split(">"); return Number(at[source] > Number(least)); }
  if (!axis.startsWith("⌈")) return at[axis];
  const [source, step] = axis.slice(1, -1).split("/");
  return Math.ceil(at[source] / Number(step));
}
function poly(terms, at) {
  return terms.reduce((sum, [c, powers]) => sum + Object.entries(powers).reduce((p, [axis, n]) => p * size(axis, at) ** n, c), 0);
}
function series(name, xs, f) { return { name, x: xs, y: xs.map(f), low: [], high: [] }; }
function spread(low, high, count) {
  return Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));
}

const PANELS = {
  cost(panel) {
    const { models, widths, degrees, measures, start } = panel.data;
    const lengths = Array.from({ length: 45 }, (_, i) => Math.round(2 ** (4 + i * 0.25)));
    panel.choice("T", "length T", lengths, 2048, group).choice("B", "batch B", [1, 2, 4, 8, 16, 32, 64], 1)
      .choice("D", "width D", widths, start.width, String).choice("degree", "Taylor degree", degrees, start.degree, String)
      .menu("measure", "what is counted", measures);
    panel.run((at) => {
      const shown = models.filter((m) => m.width === at.D && (m.degree === null || m.degree === at.degree));
      const lines = shown.map((m) => series(m.name, lengths, (T) => poly(m.costs[at.measure], { T, B: at.B })));
      const values = shown.map((m) => [m.name, poly(m.costs[at.measure], at)]);
      const softmax = shown.find((m) => m.reference), marks = [{ x: at.T, says: "T = " + group(at.T) }];
      const crossings = softmax ? shown.filter((m) => m !== softmax).map((m) => [m.name, crossover(m.costs[at.measure], softmax.costs[at.measure], at.B)]) : [];
      drawLines(panel.drawing, { title: panel.title, says: `${at.measure} against length.`, x: "T (tokens)", y: at.measure, log_x: true, log_y: true, series: lines, marks });
      const said = crossings.map(([name, T]) => (T === null ? `${name}: never` : T === 1 ? `${name}: at every length` : `${name}: from T = ${group(T)}`));
      panel.answer.textContent = softmax ? `Less than softmax attention — ${said.join("; ")}.` : "";
      panel.table(["model", at.measure + " at this T and B", "cheaper than softmax from T"], values.map(([name, v]) => {
        const found = crossings.find(([n]) => n === name);
        return [name, v, found ? (found[1] === null ? "never" : found[1]) : "–"];
      }));
    });
  },
  kernel(panel) {
    panel.slider("R", "logit range ±R", 0.25, 8, 0.25, 3, (v) => v.toFixed(2)).choice("degree", "degree", [1, 2, 3, 4, 5, 6, 8], 2);
    panel.run((at) => {
      const xs = spread(-at.R, at.R, 161), p = (s) => taylor(s, at.degree);
      drawLines(panel.drawing, { title: panel.title, says: `exp and its Taylor polynomial of degree ${at.degree}.`, x: "logit q·k", y: "weight", log_x: false, log_y: false,
        series: [series("exp", xs, Math.exp), series("Taylor " + at.degree, xs, p)], marks: [] });
      const worst = Math.max(...xs.map((s) => Math.abs(p(s) / Math.exp(s) - 1)));
      const bound = (at.R ** (at.degree + 1) * Math.exp(at.R)) / factorial(at.degree + 1);
      const least = Math.min(...spread(-at.R, at.R, 2001).map(p));
      panel.answer.textContent = `Worst relative error ${worst.toPrecision(3)} (bound ${bound.toPrecision(3)}); least weight ${least.toPrecision(3)}` +
        (least <= 0 ? ": not positive, so a normaliser may vanish." : ": positive everywhere in this range.");
      panel.table(["logit", "exp", "polynomial", "relative error"], xs.filter((_, i) => i % 8 === 0).map((s) => [s, Math.exp(s), p(s), p(s) / Math.exp(s) - 1]));
    });
  },
  copying(panel) {
    panel.slider("beta", "norm β of the vectors", 0.05, 5, 0.05, 2, (v) => v.toFixed(2));
    panel.run((at) => {
      const B = at.beta ** 2, scores = [[2 * B, 0, B], [0, B, 0], [B, 0, 2 * B]];
      const weights = scores.map((row) => { const e = row.map((s) => Math.exp(s - Math.max(...row))); const z = e.reduce((a, b) => a + b); return e.map((w) => w / z); });
      drawMatrix(panel.drawing, { title: panel.title, says: "Attention weights of the three tokens.", rows: "from token", columns: "to token", values: weights,
        row_names: ["x₁ = d+b", "x₂ = a", "x₃ = c+d"], column_names: ["x₁", "x₂", "x₃"], printed: true, signed: false });
      panel.answer.textContent = `x₁ keeps ${(100 * weights[0][0]).toFixed(2)} % of itself, x₂ ${(100 * weights[1][1]).toFixed(2)} %. ` +
        (weights[1][1] > 0.99 ? "Attention copies." : weights[0][0] < 0.4 ? "Attention averages." : "Neither copying nor averaging: the norm decides, not orthogonality alone.");
      panel.table(["from", "to x₁", "to x₂", "to x₃"], weights.map((row, i) => ["x" + "₁₂₃"[i], ...row]));
    });
  },
  positions(panel) {
    panel.choice("d", "width d", [4, 8, 16, 32, 64], 32).slider("T", "positions", 8, 128, 8, 64).menu("what", "encoding", ["sinusoidal", "rotary similarity", "ALiBi"]);
    panel.run((at) => {
      const theta = (i) => 10000 ** (-(2 * Math.floor(i / 2)) / at.d), rows = spread(0, at.T - 1, at.T);
      const picture = { sinusoidal: () => rows.map((p) => Array.from({ length: at.d }, (_, i) => (i % 2 ? Math.cos : Math.sin)(p * theta(i)))),
        "rotary similarity": () => rows.map((p) => rows.map((q) => Array.from({ length: at.d / 2 }, (_, i) => Math.cos((p - q) * theta(2 * i))).reduce((a, b) => a + b) / (at.d / 2))),
        ALiBi: () => rows.map((p) => rows.map((q) => (q <= p ? -(p - q) / 4 : -at.T / 4))) }[at.what]();
      const says = { sinusoidal: "Each row is the code that is added to the token at that position.", "rotary similarity": "Mean cosine between a rotated vector and itself, for every pair of positions: a function of the difference only.",
        ALiBi: "The bias of a head with slope 1/4; the future (upper right) is masked." }[at.what];
      drawMatrix(panel.drawing, { title: panel.title, says, rows: "position", columns: at.what === "sinusoidal" ? "dimension" : "position", values: picture, row_names: [], column_names: [], printed: false, signed: true });
      panel.answer.textContent = says;
      panel.table(["position", ...picture[0].slice(0, 8).map((_, j) => String(j))], picture.slice(0, 16).map((row, p) => [p, ...row.slice(0, 8).map((v) => +v.toFixed(6))]));
    });
  },
};
function factorial(n) { return n < 2 ? 1 : n * factorial(n - 1); }
function taylor(s, degree) { let term = 1, sum = 1; for (let n = 1; n <= degree; n++) { term *= s / n; sum += term; } return sum; }
// The length from which on `a` costs less than `b`: 1 for always, null for never. Between block sizes the order may
// change and change back, so the last length at which `a` is not cheaper is what counts.
function crossover(a, b, B) {
  const cheaper = (T) => poly(a, { T, B }) < poly(b, { T, B });
  let high = 2 ** 40;
  if (!cheaper(high)) return null;
  while (high > 1 && cheaper(high / 2)) high /= 2;
  let low = Math.floor(high / 2);
  while (high - low > 1) { const middle = Math.floor((low + high) / 2); if (cheaper(middle)) high = middle; else low = middle; }
  for (let T = Math.min(high + 4096, 2 ** 40); T > 0; T--) if (!cheaper(T)) return T + 1;
  return 1;
}
