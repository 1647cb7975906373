// The keys of the tier, page by page.
import { el, table } from './dom.js';
import { bytes, count, number } from './format.js';
import { ago, search, silence, stateBar, words } from './parts.js';

export const pageSize = 50;

export function keysPath({ search: text, pages }) {
  const q = new URLSearchParams({ limit: pageSize });
  for (const [name, value] of Object.entries({ search: text, page: pages[pages.length - 1] })) if (value) q.set(name, value);
  return `/api/v1/keys?${q}`;
}

export const href = (query) => `#/keys${query.search ? `?${new URLSearchParams({ search: query.search })}` : ''}`;

export function keys({ data, query, go }) {
  return [
    el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, 'Keys'), el('p', { class: 'soft' }, 'clients with the same key share one stream to the control plane')),
    el('section', { class: 'card', 'data-key': 'list', 'aria-label': 'List of keys' },
      el('div', { class: 'tools' }, search({ label: 'Search by key', value: query.search ?? '', onSearch: (text) => go(href({ search: text })) })),
      data ? list(data, query) : el('p', { class: 'empty' }, 'Loading…')),
  ];
}

function list(data, query) {
  const rows = data.keys.map((k) => {
    const states = {};
    for (const n of k.nodes) for (const [s, v] of Object.entries(n.states ?? {})) states[s] = (states[s] ?? 0) + v;
    const best = k.nodes.find((n) => n.node === k.owner) ?? k.nodes[0];
    const streams = k.nodes.reduce((sum, n) => sum + n.clients, 0);
    return { key: k.key, cells: [el('a', { href: `#/clients?key=${encodeURIComponent(k.key)}` }, k.key), k.owner || 'none', number(streams), stateBar(states, `Clients of ${k.key}`),
      number(best?.resources ?? 0), bytes(best?.bytes ?? 0), number(best?.updates ?? 0),
      el('ul', {}, k.nodes.map((n) => el('li', { 'data-key': n.node, class: 'small' }, `${n.node} `, el('span', { class: 'soft' }, `${place(n)} `), ago(n.since, { since: 'bare' }), notes(n)))) ] };
  });
  const begin = (query.pages.length - 1) * pageSize;
  return [
    silence(data.silent),
    rows.length ? table('Keys', [{ title: 'Key' }, { title: 'Owner' }, { title: 'Streams', num: true }, { title: 'Client states' }, { title: 'Resources', num: true }, { title: 'Size', num: true }, { title: 'Updates', num: true }, { title: 'Nodes' }], rows, { class: 'cards', 'data-key': 'table' })
      : el('p', { class: 'empty', 'data-key': 'none' }, query.search ? 'No keys match.' : 'No client has connected yet.'),
    el('div', { class: 'pager', 'data-key': 'pager' },
      el('span', { class: 'soft small' }, rows.length ? `${number(begin + 1)} to ${number(begin + rows.length)}` : ''),
      el('button', { type: 'button', disabled: query.pages.length < 2, onclick: () => query.turn(-1) }, 'Previous'),
      el('button', { type: 'button', disabled: !data.next, onclick: () => query.turn(1, data.next) }, 'Next')),
  ];
}

function place(n) {
  if (n.state === 'follower') return `follower of ${n.from}`;
  if (n.state === 'fallback') return `fallback, owner ${n.from} unreachable`;
  return words(n.state);
}

function notes(n) {
  const all = [];
  if (n.state !== 'idle' && !n.connected) all.push(n.error ? 'no upstream stream' : 'connecting');
  if (n.stale) all.push('last known good, unconfirmed');
  if (n.held_removals) all.push(`${count(n.held_removals, 'held removal')}`);
  if (n.error) all.push(n.error);
  // The reason why a key is idle is not a problem.
  return all.length ? el('span', { class: n.state === 'idle' && !n.stale && !n.held_removals ? 'soft' : 'reason' }, ` ${all.join('; ')}`) : null;
}
