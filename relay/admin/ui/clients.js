// The list of clients by page, and the view of one client.
import { el, table } from './dom.js';
import { bytes, count, number, share, stateNames, stateOrder } from './format.js';
import { ago, chip, clientLink, keyLink, search, select, shorten, silence, sorts } from './parts.js';

export const pageSize = 50;

const filters = ['state', 'search', 'type', 'key', 'node', 'reason'];

export function clientsPath(query) {
  const q = new URLSearchParams({ limit: pageSize });
  for (const name of [...filters, 'sort']) if (query[name]) q.set(name, query[name]);
  const page = query.pages[query.pages.length - 1];
  if (page) q.set('page', page);
  return `/api/v1/clients?${q}`;
}

const orders = [['', 'name'], ['state', 'worst state'], ['since', 'longest in trouble']];

export function clients({ data, query, live, go }) {
  const all = live?.clients.clients ?? 0;
  const filter = (state, text, n) => el('a', { 'data-key': state || 'all', href: href({ ...query, state }), 'aria-current': (query.state ?? '') === state ? 'true' : null }, text, n === null ? null : [' ', el('span', { class: 'soft' }, number(n), state && n ? el('span', { class: 'part' }, ` ${share(n, all)}`) : null)]);
  const narrowed = ['key', 'reason'].filter((n) => query[n]);
  return [
    el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, 'Clients'),
      narrowed.map((n) => el('p', { class: 'soft', 'data-key': n }, `${n} `, n === 'key' ? keyLink(query.key) : query[n], ' ', el('a', { href: href({ ...query, [n]: '' }) }, 'show all')))),
    el('section', { class: 'card', 'data-key': 'list', 'aria-label': 'List of clients' },
      el('div', { class: 'tools' },
        search({ label: 'Search by name', value: query.search ?? '', onSearch: (text) => go(href({ ...query, search: text })) }),
        el('nav', { 'aria-label': 'Clients by state', class: 'filters' }, filter('', 'All', live?.clients.clients ?? null),
          stateOrder.filter((s) => s !== 'UNKNOWN' || live?.clients.states[s]).map((s) => filter(s, stateNames[s], live?.clients.states[s] ?? 0)), live?.clients.missing || query.state === 'MISSING' ? filter('MISSING', stateNames.MISSING, live?.clients.missing ?? 0) : null),
        select({ label: 'Type', all: 'all types', options: (live?.clients.types ?? []).map((t) => t.type), value: query.type, onSelect: (type) => go(href({ ...query, type })) }),
        select({ label: 'Node', all: 'all nodes', options: (live?.nodes ?? []).map((n) => n.name), value: query.node, onSelect: (node) => go(href({ ...query, node })) }),
        sorts(orders, query.sort ?? '', (sort) => href({ ...query, sort }))),
      data ? data.error ? el('p', { class: 'reason', 'data-key': 'error' }, data.error) : list(data, query) : el('p', { class: 'empty' }, 'Loading…')),
  ];
}

export function href(query) {
  const q = new URLSearchParams();
  for (const name of [...filters, 'sort']) if (query[name]) q.set(name, query[name]);
  return `#/clients${q.size ? `?${q}` : ''}`;
}

function list(data, query) {
  const rows = data.clients.map((c) => {
    const bad = c.types.filter((t) => t.nack || t.missing || (t.state !== 'SYNCED' && t.state !== 'NOT_SENT'));
    return { key: `${c.name}|${c.key}|${c.node}|${c.peer}`, cells: [
      clientLink(c.name), keyLink(c.key), c.node, chip(c.state), ago(c.since),
      bad.length ? el('div', {}, bad.map((t) => el('p', { 'data-key': t.type_url }, el('b', {}, t.type), t.nack ? el('span', { class: 'reason' }, ` ${t.nack.message}`) : el('span', { class: 'soft' }, ` ${stateNames[t.state].toLowerCase()}`), t.missing ? el('span', { class: 'reason' }, ` ${count(t.missing, 'resource')} missing`) : null))) : null,
      c.types.map((t) => t.type).join(' ')] };
  });
  const begin = (query.pages.length - 1) * pageSize;
  const whole = data.summary ? data.summary.clients : null;
  const by = (sort) => ({ href: href({ ...query, sort }), sorted: (query.sort ?? '') === sort ? 'ascending' : null });
  return [
    silence(data.silent),
    rows.length ? table('Clients', [{ title: 'Client', ...by('') }, { title: 'Key' }, { title: 'Node' }, { title: 'State', ...by('state') }, { title: 'Since', ...by('since') }, { title: 'Problems' }, { title: 'Types' }], rows, { class: 'cards', 'data-key': 'table' })
      : el('p', { class: 'empty', 'data-key': 'none' }, filters.some((n) => query[n]) ? 'No clients match.' : 'No client has connected yet.'),
    el('div', { class: 'pager', 'data-key': 'pager' },
      el('span', { class: 'soft small' }, rows.length ? `${number(begin + 1)} to ${number(begin + rows.length)}${whole ? ` of ${number(whole)}` : ''}` : ''),
      el('button', { type: 'button', disabled: query.pages.length < 2, onclick: () => query.turn(-1) }, 'Previous'),
      el('button', { type: 'button', disabled: !data.next, onclick: () => query.turn(1, data.next) }, 'Next')),
  ];
}

export const clientPath = (name) => `/api/v1/client?${new URLSearchParams({ client: name, resources: 500 })}`;

export const eventsPath = (name) => `/api/v1/client/events?${new URLSearchParams({ client: name, limit: 100 })}`;

const answers = { ack: 'ACK', nack: 'NACK' };

function what(e) {
  const took = e.seconds === undefined ? '' : ` after ${Math.round(e.seconds * 1000)} ms`;
  switch (e.event) {
    case 'connected': return `connected (${e.variant})${e.previous_node ? `, before that to node ${e.previous_node}` : ''}`;
    case 'sent': return `sent ${count(e.resources, 'resource')}, ${e.answer ? answers[e.answer] + took : 'no answer'}`;
    case 'nack': return `NACK: ${e.reason}`;
    case 'waited': return e.ongoing ? `waiting: ${e.reason}` : `waited ${Math.round(e.seconds)} s: ${e.reason}`;
    case 'resend_ordered': return 'an operator ordered to resend';
    case 'disconnected': return `disconnected: ${e.reason}${e.text ? `: ${e.text}` : ''}`;
    default: return e.event;
  }
}

// story lists the last events of a client, the newest first.
function story(events) {
  if (!events?.events?.length) return null;
  return el('details', { class: 'card', 'data-key': 'events' }, el('summary', {}, 'Events'), silence(events.silent),
    table('Events of the client', [{ title: 'Time' }, { title: 'Node' }, { title: 'Type' }, { title: 'Event' }, { title: 'Version' }],
      events.events.map((e, i) => ({ key: `${e.at}|${e.node}|${i}`, cells: [ago(e.at), e.node, e.type ?? null, what(e), e.version ? shorten(e.version, 16) : null] })).reverse(), { class: 'cards' }));
}

export function client({ data, story: events, name }) {
  const head = (text, ...more) => el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, text), more, el('p', {}, el('a', { href: '#/clients' }, 'all clients')));
  if (!data) return [head(name), el('p', { class: 'empty' }, 'Loading…')];
  if (!data.clients?.length) {
    const others = [...(data.names ?? []), ...(data.similar ?? [])];
    return [head(name), silence(data.silent), el('section', { class: 'card', 'data-key': 'none' }, el('p', {}, 'No client with this name is connected.'),
      others.length ? [el('p', { class: 'soft' }, 'Similar names:'), el('ul', {}, others.map((n) => el('li', { 'data-key': n }, clientLink(n))))] : null), story(events)];
  }
  return [head(data.clients[0].name, chip(data.clients[0].state)), silence(data.silent), data.clients.map((c, i) => one(c, i)), story(events)];
}

function one(c, i) {
  const fact = (name, value) => (value || value === 0 ? el('div', { 'data-key': name }, el('dt', {}, name), el('dd', {}, value)) : null);
  return el('div', { class: 'grid', 'data-key': `client-${i}` },
    el('section', { class: 'card', 'aria-label': 'Client' }, el('dl', { class: 'facts' },
      fact('State', [chip(c.state), ' ', el('span', { class: 'soft small' }, ago(c.since, { since: true }))]),
      fact('Key', [keyLink(c.key), c.rule ? el('span', { class: 'soft small' }, ` by rule ${c.rule}`) : null]),
      c.rollout ? fact('Rollout', [c.rollout.arm === 'canary' ? 'canary of ' : 'control group of ', el('a', { class: 'mono', href: '#/rollouts' }, c.rollout.revision)]) : null,
      fact('Node', [c.node, el('span', { class: 'soft small' }, ' from '), el('span', { class: 'mono' }, c.peer)]),
      c.polled ? fact('Polled', ago(c.polled)) : fact('Connected', ago(c.connected)), fact('Cluster', c.cluster), fact('Variant', c.polled ? c.variants.join(', ') : `${c.variants.join(', ')} on ${count(c.streams, 'stream')}`), fact('Awaiting ACK', bytes(c.unacked_bytes)))),
    el('section', { class: 'card', 'aria-labelledby': `types-${i}` }, el('header', {}, el('h2', { id: `types-${i}` }, 'Types')),
      c.types.length ? table('Types of the client', [{ title: 'Type' }, { title: 'State' }, { title: 'Since' }, { title: 'Version sent' }, { title: 'Acked / newest', num: true }, { title: 'Names', num: true }, { title: 'Missing', num: true }, { title: 'ACKs', num: true }, { title: 'NACKs', num: true }],
        c.types.map((t) => ({ key: t.type_url, cells: [el('span', { title: t.type_url }, t.type, t.private ? el('span', { class: 'tag' }, 'private') : null), [chip(t.state), t.waiting ? el('span', { class: 'soft small' }, ` ${t.waiting}`) : null], ago(t.since), t.version ? shorten(t.version, 16) : null,
          `${number(t.acked_generation)} / ${number(t.newest_generation)}`, t.wildcard ? (t.names ? `* + ${t.names}` : '*') : number(t.names), number(t.missing), number(t.acks), number(t.nacks)] })), { class: 'cards' })
        : el('p', { class: 'empty' }, 'The client has not subscribed to anything.')),
    c.types.filter((t) => t.nack).map((t) => el('section', { class: 'alert error', 'data-key': `nack-${t.type_url}`, 'aria-label': `Why ${t.type} was rejected` },
      el('div', { class: 'line' }, el('b', {}, `Rejected ${t.type}`), el('span', { class: 'soft small' }, ago(t.nack.at)), el('a', { class: 'small', href: `#/rejections?${new URLSearchParams({ type: t.type, reason: t.nack.message })}` }, 'all clients with this reason')), el('pre', {}, t.nack.message))),
    c.types.filter((t) => t.missing).map((t) => el('section', { class: 'alert', 'data-key': `missing-${t.type_url}`, 'aria-label': `Missing resources of ${t.type}` },
      el('div', { class: 'line' }, el('b', {}, `${count(t.missing, 'resource')} of ${t.type} missing`)),
      el('p', {}, `The client subscribes to resources that the control plane has not sent: ${(t.missing_names ?? []).join(', ')}${t.missing > (t.missing_names?.length ?? 0) ? ', …' : ''}`))),
    c.types.filter((t) => t.unacked_resends).map((t) => el('section', { class: 'alert', 'data-key': `resent-${t.type_url}`, 'aria-label': `${t.type} is not acknowledged` },
      el('div', { class: 'line' }, el('b', {}, `${t.type} resent without an ACK`), el('span', { class: 'soft small' }, ago(t.sent_at))),
      el('p', {}, `Resent ${count(t.unacked_resends, 'time')}. The client polls without this version: it rejects the version or does not receive the answers.`))),
    c.types.filter((t) => t.resources?.length).map((t) => el('details', { class: 'card', 'data-key': `res-${t.type_url}`, open: t.resources.length <= 20 },
      el('summary', {}, `${count(t.resources.length + (t.resources_omitted ?? 0), 'resource')} of ${t.type}`),
      table(`Resources of ${t.type}`, [{ title: 'Name' }, { title: 'State' }, { title: 'Version' }, { title: 'Changed' }],
        t.resources.map((r) => ({ key: r.name, cells: [r.name, [chip(r.state), r.exists ? null : el('span', { class: 'soft small' }, ' does not exist')], r.version ? shorten(r.version, 16) : null, ago(r.changed)] })), { class: 'cards' }),
      t.resources_omitted ? el('p', { class: 'soft' }, `and ${number(t.resources_omitted)} more; xdsrelay status ${c.name} lists them`) : null)));
}
