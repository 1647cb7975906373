// What became of the configuration, on all nodes.
import { el, table } from './dom.js';
import { alerts } from './overview.js';
import { ago, chip } from './parts.js';

export function config({ live, levels }) {
  const about = live.warnings.filter((w) => ['config', 'files', 'origin', 'held', 'stale', 'redis', 'differs', 'certificate'].includes(w.kind));
  return [
    el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, 'Configuration'), el('p', { class: 'soft' }, 'reloaded when the file changes, on SIGHUP, and by xdsrelay reload')),
    alerts(about),
    el('section', { class: 'card', 'data-key': 'nodes', 'aria-labelledby': 'h-nodes' }, el('header', {}, el('h2', { id: 'h-nodes' }, 'Active configuration')),
      table('Configuration of each node', [{ title: 'Node' }, { title: 'State' }, { title: 'Active since' }, { title: 'From' }, { title: 'Needs a restart' }], live.nodes.map((n) => {
        const s = n.settings;
        return { key: n.name, cells: [n.name, s ? state(s) : chip('bad', 'unknown'), s ? ago(s.loaded) : null, s ? el('span', { class: 'mono' }, s.file || 'flags and environment') : null, s?.restart?.join(', ')] };
      }), { class: 'cards' })),
    el('section', { class: 'card', 'data-key': 'upstreams', 'aria-labelledby': 'h-upstreams' }, el('header', {}, el('h2', { id: 'h-upstreams' }, 'Upstreams'), el('p', { class: 'soft small' }, `of ${live.self}`)),
      table('Upstreams', [{ title: 'Upstream' }, { title: 'Kind' }, { title: 'Addresses' }, { title: 'Variant' }, { title: 'Types' }, { title: 'Problems' }], live.upstreams.map((o) => ({ key: o.name, cells: [o.name, o.kind, el('span', { class: 'mono' }, o.where.join(', ')), o.variant, (o.types ?? []).join(', '),
        o.problems?.length ? el('ul', { class: 'reason' }, o.problems.map((p) => el('li', { 'data-key': p }, p))) : null] })), { class: 'cards' })),
    levels ? el('section', { class: 'card', 'data-key': 'levels', 'aria-labelledby': 'h-levels' }, el('header', {}, el('h2', { id: 'h-levels' }, 'Log levels'), el('p', { class: 'soft small' }, `of ${live.self}; xdsrelay log-level changes them`)),
      el('dl', { class: 'facts' }, Object.entries(levels).sort().map(([part, level]) => el('div', { 'data-key': part }, el('dt', {}, part || 'all others'), el('dd', {}, level))))) : null,
  ];
}

function state(s) {
  if (s.rejected) return chip('bad', 'new configuration rejected');
  return s.restart?.length ? chip('warn', 'needs a restart') : chip('ok', 'active');
}
