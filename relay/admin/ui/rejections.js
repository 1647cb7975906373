// Why clients reject: the reasons, and of one reason its clients, keys, versions and resources.
import { el, table } from './dom.js';
import { count, number, share } from './format.js';
import { ago, clientLink, counted, keyLink, runbookLink, shorten, silence } from './parts.js';

const few = 50;

export const rejectionsPath = (query) => `/api/v1/rejections?${chosen(query)}`;

// reasonClientsPath is a page of the clients of a reason; null if none is chosen.
export function reasonClientsPath(query) {
  if (!query.reason) return null;
  const q = chosen(query);
  q.set('limit', few);
  q.set('sort', 'since');
  const page = query.pages[query.pages.length - 1];
  if (page) q.set('page', page);
  return `/api/v1/clients?${q}`;
}

function chosen(query) {
  const q = new URLSearchParams();
  for (const name of ['type', 'reason', 'key']) if (query[name]) q.set(name, query[name]);
  return q;
}

export const href = (query) => `#/rejections${chosen(query).size ? `?${chosen(query)}` : ''}`;

export function rejections({ data, some, query }) {
  const head = (text, ...more) => el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, text), more);
  const one = query.reason ? data?.reasons?.find((r) => r.message === query.reason && (!query.type || r.type === query.type)) : null;
  if (query.reason) {
    return [
      head('Rejection', el('p', {}, el('a', { href: href({ key: query.key }) }, 'all reasons')), runbookLink('XDSRelayNacks')),
      silence(data?.silent),
      el('section', { class: 'alert error', 'data-key': 'reason', 'aria-label': 'Reason' }, el('div', { class: 'line' }, el('b', {}, `Rejected ${query.type ?? one?.type ?? ''}`), one ? el('span', { class: 'soft small' }, ago(one.since, { since: true })) : null), el('pre', {}, query.reason)),
      data ? one ? about(one, data, query) : el('p', { class: 'empty', 'data-key': 'gone' }, 'No connected client rejects for this reason now.') : el('p', { class: 'empty' }, 'Loading…'),
      one ? clients(one, some, query) : null,
    ];
  }
  return [
    head('Rejections', el('p', { class: 'soft' }, data ? `${count(data.rejecting, 'client')} of ${number(data.clients)} (${share(data.rejecting, data.clients) || '0 %'}) reject the newest version` : 'clients that answered with a NACK'), runbookLink('XDSRelayNacks')),
    silence(data?.silent),
    el('section', { class: 'card', 'data-key': 'list', 'aria-label': 'Reasons' },
      query.key ? el('p', { class: 'tools' }, `key ${query.key} `, el('a', { href: href({ ...query, key: '' }) }, 'show all')) : null,
      !data ? el('p', { class: 'empty' }, 'Loading…') : !data.reasons.length ? el('p', { class: 'empty' }, 'No client rejects anything.') : table('Reasons of rejections',
        [{ title: 'Reason' }, { title: 'Type' }, { title: 'Clients', num: true }, { title: 'Keys', num: true }, { title: 'Since' }, { title: 'Resources' }],
        data.reasons.map((r) => ({ key: `${r.type_url}|${r.message}`, cells: [
          el('a', { class: 'reason', href: href({ type: r.type, reason: r.message, key: query.key }) }, r.message || '(no reason)'), r.type,
          counted(r.clients, data.clients), `${number(r.keys.length)}${r.keys_omitted ? '+' : ''}`, ago(r.since),
          named(r).slice(0, 3).map((n) => el('p', { 'data-key': n }, n))] })), { class: 'cards' }),
      data?.more_reasons ? el('p', { class: 'soft small' }, 'There are further reasons.') : null),
  ];
}

const named = (r) => {
  const all = r.resources.filter((x) => x.named);
  return [...new Set((all.length ? all : r.resources).map((x) => x.name))];
};

function about(r, data, query) {
  const counts = (title, all, show) => el('section', { class: 'card', 'data-key': title, 'aria-labelledby': `h-${title}` }, el('header', {}, el('h2', { id: `h-${title}` }, title)),
    table(title, [{ title: title.slice(0, -1) }, { title: 'Clients', num: true }], all.slice(0, 10).map((c) => ({ key: c.name, cells: [show(c.name), counted(c.clients, r.clients)] })), { class: 'plain' }),
    all.length > 10 ? el('p', { class: 'soft small' }, `and ${number(all.length - 10)} more`) : null);
  return el('div', { class: 'grid stack', 'data-key': 'about' },
    el('section', { class: 'card', 'data-key': 'resources', 'aria-labelledby': 'h-resources' }, el('header', {}, el('h2', { id: 'h-resources' }, 'Resources'), el('p', { class: 'soft small' }, 'named in the reason, or part of the rejected update')),
      r.resources.length ? table('Resources that the rejection may be about', [{ title: 'Resource' }, { title: 'Key' }, { title: 'In the reason' }, { title: 'In the rejected update' }],
        r.resources.slice(0, 20).map((x) => ({ key: `${x.key}/${x.name}`, cells: [el('a', { href: `#/resources?${new URLSearchParams({ search: x.name, type: r.type })}` }, x.name), keyLink(x.key), x.named ? 'yes' : 'no', x.change ?? 'no'] })), { class: 'cards' })
        : el('p', { class: 'empty' }, 'The reason names no resource, and the history no longer has the rejected update.')),
    el('div', { class: 'grid three', 'data-key': 'counts' },
      counts('Keys', r.keys, (name) => (query.key === name ? keyLink(name) : [keyLink(name)])),
      counts('Versions', r.versions, (name) => (name ? shorten(name, 24) : '(several)')),
      counts('Nodes', r.nodes, (name) => el('a', { href: `#/clients?${new URLSearchParams({ node: name, reason: r.message })}` }, name))));
}

function clients(r, some, query) {
  const begin = (query.pages.length - 1) * few;
  return el('section', { class: 'card', 'data-key': 'clients', 'aria-labelledby': 'h-clients' }, el('header', {}, el('h2', { id: 'h-clients' }, `Clients that reject for this reason: ${number(r.clients)}`)),
    !some ? el('p', { class: 'empty' }, 'Loading…') : [silence(some.silent), table('Clients that reject for this reason', [{ title: 'Client' }, { title: 'Key' }, { title: 'Node' }, { title: 'Since' }, { title: 'Version' }],
      some.clients.map((c) => {
        const t = c.types.find((x) => x.type_url === r.type_url);
        return { key: `${c.name}|${c.key}|${c.node}|${c.peer}`, cells: [clientLink(c.name), keyLink(c.key), c.node, ago(t?.nack?.at ?? c.since), t?.nack?.version ? shorten(t.nack.version, 16) : null] };
      }), { class: 'cards' }),
    el('div', { class: 'pager', 'data-key': 'pager' }, el('span', { class: 'soft small' }, some.clients.length ? `${number(begin + 1)} to ${number(begin + some.clients.length)} of ${number(r.clients)}` : ''),
      el('button', { type: 'button', disabled: query.pages.length < 2, onclick: () => query.turn(-1) }, 'Previous'),
      el('button', { type: 'button', disabled: !some.next, onclick: () => query.turn(1, some.next) }, 'Next'))]);
}
