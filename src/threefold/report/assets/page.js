"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const panels = [];
function drawAll() {
  for (const holder of document.querySelectorAll("[data-figure]")) {
    const figure = DATA.figures[Number(holder.dataset.figure)];
    DRAW[figure.kind](holder, figure);
  }
  for (const panel of panels) panel.update();
}
for (const button of document.querySelectorAll("[data-csv]")) {
  const figure = DATA.figures[Number(button.dataset.csv)];
  button.addEventListener("click", () => download(figure.title.replace(/[^\w-]+/g, "-") + ".csv", figure.table[0], figure.table[1]));
}
for (const holder of document.querySelectorAll("[data-panel]")) {
  const panel = DATA.panels[Number(holder.dataset.panel)];
  const made = new Panel(holder, panel);
  PANELS[panel.name](made);
  if (made.redraw) panels.push(made);
}
drawAll();
let waiting = 0;
window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 120); });
document.documentElement.dataset.ready = "yes";
