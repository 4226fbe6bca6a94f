// SPDX-License-Identifier: MIT
// Draws every chart whose data lies beside it, and tells when all are done.
"use strict";
const charts = JSON.parse(document.getElementById("charts").textContent);
const config = { responsive: true, displayModeBar: false, showSendToCloud: false };
const narrow = () => window.innerWidth < 640;

function fitted(layout) {
  if (!narrow()) return layout;
  return { ...layout, font: { ...layout.font, size: 11 }, legend: { ...layout.legend, font: { size: 11 } }, margin: { l: 40, r: 10, t: 8, b: 40 } };
}

Promise.all(
  charts.map((chart) => Plotly.newPlot(document.getElementById(chart.id), chart.data, fitted(chart.layout), config))
).then(() => {
  document.documentElement.dataset.drawn = charts.length;
});
