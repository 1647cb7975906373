// The topology as a picture: control planes, owners, followers, clients. Boxes are
// HTML, so that names are links; the lines between them are SVG, and a table has the same.
import { el, table } from './dom.js';
import { count, number } from './format.js';
import { silence, stateBar, words } from './parts.js';

const narrow = window.matchMedia('(max-width: 640px)');
const rowHeight = 86; // in px
const layerHeight = 118; // of the picture on a phone, where layers are below one another

const mute = (n) => n.state === 'silent' || n.state === 'disappeared';

// picture draws layers of boxes. A box is {id, row, name, href, lines, state, body}, an edge
// {from, to, text, weight, state} with the ids of boxes. rows is how many a layer has.
function picture({ key, title, layers, edges, rows }) {
  const down = narrow.matches;
  const place = new Map();
  const size = 100 / layers.length;
  const along = (i) => (i + 0.5) * size; // the middle of a layer, in percent
  const across = (row) => (row === null ? 50 : ((row + 0.5) / rows) * 100);
  layers.forEach((layer, i) => layer.boxes.forEach((b) => place.set(b.id, { a: along(i), c: across(b.row ?? null) })));
  const most = Math.max(1, ...edges.map((e) => e.weight ?? 0));
  const lines = edges.filter((e) => place.has(e.from) && place.has(e.to)).map((e) => {
    const [s, t] = [place.get(e.from), place.get(e.to)];
    const middle = (s.a + t.a) / 2;
    const d = down ? `M${s.c} ${s.a}C${s.c} ${middle} ${t.c} ${middle} ${t.c} ${t.a}` : `M${s.a} ${s.c}C${middle} ${s.c} ${middle} ${t.c} ${t.a} ${t.c}`;
    return el('path', { 'data-key': `${e.from}>${e.to}`, class: `edge ${e.state ?? ''}`, d, style: { 'stroke-width': `${1 + (5 * (e.weight ?? 0)) / most}px` } });
  });
  const boxes = layers.flatMap((layer) => layer.boxes.map((b) => {
    const { a, c } = place.get(b.id);
    const width = down ? Math.min(46, 94 / rows) : size * 0.74;
    const fixed = b.row === undefined || b.row === null;
    const across100 = down && fixed ? 60 : width;
    return el('div', { class: 'box', 'data-key': b.id, 'data-s': b.state ?? null, style: down
      ? { left: `${c - across100 / 2}%`, width: `${across100}%`, top: `${a}%` }
      : { left: `${a - width / 2}%`, width: `${width}%`, top: `${c}%` } },
    el('p', { class: 'name', title: b.name }, b.href ? el('a', { href: b.href }, b.name) : b.name),
    (b.lines ?? []).filter(Boolean).map((l) => el('p', { class: 'soft small' }, l)), b.body ?? null);
  }));
  const name = new Map(layers.flatMap((l) => l.boxes.map((b) => [b.id, `${b.name}${b.kind ? ` (${b.kind})` : ''}`])));
  const height = down ? layers.length * layerHeight : Math.max(2, rows) * rowHeight;
  return el('figure', { class: `topology${down ? ' down' : ''}`, 'data-key': key },
    down ? null : el('div', { class: 'layers', 'aria-hidden': 'true' }, layers.map((l) => el('span', {}, l.title))),
    el('div', { class: 'boxes', style: { height: `${height}px` } },
      el('svg', { viewBox: '0 0 100 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, lines), boxes),
    el('details', {}, el('summary', {}, 'As a table'), table(title, [{ title: 'From' }, { title: 'To' }, { title: 'What' }],
      edges.map((e) => ({ key: `${e.from}>${e.to}`, cells: [name.get(e.from), name.get(e.to), e.text] })))));
}

const nodeState = (n) => (mute(n) || n.state === 'isolated' || n.state === 'no_control_plane' || n.state === 'not_ready' ? 'bad' : n.state === 'ok' ? null : 'warn');

const upstreams = (live) => live.upstreams.map((o, i) => ({ id: `u${i}`, row: live.upstreams.length > 1 ? i : null, name: o.name || o.kind, kind: o.kind, lines: [o.where.slice(0, 2).join(', ') + (o.where.length > 2 ? ', …' : '')], state: o.problems?.length ? 'bad' : null, href: '#/config' }));

// topology is the view of the whole tier.
export function topology({ live }) {
  const head = el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, 'Topology'), el('p', { class: 'soft' }, 'control planes → owners of keys → nodes that serve clients → clients'));
  if (!live) return [head];
  const most = narrow.matches ? 3 : 16;
  const trouble = (n) => (nodeState(n) === 'bad' ? 0 : nodeState(n) ? 1 : 2);
  const ranked = live.nodes.map((n, i) => [n, i]).sort(([a, i], [b, j]) => trouble(a) - trouble(b) || b.clients - a.clients || i - j).slice(0, most).map(([n]) => n.name);
  const nodes = live.nodes.filter((n) => ranked.includes(n.name));
  const sources = upstreams(live);
  const owners = [];
  const servers = [];
  const clients = [];
  const edges = [];
  nodes.forEach((n, row) => {
    const streams = n.traffic?.streams_in ?? 0;
    const own = mute(n) ? 0 : n.keys.owner + n.keys.fallback + n.keys.for_peers;
    owners.push({ id: `o${n.name}`, kind: 'owner', row, name: n.name, state: nodeState(n), lines: mute(n) ? [words(n.state)] : [`owns ${count(n.keys.owner, 'key')}`, n.keys.fallback ? `fallback for ${number(n.keys.fallback)}` : null] });
    servers.push({ id: `s${n.name}`, kind: 'node', row, name: n.name, state: nodeState(n), href: `#/clients?node=${encodeURIComponent(n.name)}`, lines: mute(n) ? [words(n.state)] : [`follows ${count(n.keys.follower, 'key')}`, n.state === 'ok' ? null : words(n.state)] });
    clients.push({ id: `c${n.name}`, kind: 'clients', row, name: mute(n) ? (n.streams ? `${count(n.streams, 'stream')}?` : 'unknown') : count(n.clients, 'client'), href: mute(n) ? null : `#/clients?node=${encodeURIComponent(n.name)}`, body: stateBar(n.states ?? {}, `Clients of ${n.name}`) });
    if (mute(n)) return;
    if (own || streams) sources.forEach((s) => edges.push({ from: s.id, to: `o${n.name}`, weight: sources.length > 1 ? 1 : streams, text: sources.length > 1 ? count(own, 'key') : count(streams, 'stream'), state: n.state === 'no_control_plane' ? 'bad' : '' }));
    if (own) edges.push({ from: `o${n.name}`, to: `s${n.name}`, weight: own, text: count(own, 'key') });
    for (const [from, keys] of Object.entries(n.keys.followed ?? {})) edges.push({ from: `o${from}`, to: `s${n.name}`, weight: keys, text: count(keys, 'key') });
    if (n.clients) edges.push({ from: `s${n.name}`, to: `c${n.name}`, weight: n.clients, text: count(n.clients, 'client') });
  });
  // Each layer has its own scale: streams, keys and clients are not comparable.
  for (const of of ['u', 'o', 's']) {
    const layer = edges.filter((e) => e.from.startsWith(of));
    const top = Math.max(1, ...layer.map((e) => e.weight));
    layer.forEach((e) => { e.weight /= top; });
  }
  const hidden = live.nodes.length - nodes.length;
  return [
    head,
    silence(live.clients.silent),
    el('section', { class: 'card', 'data-key': 'tier', 'aria-label': 'Topology of the tier' },
      picture({ key: 'tier', title: 'Topology of the tier', rows: Math.max(nodes.length, sources.length), edges,
        layers: [{ title: 'Control planes', boxes: sources }, { title: 'Owners', boxes: owners }, { title: 'Nodes', boxes: servers }, { title: 'Clients', boxes: clients }] }),
      hidden > 0 ? el('p', { class: 'soft small' }, `${count(hidden, 'more node')}: the Overview lists all.`) : null,
      el('p', { class: 'soft small' }, 'A line is as thick as its part of the layer: streams, keys or clients. A key has a picture of its own.')),
  ];
}

// keyPicture is the topology of one key.
export function keyPicture(k, live) {
  const sources = upstreams(live);
  if (sources.length > 1) sources.splice(0, sources.length, { id: 'u0', row: null, name: 'control planes', kind: 'upstream', lines: [count(live.upstreams.length, 'upstream')], href: '#/config' });
  const heads = k.nodes.filter((n) => n.state !== 'follower');
  const followers = k.nodes.filter((n) => n.state === 'follower');
  const order = [...heads, ...followers].slice(0, narrow.matches ? 3 : 16);
  const [top, below, ends, edges] = [[], [], [], []];
  order.forEach((n, row) => {
    const follows = n.state === 'follower';
    const bad = n.state !== 'idle' && !n.connected;
    (follows ? below : top).push({ id: `n${n.node}`, kind: words(n.state), row, name: n.node, state: bad ? 'bad' : n.stale || n.held_removals || n.state === 'fallback' ? 'warn' : null,
      lines: [follows ? 'follower' : n.state === 'owner' && n.node !== k.owner ? 'source: control plane' : words(n.state), bad ? (n.error ? 'no upstream stream' : 'connecting') : null] });
    if (follows) edges.push({ from: `n${n.from}`, to: `n${n.node}`, text: bad ? 'no stream' : 'stream', state: bad ? 'bad' : '', weight: 0.3 });
    else if (n.state !== 'idle') edges.push({ from: sources[0]?.id, to: `n${n.node}`, text: bad ? `no stream${n.error ? `: ${n.error}` : ''}` : 'stream', state: bad ? 'bad' : '', weight: 0.3 });
    const all = Object.values(n.states ?? {}).reduce((a, b) => a + b, 0);
    if (!n.clients) return;
    ends.push({ id: `c${n.node}`, kind: `clients of ${n.node}`, row, name: count(all || n.clients, all ? 'client' : 'stream'), href: `#/clients?${new URLSearchParams({ key: k.key, node: n.node })}`, body: stateBar(n.states ?? {}, `Clients of ${n.node}`) });
    edges.push({ from: `n${n.node}`, to: `c${n.node}`, text: count(all || n.clients, 'client'), weight: n.clients / Math.max(...k.nodes.map((o) => o.clients)) });
  });
  const layers = [{ title: 'Control plane', boxes: sources }, { title: 'Owner', boxes: top }, ...(below.length ? [{ title: 'Followers', boxes: below }] : []), { title: 'Clients', boxes: ends }];
  return [
    picture({ key: 'way', title: `Topology of ${k.key}`, layers, edges, rows: Math.max(1, order.length) }),
    k.nodes.length > order.length ? el('p', { class: 'soft small' }, `${count(k.nodes.length - order.length, 'more node')}: the table has all.`) : null];
}
