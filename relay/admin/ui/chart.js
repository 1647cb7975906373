// Pictures of the last hour, in SVG. Each has the same numbers as a table beside it.
import { el, table } from './dom.js';
import { clock } from './format.js';

const width = 600;
const height = 132;
const bottom = 1;
const top = 8;
const step = 10; // seconds between two samples

// ceiling is the next round number above the largest value.
function ceiling(value) {
  if (value <= 0) return 1;
  const scale = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * scale >= value * 1.001) * scale;
}

// chart draws series over time. series are {name, id, values}; show formats a value;
// stacked ones are areas on top of one another. at are seconds of Unix time, gaps those at
// which samples of a node are missing, marks events: {at, severity, text}.
export function chart({ key, title, at, gaps, marks, series, show, stacked }) {
  const end = Math.max(at[at.length - 1] ?? 0, gaps[gaps.length - 1] ?? 0);
  const begin = Math.min(at[0] ?? end, gaps[0] ?? end, end - 300); // at least five minutes are shown
  const x = (t) => ((t - begin) / Math.max(1, end - begin)) * width;
  const sums = stacked ? at.map((_, i) => series.reduce((sum, s) => sum + (s.values[i] ?? 0), 0)) : [];
  const most = ceiling(Math.max(0, ...(stacked ? sums : series.flatMap((s) => s.values.filter((v) => v !== null)))));
  const y = (v) => height - bottom - (v / most) * (height - bottom - top);

  const shapes = [];
  const under = at.map(() => 0);
  for (const s of series) {
    if (stacked) {
      const low = [...under];
      s.values.forEach((v, i) => { under[i] += v ?? 0; });
      if (s.values.every((v) => !v)) continue;
      const area = runs(at).map(([from, to]) => {
        const some = at.slice(from, to).map((t, i) => [x(t).toFixed(1), from + i]);
        const up = some.map(([px, i]) => `${px} ${y(under[i]).toFixed(1)}`);
        const down = some.map(([px, i]) => `${px} ${y(low[i]).toFixed(1)}`).reverse();
        return `M${up.concat(down).join('L')}Z`;
      });
      shapes.push(el('path', { class: `area area-${s.id}`, d: area.join('') }));
    } else {
      shapes.push(el('path', { class: `line-${s.id}`, d: line(at, s.values, x, y) }));
    }
  }
  const holes = runs(gaps).map(([from, to]) => el('rect', { class: 'gap', x: x(gaps[from] - step), width: Math.max(1, x(gaps[to - 1] + step) - x(gaps[from] - step)), y: 0, height }));
  const lines = marks.filter((m) => m.at >= begin && m.at <= end).map((m) => el('line', { class: `mark mark-${m.severity}`, x1: x(m.at), x2: x(m.at), y1: 0, y2: height - bottom }));
  const rules = [most, most / 2, 0].map((v) => el('line', { class: 'rule', x1: 0, x2: width, y1: y(v), y2: y(v) }));
  const newest = at.length - 1;
  const legend = el('ul', { class: 'legend' }, legendOf(series, newest, show, at));
  const cursor = el('line', { class: 'cursor', y1: top, y2: height - bottom, x1: -9, x2: -9 });
  const picture = el('svg', {
    viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': describe(title, series, newest, show),
    onpointermove(event) {
      const box = event.currentTarget.getBoundingClientRect();
      const t = begin + ((event.clientX - box.left) / box.width) * (end - begin);
      const i = nearest(at, t);
      if (i < 0) return;
      const here = event.currentTarget.querySelector('.cursor');
      here.setAttribute('x1', x(at[i]));
      here.setAttribute('x2', x(at[i]));
      event.currentTarget.closest('.chart').querySelector('.legend').replaceChildren(...legendOf(series, i, show, at), ...marksNear(marks, at[i]));
    },
    onpointerleave(event) {
      const here = event.currentTarget.querySelector('.cursor');
      here.setAttribute('x1', -9);
      here.setAttribute('x2', -9);
      event.currentTarget.closest('.chart').querySelector('.legend').replaceChildren(...legendOf(series, newest, show, at));
    },
  }, holes, rules, shapes, lines, cursor);
  const ticks = [begin, (begin + end) / 2, end].map((t) => el('span', {}, at.length ? clock(new Date(t * 1000)).slice(0, 5) : ''));
  return el('figure', { class: 'chart', 'data-key': key },
    legend,
    el('div', { class: 'plot' },
      el('div', { class: 'scale', 'aria-hidden': 'true' }, el('span', {}, show(most)), el('span', {}, show(most / 2)), el('span', {}, '0')),
      picture),
    el('div', { class: 'times', 'aria-hidden': 'true' }, ticks),
    gaps.length ? el('p', { class: 'soft small' }, 'Gray: samples of a node that left or does not answer are missing.') : null,
    numbers(title, at, series, show));
}

function legendOf(series, i, show, at) {
  const items = series.map((s) => el('li', {}, el('span', { class: `swatch key-${s.id}`, 'aria-hidden': 'true' }), `${s.name} `, el('b', {}, value(s, i, show))));
  if (i >= 0 && i < at.length - 1) items.push(el('li', {}, `at ${clock(new Date(at[i] * 1000))}`));
  return items;
}

// marksNear are the events at a sample, for the legend.
function marksNear(marks, t) {
  return marks.filter((m) => Math.abs(m.at - t) <= step).slice(-3).map((m) => el('li', {}, m.text));
}

function value(s, i, show) {
  const v = i < 0 ? null : s.values[i];
  return v === null || v === undefined ? '–' : show(v);
}

// runs are the parts of times without a gap between them, each as its begin and end.
function runs(at) {
  const all = [];
  at.forEach((t, i) => {
    if (i && t - at[i - 1] < 2 * step) all[all.length - 1][1] = i + 1;
    else all.push([i, i + 1]);
  });
  return all;
}

// line joins neighbours; where there is nothing to show, there is a gap, and what stands
// alone becomes a short dash.
function line(at, values, x, y) {
  let d = '';
  let open = false;
  values.forEach((v, i) => {
    if (v === null || v === undefined) {
      open = false;
      return;
    }
    if (i && at[i] - at[i - 1] >= 2 * step) open = false;
    const alone = !open && (values[i + 1] === null || values[i + 1] === undefined);
    d += `${open ? 'L' : 'M'}${x(at[i]).toFixed(1)} ${y(v).toFixed(1)}`;
    if (alone) d += `h2`;
    open = true;
  });
  return d;
}

function nearest(at, t) {
  let best = -1;
  at.forEach((a, i) => { if (best < 0 || Math.abs(a - t) < Math.abs(at[best] - t)) best = i; });
  return best;
}

function describe(title, series, newest, show) {
  return `${title}, now ${series.map((s) => `${s.name} ${value(s, newest, show)}`).join(', ')}. The table below has the numbers of the last hour.`;
}

// numbers is the same as a table, a row a minute, made when it is opened.
function numbers(title, at, series, show) {
  const rows = [];
  for (let i = at.length - 1; i >= 0; i -= 6) {
    rows.push({ key: String(at[i]), cells: [clock(new Date(at[i] * 1000)), ...series.map((s) => value(s, i, show))] });
  }
  return el('details', {}, el('summary', {}, 'As a table'),
    el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${title}, as a table` },
      table(title, [{ title: 'Time' }, ...series.map((s) => ({ title: s.name, num: true }))], rows)));
}
