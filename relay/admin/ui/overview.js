// The tier at a glance.
import { chart } from './chart.js';
import { el, table } from './dom.js';
import { happened, marksOf } from './events.js';
import { bytes, count, number, percent, seconds, share, stateNames } from './format.js';
import { ago, chip, counted, inWords, keyLink, legend, progressBar, runbookLink, stateBar, synced, words } from './parts.js';
import { inShort } from './rollouts.js';

const card = (key, title, aside, ...body) => el('section', { class: 'card', 'data-key': key, 'aria-labelledby': `h-${key}` },
  el('header', {}, el('h2', { id: `h-${key}` }, title), aside), body);

export function overview({ live, series, events, rollouts, now }) {
  const trouble = live.warnings.filter((w) => w.level === 'error').length;
  return [
    el('div', { class: 'head', 'data-key': 'head' },
      el('h1', { tabindex: '-1' }, summary(live)),
      trouble ? el('p', {}, chip('bad', count(trouble, 'problem'))) : el('p', {}, chip('ok', 'no problems'))),
    alerts(live.warnings),
    tiles(live),
    inShort(rollouts, now, card),
    el('div', { class: 'grid wide-left', 'data-key': 'flow' }, updates(live.updates), el('div', { class: 'grid stack', 'data-key': 'side' }, load(live), types(live))),
    nodes(live),
    charts(series, marksOf(events)),
    happened(events, card),
  ];
}

function summary(live) {
  const there = live.nodes.filter((n) => n.state !== 'disappeared').length;
  const nodes = there === 1 ? `node ${live.self}` : count(there, 'node');
  return `${count(live.clients.clients, 'client')} on ${nodes}`;
}

export function alerts(warnings) {
  if (!warnings.length) return null;
  return el('section', { 'data-key': 'alerts', 'aria-label': 'Problems and warnings' }, el('ul', { class: 'alerts' }, warnings.map((w) => el('li', { class: `alert ${w.level}`, 'data-key': `${w.kind}-${w.node ?? ''}-${w.text}` },
    el('div', { class: 'line' }, el('b', {}, w.level === 'error' ? 'Problem' : 'Warning'),
      el('span', {}, w.kind === 'clients' ? el('a', { href: '#/rejections' }, w.text) : w.text), w.since ? el('span', { class: 'soft small' }, ago(w.since, { since: true })) : null, w.runbook ? runbookLink(w.runbook) : null),
    w.detail ? el('pre', {}, w.detail) : null))));
}

function tiles(live) {
  const { traffic: t, clients } = live;
  const files = live.upstreams.every((o) => o.kind === 'directory');
  const took = live.propagation;
  const window = took.window_seconds === 3600 ? 'hour' : `${took.window_seconds / 60} minutes`;
  const tile = (key, title, big, ...more) => el('section', { class: 'card tile', 'data-key': key, 'aria-labelledby': `t-${key}` }, el('h2', { class: 'soft', id: `t-${key}` }, title), el('p', { class: 'big' }, big), more);
  return el('div', { class: 'grid tiles', 'data-key': 'tiles' },
    tile('clients', 'Clients', number(clients.clients), legend(clients.states, { links: {} }), stateBar(clients.states, 'Clients'), missing(clients.missing, clients.clients)),
    tile('took', 'Time to clients', took.answers ? seconds(took.p50_seconds) : '–', el('p', { class: 'soft small' }, took.answers ? `p50; p99 ${seconds(took.p99_seconds)}, of ${count(took.answers, 'ACK')} in the last ${window}` : live.updates?.some((u) => Date.now() - Date.parse(u.at) < 20_000) ? 'counting' : `no ACK of an update in the last ${window}`)),
    tile('streams', 'Streams to the control plane', files ? 'none' : number(t.streams_in), el('p', { class: 'soft small' }, files ? 'the upstream is a directory' : `for ${count(clients.streams, 'client stream')}`)),
    tile('bytes', 'Sent to clients', bytes(t.bytes_out), el('p', { class: 'soft small' }, `${bytes(t.bytes_in)} received from the control plane since the nodes started`)));
}

// missing is the number of clients in any state that subscribe to resources that do not exist.
function missing(clients, all) {
  if (!clients) return null;
  return el('p', { class: 'small' }, el('a', { href: '#/clients?state=MISSING' }, `${clients === 1 ? '1 client subscribes' : `${number(clients)} clients subscribe`} to resources that do not exist (${share(clients, all)})`));
}

// An update is complete once every client has answered it.
const finished = (u) => u.acked + u.nacked >= u.clients;

function updates(all) {
  const shown = all.filter((u) => u.clients > 0).slice(0, 12);
  return el('div', { class: 'grid stack', 'data-key': 'updates-all' },
    card('updates', 'Updates in progress', el('p', { class: 'soft small' }, 'awaiting answers of clients, newest first'), list(shown.filter((u) => !finished(u)), 'None. Every client has answered every update.')),
    card('finished', 'Completed updates', el('p', { class: 'soft small' }, 'answered by all clients, newest first'), list(shown.filter(finished), 'None yet.')));
}

function list(shown, none) {
  return shown.length ? el('ol', { class: 'updates' }, shown.map((u) => el('li', { 'data-key': `${u.key}/${u.type}/${u.generation}` },
      el('p', { class: 'what', title: `${u.key} ${u.type} ${u.version ?? ''}` }, el('b', {}, keyLink(u.key)), el('span', { class: 'tag' }, u.type), el('span', { class: 'soft small' }, change(u))),
      progressBar(u),
      el('p', { class: 'num reach' }, u.nacked ? [el('span', { class: 'reason small' }, `${number(u.nacked)} rejected`), ' '] : null, `${number(u.acked)} / ${number(u.clients)}`, el('span', { class: 'soft small part' }, ` ${share(u.acked, u.clients)}`)),
      el('p', { class: 'small took' }, u.acked ? [el('span', {}, el('i', { class: 'soft' }, 'p50 '), seconds(u.p50_seconds)), el('span', {}, el('i', { class: 'soft' }, ' p99 '), seconds(u.p99_seconds))] : ''),
      el('p', { class: 'num soft small when' }, ago(u.at)))))
    : el('p', { class: 'empty' }, none);
}

function change(u) {
  const parts = [];
  if (u.added) parts.push(`+${u.added}`);
  if (u.changed) parts.push(`~${u.changed}`);
  if (u.removed) parts.push(`−${u.removed}`);
  return parts.join(' ');
}

// load is the load that the control plane does not have because of the relay.
function load(live) {
  const t = live.traffic;
  const rows = [
    ['Streams now', t.streams_in, live.clients.streams, number],
    ['Responses', t.responses_in, t.responses_out, number],
    ['Bytes', t.bytes_in, t.bytes_out, bytes],
  ];
  const files = live.upstreams.every((o) => o.kind === 'directory');
  return card('load', 'Control-plane load saved', null,
    table('Control-plane load saved', [{ title: 'Load' }, { title: 'From upstream', num: true }, { title: 'To clients', num: true }, { title: 'Saved', num: true }],
      rows.map(([name, into, out, show]) => ({ key: name, cells: [name, show(into), show(out), out > into ? el('b', {}, percent(out - into, out)) : '–'] })), { class: 'plain' }),
    el('p', { class: 'soft small' }, files ? 'The upstream is a directory, so there are no upstream streams.' : 'Without the relay, the control plane would send what is in “To clients”. Counted since the nodes started, without the traffic between nodes.'),
    el('ul', { class: 'legend' }, live.upstreams.map((o) => el('li', { 'data-key': o.name }, `${o.kind}${o.variant ? ` (${o.variant})` : ''}: `, el('span', { class: 'mono' }, o.where.join(', '))))));
}

function charts(s, marks) {
  const rate = (show) => (v) => `${show(v)}/s`;
  return el('div', { class: 'grid pair', 'data-key': 'charts' },
    card('c-states', 'Clients by state, last hour', null, chart({ key: 'states', title: 'Clients by state', at: s.at, gaps: s.incomplete, marks, stacked: true, show: number,
      series: ['NACKED', 'STALE', 'UNKNOWN', 'NOT_SENT', 'SYNCED'].map((n) => ({ name: stateNames[n], id: n.toLowerCase(), values: s.states[n.toLowerCase()] ?? [] })) })),
    card('c-took', 'From an update to the ACKs, last hour', null, chart({ key: 'took', title: 'Time to clients', at: s.at, gaps: s.incomplete, marks, show: seconds,
      series: [{ name: 'p50', id: 'p50', values: s.p50 }, { name: 'p99', id: 'p99', values: s.p99 }] })),
    card('c-bytes', 'Bytes, last hour', null, chart({ key: 'bytes', title: 'Bytes per second', at: s.at, gaps: s.incomplete, marks, show: rate(bytes),
      series: [{ name: 'From upstream', id: 'in', values: s.bytes_in }, { name: 'To clients', id: 'out', values: s.bytes_out }] })),
    card('c-responses', 'Responses, last hour', null, chart({ key: 'responses', title: 'Responses per second', at: s.at, gaps: s.incomplete, marks, show: rate(number),
      series: [{ name: 'From upstream', id: 'in', values: s.responses_in }, { name: 'To clients', id: 'out', values: s.responses_out }] })));
}

const nodeStates = { ok: 'ok', draining: 'warn', silent: 'bad', disappeared: 'warn', isolated: 'bad', no_control_plane: 'bad', not_ready: 'bad' };

const mute = (n) => n.state === 'silent' || n.state === 'disappeared';

function nodes(live) {
  return card('nodes', live.nodes.length === 1 ? 'Node' : 'Nodes', null, table('Nodes of the tier',
    [{ title: 'Node' }, { title: 'State' }, { title: 'Clients', num: true }, { title: 'Client states' }, { title: 'Keys owned', num: true }, { title: 'Keys followed', num: true }, { title: 'Upstream streams', num: true }, { title: 'Version' }, { title: 'Uptime', num: true }],
    live.nodes.map((n) => ({ key: n.name, cells: [
      [n.name, n.name === live.self ? el('span', { class: 'soft small' }, ' this one') : null],
      el('span', { title: n.error ?? null }, chip(nodeStates[n.state] ?? 'bad', words(n.state)),
        n.redis && !n.redis.up ? [' ', chip('bad', 'Redis unreachable')] : null, n.differs ? [' ', el('span', { title: n.differs.join(', ') }, chip('warn', 'different configuration'))] : null),
      mute(n) ? (n.streams ? `${count(n.streams, 'stream')}?` : null) : counted(n.clients, live.clients.clients, el('a', { href: `#/clients?node=${encodeURIComponent(n.name)}` }, number(n.clients))), [stateBar(n.states ?? {}, `Clients of ${n.name}`), synced(n.states ?? {})],
      mute(n) ? null : number(n.keys.owner), mute(n) ? null : [number(n.keys.follower), n.keys.fallback ? el('span', { class: 'soft' }, ` + ${n.keys.fallback} fallback`) : null],
      mute(n) ? null : number(n.traffic.streams_in), n.version, ago(n.since, { since: 'bare' })] })), { class: 'cards' }));
}

function types(live) {
  if (!live.clients.types.length) return null;
  return card('types', 'Clients by type', null, table('Clients by type', [{ title: 'Type' }, { title: 'Clients', num: true }, { title: 'Client states' }],
    live.clients.types.map((t) => ({ key: t.type_url, cells: [el('a', { href: `#/clients?type=${encodeURIComponent(t.type)}`, title: t.type_url }, t.type),
      number(Object.values(t.states).reduce((a, b) => a + b, 0)), el('div', { class: 'grow' }, stateBar(t.states, t.type), el('p', { class: 'soft small' }, inWords(t.states), t.missing ? `; ${number(t.missing)} with missing resources` : null, t.stale_since ? [', stale ', ago(t.stale_since, { since: true })] : null))] })), { class: 'cards' }));
}
