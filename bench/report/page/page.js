// Draws the plots of each case from data, and again when the theme changes.
(() => {
  "use strict";
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const font = '12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
  const height = 230;
  let drawn = [];
  let waiting = []; // plots whose width is known once all figures are in place

  const axis = (values, extra = {}) => ({
    stroke: css("--soft"), font, values,
    grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1 }, ...extra,
  });
  // Three digits at most, and no more decimals than that needs.
  const short = (v) => v == null ? "–" : v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
  const series = (format) => data.targets.map((label, i) => ({
    label, stroke: css("--t" + i), width: 2, spanGaps: true, points: { show: false },
    value: (_, v) => format(v),
  }));

  function draw(place, title, table, options) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    figure.append(caption);
    place.append(figure);
    waiting.push(() => {
      const plot = new uPlot({ width: figure.clientWidth || 320, height, ...options }, table, figure);
      drawn.push({ plot, figure });
    });
  }

  // Percentiles are spread so that each further nine takes as much room.
  const spread = (p) => -Math.log10(1 - Math.min(p, 99.999) / 100);
  const percentiles = [0, 90, 99, 99.9, 99.99];

  function latency(place, curve) {
    draw(place, curve.step + ": " + curve.what + " by percentile, ms", [curve.percentiles.map(spread), ...curve.values], {
      scales: { x: { time: false }, y: { distr: 3 } },
      axes: [
        axis((_, splits) => splits.map((v) => (v === 0 ? "0" : String(+(100 - 100 * Math.pow(10, -v)).toFixed(2))) + " %"),
          { splits: () => percentiles.map(spread) }),
        axis((_, splits) => splits.map((v) => v == null ? "" : String(+v.toPrecision(2))), { size: 58 }),
      ],
      series: [{ label: "percentile", value: (_, v) => v == null ? "–" : (100 - 100 * Math.pow(10, -v)).toFixed(2) + " %" },
        ...series((v) => v == null ? "–" : short(v) + " ms")],
    });
  }

  function overTime(place, title, tables, unit) {
    if (tables.every((t) => t[0].length === 0)) return;
    draw(place, title, uPlot.join(tables), {
      scales: { x: { time: false }, y: { range: (_, __, max) => [0, (max || 1) * 1.05] } },
      axes: [
        axis((_, splits) => splits.map((v) => v + " s")),
        axis((_, splits) => splits.map((v) => String(+v.toFixed(2))), { size: 58 }),
      ],
      series: [{ label: "time", value: (_, v) => v == null ? "–" : v.toFixed(1) + " s" },
        ...series((v) => v == null ? "–" : short(v) + " " + unit)],
    });
  }

  function all() {
    for (const { plot } of drawn) plot.destroy();
    drawn = [];
    document.querySelectorAll(".plots").forEach((place) => {
      place.replaceChildren();
      const plots = data.cases[+place.dataset.case];
      for (const curve of plots.curves) latency(place, curve);
      overTime(place, "CPU of the target, cores", plots.cpu, "cores");
      overTime(place, "Resident memory of the target, MiB", plots.rss, "MiB");
    });
    for (const plot of waiting) plot();
    waiting = [];
  }

  all();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const { plot, figure } of drawn) plot.setSize({ width: figure.clientWidth, height });
  });
})();
