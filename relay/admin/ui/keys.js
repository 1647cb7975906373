// The keys of the tier, page by page.
import { el, table } from './dom.js';
import { bytes, count, number } from './format.js';
import { ago, keyLink, search, select, silence, sorts, stateBar, sumStates, synced, words } from './parts.js';

export const pageSize = 50;

const filters = ['search', 'state', 'owner'];

export function keysPath(query) {
  const q = new URLSearchParams({ limit: pageSize });
  for (const name of [...filters, 'sort']) if (query[name]) q.set(name, query[name]);
  const page = query.pages[query.pages.length - 1];
  if (page) q.set('page', page);
  return `/api/v1/keys?${q}`;
}

export function href(query) {
  const q = new URLSearchParams();
  for (const name of [...filters, 'sort']) if (query[name]) q.set(name, query[name]);
  return `#/keys${q.size ? `?${q}` : ''}`;
}

const orders = [['', 'key'], ['state', 'worst state'], ['clients', 'clients'], ['size', 'size'], ['updates', 'updates']];
const states = [['', 'All'], ['nacked', 'Rejected'], ['disconnected', 'Disconnected'], ['stale', 'Stale'], ['fallback', 'Fallback'], ['unconfirmed', 'Unconfirmed'], ['held', 'Held removals'], ['idle', 'Idle']];

export function keys({ data, query, live, go }) {
  return [
    el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, 'Keys'), el('p', { class: 'soft' }, 'clients with the same key share one stream to the control plane')),
    el('section', { class: 'card', 'data-key': 'list', 'aria-label': 'List of keys' },
      el('div', { class: 'tools' }, search({ label: 'Search by key', value: query.search ?? '', onSearch: (text) => go(href({ ...query, search: text })) }),
        el('nav', { 'aria-label': 'Keys by state', class: 'filters' }, states.map(([s, text]) => el('a', { 'data-key': s || 'all', href: href({ ...query, state: s }), 'aria-current': (query.state ?? '') === s ? 'true' : null }, text))),
        select({ label: 'Owner', all: 'all nodes', options: (live?.nodes ?? []).map((n) => n.name), value: query.owner, onSelect: (owner) => go(href({ ...query, owner })) }),
        sorts(orders, query.sort ?? '', (sort) => href({ ...query, sort }))),
      data ? data.error ? el('p', { class: 'reason', 'data-key': 'error' }, data.error) : list(data, query) : el('p', { class: 'empty' }, 'Loading…')),
  ];
}

function list(data, query) {
  const rows = data.keys.map((k) => {
    const all = sumStates(k.nodes);
    const best = k.nodes.find((n) => n.node === k.owner) ?? k.nodes[0];
    const streams = k.nodes.reduce((sum, n) => sum + n.clients, 0);
    return { key: k.key, cells: [keyLink(k.key), k.owner || 'none', el('a', { href: `#/clients?${new URLSearchParams({ key: k.key })}` }, number(streams)), [stateBar(all, `Clients of ${k.key}`), synced(all)],
      number(best?.resources ?? 0), bytes(best?.bytes ?? 0), number(best?.updates ?? 0),
      el('ul', {}, k.nodes.map((n) => el('li', { 'data-key': n.node, class: 'small' }, `${n.node} `, el('span', { class: 'soft' }, `${place(n)} `), ago(n.since, { since: 'bare' }), notes(n)))) ] };
  });
  const begin = (query.pages.length - 1) * pageSize;
  const by = (sort) => ({ href: href({ ...query, sort }), sorted: (query.sort ?? '') !== sort ? null : sort === '' || sort === 'state' ? 'ascending' : 'descending' });
  return [
    silence(data.silent),
    rows.length ? table('Keys', [{ title: 'Key', ...by('') }, { title: 'Owner' }, { title: 'Streams', num: true, ...by('clients') }, { title: 'Client states', ...by('state') }, { title: 'Resources', num: true }, { title: 'Size', num: true, ...by('size') }, { title: 'Updates', num: true, ...by('updates') }, { title: 'Nodes' }], rows, { class: 'cards', 'data-key': 'table' })
      : el('p', { class: 'empty', 'data-key': 'none' }, filters.some((n) => query[n]) ? 'No keys match.' : 'No client has connected yet.'),
    el('div', { class: 'pager', 'data-key': 'pager' },
      el('span', { class: 'soft small' }, rows.length ? `${number(begin + 1)} to ${number(begin + rows.length)}${data.total ? ` of ${number(data.total)}` : ''}` : ''),
      el('button', { type: 'button', disabled: query.pages.length < 2, onclick: () => query.turn(-1) }, 'Previous'),
      el('button', { type: 'button', disabled: !data.next, onclick: () => query.turn(1, data.next) }, 'Next')),
  ];
}

export function place(n) {
  if (n.state === 'follower') return `follower of ${n.from}`;
  if (n.state === 'fallback') return `fallback, owner ${n.from} unreachable`;
  return words(n.state);
}

export function notes(n) {
  const all = [];
  if (n.state !== 'idle' && !n.connected) all.push(n.error ? 'no upstream stream' : 'connecting');
  if (n.stale) all.push('last known good, unconfirmed');
  if (n.held_removals) all.push(`${count(n.held_removals, 'held removal')}`);
  if (n.error) all.push(n.error);
  // The reason why a key is idle is not a problem.
  return all.length ? el('span', { class: n.state === 'idle' && !n.stale && !n.held_removals ? 'soft' : 'reason' }, ` ${all.join('; ')}`) : null;
}
