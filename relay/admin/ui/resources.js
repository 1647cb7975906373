// Who has a resource: its versions, the keys that serve it, and its clients.
import { el, table } from './dom.js';
import { count, number, share, stateNames } from './format.js';
import { ago, chip, clientLink, keyLink, search, shorten, silence } from './parts.js';

export const pageSize = 50;

// resourcesPath is null as long as no name is given.
export function resourcesPath({ search: text, type, pages }) {
  if (!text) return null;
  const q = new URLSearchParams({ resource: text, limit: pageSize });
  for (const [name, value] of Object.entries({ type, page: pages[pages.length - 1] })) if (value) q.set(name, value);
  return `/api/v1/resource?${q}`;
}

export function href(query) {
  const q = new URLSearchParams();
  for (const name of ['search', 'type']) if (query[name]) q.set(name, query[name]);
  return `#/resources${q.size ? `?${q}` : ''}`;
}

export function resources({ data, query, go }) {
  return [
    el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, 'Resources'), el('p', { class: 'soft' }, 'keys that serve a resource, and clients that have it; * matches any text')),
    el('section', { class: 'card', 'data-key': 'list', 'aria-label': 'Search for a resource' },
      el('div', { class: 'tools' }, search({ label: 'Name of a resource', value: query.search ?? '', onSearch: (text) => go(href({ ...query, search: text })) })),
      !query.search ? el('p', { class: 'empty' }, 'Enter the name of a resource.') : data ? null : el('p', { class: 'empty' }, 'Asking…')),
    query.search && data ? answer(data, query) : null,
  ];
}

function inWords(states) {
  const all = Object.values(states).reduce((a, b) => a + b, 0);
  return Object.entries(states).map(([s, n]) => `${number(n)} ${(stateNames[s] ?? s).toLowerCase()}${n < all ? ` (${share(n, all)})` : ''}`).join(', ') || 'none';
}

function answer(data, query) {
  const later = query.pages.length > 1;
  if (!data.resources?.length && !later) {
    return el('section', { class: 'card', 'data-key': 'none' }, silence(data.silent), el('p', {}, data.error ?? 'No key serves such a resource, and no client subscribes to it.'),
      data.similar?.length ? [el('p', { class: 'soft' }, 'Similar names:'), el('ul', {}, data.similar.map((n) => el('li', { 'data-key': n }, el('a', { href: href({ search: n }) }, n))))] : null);
  }
  const versions = data.resources.flatMap((r) => r.versions.map((v) => ({ key: `${r.type_url}|${r.name}|${v.version}|${v.digest}`, cells: [
    `${r.type} ${r.name}`, v.version ? shorten(v.version, 16) : 'does not exist', `${number(v.keys)}${v.more_keys ? '+' : ''}`, inWords(v.states)] })));
  const copies = data.copies.slice(0, pageSize).map((c) => ({ key: `${c.type_url}|${c.name}|${c.key}|${c.node}`, cells: [
    `${c.type} ${c.name}`, keyLink(c.key), c.node === c.owner ? `${c.node} (owner)` : c.node, c.version ? shorten(c.version, 16) : null, ago(c.changed), c.problem ? `${c.standing.toLowerCase()}: ${c.problem}` : c.standing.toLowerCase(), inWords(c.states)] }));
  const more = data.copies.length + (data.copies_omitted ?? 0) - copies.length;
  const clients = data.clients.map((c) => ({ key: `${c.name}|${c.key}|${c.node}|${c.peer}|${c.type_url}|${c.resource}`, cells: [
    clientLink(c.name), `${c.type} ${c.resource}`, keyLink(c.key), c.node, chip(c.state), ago(c.since), c.interest, `${c.has}${c.removed ? ' (removed)' : ''}`,
    c.nack ? el('span', { class: 'reason' }, c.nack.message) : c.waiting ?? null] }));
  const begin = (query.pages.length - 1) * pageSize;
  return [
    silence(data.silent),
    later ? null : el('section', { class: 'card', 'data-key': 'versions', 'aria-labelledby': 'versions' }, el('header', {}, el('h2', { id: 'versions' }, 'Versions')),
      table('Versions', [{ title: 'Resource' }, { title: 'Version' }, { title: 'Keys', num: true }, { title: 'Clients' }], versions, { class: 'cards' }),
      data.more_resources ? el('p', { class: 'soft' }, 'More resources match: enter more of the name.') : null),
    later ? null : el('section', { class: 'card', 'data-key': 'copies', 'aria-labelledby': 'copies' }, el('header', {}, el('h2', { id: 'copies' }, 'Keys')),
      table('Keys', [{ title: 'Resource' }, { title: 'Key' }, { title: 'Node' }, { title: 'Version' }, { title: 'Changed' }, { title: 'Standing' }, { title: 'Clients' }], copies, { class: 'cards' }),
      more > 0 ? el('p', { class: 'soft' }, `and ${number(more)} more`) : null),
    el('section', { class: 'card', 'data-key': 'clients', 'aria-labelledby': 'clients' }, el('header', {}, el('h2', { id: 'clients' }, 'Clients'), el('span', { class: 'soft small' }, 'the worst state first')),
      clients.length ? table('Clients', [{ title: 'Client' }, { title: 'Resource' }, { title: 'Key' }, { title: 'Node' }, { title: 'State' }, { title: 'Since' }, { title: 'Subscribed by' }, { title: 'Has' }, { title: 'Reason' }], clients, { class: 'cards' })
        : el('p', { class: 'empty' }, 'No client subscribes to it.'),
      el('div', { class: 'pager', 'data-key': 'pager' },
        el('span', { class: 'soft small' }, clients.length ? `${number(begin + 1)} to ${number(begin + clients.length)} of ${later ? 'all' : count(data.resources.reduce((n, r) => n + r.selected, 0), 'subscription')}` : ''),
        el('button', { type: 'button', disabled: query.pages.length < 2, onclick: () => query.turn(-1) }, 'Previous'),
        el('button', { type: 'button', disabled: !data.next, onclick: () => query.turn(1, data.next) }, 'Next'))),
  ];
}
