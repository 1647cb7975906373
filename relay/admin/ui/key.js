// One key: its nodes and upstream streams, its clients, its updates and what they changed, and its
// content.
import { el, table } from './dom.js';
import { bytes, count, number, stamp, stateNames } from './format.js';
import { ago, chip, clientLink, legend, shorten, silence, stateBar, sumStates } from './parts.js';
import { notes, place } from './keys.js';
import { rollout } from './rollouts.js';
import { keyPicture } from './topology.js';

const few = 10;

const ask = (path, query) => `/api/v1/${path}?${new URLSearchParams(query)}`;

export const keyPath = (key) => ask('keys', { key });
export const historyPath = (key) => ask('history', { key });
export const keyClientsPath = (key) => ask('clients', { key, sort: 'state', limit: few });

export function key({ data, history, some, live, rollouts, now, name, load }) {
  const head = (...more) => el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, name), more, el('p', {}, el('a', { href: '#/keys' }, 'all keys')));
  if (!data) return [head(), el('p', { class: 'empty' }, 'Loading…')];
  const k = data.keys?.[0];
  if (!k) return [head(), silence(data.silent), el('section', { class: 'card', 'data-key': 'none' }, el('p', {}, 'No node has this key.'), el('p', {}, el('a', { href: `#/keys?${new URLSearchParams({ search: name.slice(0, 40) })}` }, 'Search for similar keys')))];
  const states = sumStates(k.nodes);
  const all = Object.values(states).reduce((a, b) => a + b, 0);
  const best = k.nodes.find((n) => n.node === k.owner) ?? k.nodes[0];
  const staged = rollouts?.keys.find((r) => r.key === name && r.rollout);
  const fact = (title, value) => el('div', { 'data-key': title }, el('dt', {}, title), el('dd', {}, value));
  const card = (id, title, aside, ...body) => el('section', { class: 'card', 'data-key': id, 'aria-labelledby': `h-${id}` }, el('header', {}, el('h2', { id: `h-${id}` }, title), aside), body);
  return [
    head(),
    silence(data.silent),
    el('section', { class: 'card', 'data-key': 'facts', 'aria-label': 'Key' }, el('dl', { class: 'facts' },
      fact('Owner', k.owner || 'none'),
      fact('Upstream stream', upstream(best)),
      fact('Clients', [el('a', { href: `#/clients?${new URLSearchParams({ key: name })}` }, count(all, 'client')), stateBar(states, 'Clients'), legend(states, { links: { key: name } })]),
      fact('Resources', `${number(best.resources)}, ${bytes(best.bytes)}`),
      fact('Updates', number(best.updates)))),
    staged ? rollout(staged, now) : null,
    live ? card('way', 'Topology', null, keyPicture(k, live)) : null,
    card('history', 'Updates', el('p', { class: 'soft small' }, 'newest first'), updates(history, k, live, load)),
    card('nodes', 'On each node', null, table('Nodes of the key', [{ title: 'Node' }, { title: 'Source' }, { title: 'Since' }, { title: 'Clients', num: true }, { title: 'Client states' }, { title: 'Resources', num: true }, { title: 'Updates', num: true }, { title: 'Problems' }],
      k.nodes.map((n) => ({ key: n.node, cells: [n.node, place(n), ago(n.since), number(n.clients), stateBar(n.states ?? {}, `Clients of ${n.node}`), number(n.resources), number(n.updates), notes(n)] })), { class: 'cards' })),
    card('clients', 'Clients', el('a', { class: 'small', href: `#/clients?${new URLSearchParams({ key: name, sort: 'state' })}` }, 'all clients of this key'), clients(some, all)),
    card('content', 'Content', el('p', { class: 'soft small' }, 'without secrets'), content(name, load)),
  ];
}

function upstream(n) {
  if (!n) return null;
  const text = n.state === 'idle' ? chip('ok', 'idle') : n.connected ? chip('ok', 'connected') : chip('bad', n.error ? 'disconnected' : 'connecting');
  return [text, ' ', el('span', { class: 'soft small' }, `of ${n.node} `, ago(n.since, { since: true })), n.error ? el('p', { class: 'reason small' }, n.error) : null];
}

function clients(some, all) {
  if (!some) return el('p', { class: 'empty' }, 'Loading…');
  if (!some.clients?.length) return [silence(some.silent), el('p', { class: 'empty' }, 'No clients have this key.')];
  return [silence(some.silent), table('Clients of the key', [{ title: 'Client' }, { title: 'Node' }, { title: 'State' }, { title: 'Since' }, { title: 'Problems' }],
    some.clients.map((c) => ({ key: `${c.name}|${c.node}|${c.peer}`, cells: [clientLink(c.name), c.node, chip(c.state), ago(c.since), c.types.filter((t) => t.nack || t.state !== 'SYNCED').map((t) => el('p', { 'data-key': t.type_url }, el('b', {}, t.type), t.nack ? el('span', { class: 'reason' }, ` ${t.nack.message}`) : el('span', { class: 'soft' }, ` ${stateNames[t.state].toLowerCase()}${t.waiting ? `: ${t.waiting}` : ''}`)))] })), { class: 'cards' }),
  all > some.clients.length ? el('p', { class: 'soft small' }, `The ${number(some.clients.length)} in the worst state, of ${number(all)}.`) : null];
}

// updates lists those that the owner recorded, of all types, or another node if the owner has none.
function updates(history, k, live, load) {
  if (!history) return el('p', { class: 'empty' }, 'Loading…');
  if (!history.nodes?.length) return [silence(history.silent), el('p', { class: 'empty' }, history.error ?? 'None yet.')];
  const of = history.nodes.find((n) => n.node === history.owner) ?? history.nodes[0];
  const rows = of.types.flatMap((t) => t.versions.map((v) => ({ ...v, type: t.type, url: t.type_url }))).sort((a, b) => b.number - a.number).slice(0, 50);
  if (!rows.length) return [silence(history.silent), el('p', { class: 'empty' }, `Node ${of.node} has recorded no updates.`)];
  return [
    silence(history.silent),
    el('ol', { class: 'past' }, rows.map((v) => el('li', { 'data-key': `${of.node}/${v.number}/${v.url}` },
      el('details', { ontoggle: (event) => { if (event.currentTarget.open) load(ask('history/changes', { key: k.key, update: v.number, node: of.node, type: v.url })); } },
        el('summary', {}, el('span', { class: 'line' }, el('b', {}, `Update ${v.number}`), el('span', { class: 'tag' }, v.type),
          el('span', {}, [v.added ? `+${number(v.added)}` : '', v.changed ? `~${number(v.changed)}` : '', v.removed ? `−${number(v.removed)}` : ''].filter(Boolean).join(' ')),
          el('span', { class: 'names' }, named(v)), el('span', { class: 'when' }, ago(v.at)))),
        el('p', { class: 'soft small' }, stamp(v.at), `, from ${v.cause}${v.source ? ` (${v.source})` : ''}${v.server ? ` at ${v.server}` : ''}; version `, shorten(v.control_plane_version || v.version, 24), `; ${count(v.resources, 'resource')} afterwards`, trace(live, v)),
        changes(load.got(ask('history/changes', { key: k.key, update: v.number, node: of.node, type: v.url }))))))),
    el('p', { class: 'soft small' }, `As node ${of.node} recorded them. xdsrelay history ${k.key} lists more.`),
  ];
}

const named = (v) => [...(v.added_names ?? []), ...(v.changed_names ?? []), ...(v.removed_names ?? [])].slice(0, 3).join(', ');

function trace(live, v) {
  if (!v.trace_id) return null;
  const target = /^https?:\/\//.test(live?.trace_url ?? '') ? live.trace_url.replaceAll('{trace_id}', v.trace_id) : null;
  return target ? ['; ', el('a', { href: target, target: '_blank', rel: 'noopener noreferrer' }, 'trace')] : ['; trace ', el('span', { class: 'mono' }, v.trace_id)];
}

const kinds = { added: 'ok', changed: 'warn', removed: 'bad' };

function changes(answer) {
  if (!answer) return null;
  if (answer.error) return el('p', { class: 'reason' }, answer.error);
  if (!answer.data) return el('p', { class: 'empty' }, 'Loading…');
  const { types, silent } = answer.data;
  if (!types.length) return [silence(silent), el('p', { class: 'empty' }, 'The history has nothing more about this update.')];
  return [silence(silent), types.flatMap((t) => [
    ...t.resources.slice(0, 50).map((r) => el('div', { class: 'change', 'data-key': `${t.type_url}/${r.name}` }, el('p', {}, chip(kinds[r.change] ?? 'warn', r.change), ' ', el('b', {}, r.name)), diff(r))),
    t.resources.length > 50 || t.resources_omitted ? el('p', { class: 'soft small' }, `and ${count(Math.max(0, t.resources.length - 50) + (t.resources_omitted ?? 0), 'more resource')}`) : null])];
}

function diff(r) {
  const show = (tag, sign, value) => (value === undefined ? null : el(tag, {}, `${sign} ${value}`));
  const shown = (r.fields ?? []).slice(0, 60);
  const omitted = (r.fields?.length ?? 0) - shown.length + (r.omitted ?? 0);
  return [
    r.problem ? el('p', { class: 'soft small' }, r.problem) : null,
    shown.length ? el('ul', { class: 'fields' }, shown.map((f) => el('li', { 'data-key': `${f.change} ${f.path}` }, el('span', { class: 'mono' }, f.path), show('del', '−', f.old), show('ins', '+', f.new)))) : null,
    omitted > 0 ? el('p', { class: 'soft small' }, `and ${count(omitted, 'more field')}`) : null,
  ];
}

// content is asked for when it is opened, page by page.
function content(name, load) {
  const parts = [];
  let path = ask('dump', { key: name });
  for (;;) {
    const answer = load.got(path);
    if (!answer) break;
    parts.push(answer);
    if (!answer.data?.next) break;
    path = ask('dump', { key: name, page: answer.data.next });
  }
  const last = parts[parts.length - 1];
  const resources = parts.flatMap((p) => p.data?.resources ?? []);
  const more = last?.data?.next;
  return [
    parts.length ? null : el('button', { type: 'button', onclick: () => load(path) }, 'Show the resources'),
    last?.error ? el('p', { class: 'reason' }, last.error) : last && !last.data ? el('p', { class: 'empty' }, 'Loading…') : null,
    last?.data ? silence(last.data.silent) : null,
    resources.length ? [el('p', { class: 'soft small' }, `${count(resources.length, 'resource')}${more ? ' so far' : ''}, as node ${parts[0].data.node} has them.`),
      resources.slice(0, 500).map((r) => el('details', { class: 'resource', 'data-key': `${r.type_url}/${r.name}` },
        el('summary', {}, el('b', {}, r.name), ' ', el('span', { class: 'soft' }, `${r.type_url.split('.').pop()}, ${bytes(r.bytes)}, version `), shorten(r.version, 16), r.state ? [' ', chip('bad', r.state.toLowerCase())] : null, r.changed ? [' ', ago(r.changed)] : null),
        r.problem ? el('p', { class: 'reason' }, r.problem) : null, r.resource ? el('pre', { class: 'scroll', tabindex: '0' }, JSON.stringify(r.resource, null, 2)) : null))] : last?.data ? el('p', { class: 'empty' }, 'It has no resources.') : null,
    resources.length > 500 ? el('p', { class: 'soft small' }, `The first 500; xdsrelay dump ${name} prints all.`) : more ? el('button', { type: 'button', onclick: () => load(path) }, 'More') : null,
  ];
}
