// The views, by the fragment of the URL, and the requests for their data.
import { client, clientPath, clients, clientsPath, eventsPath } from './clients.js';
import { config } from './config.js';
import { morph } from './dom.js';
import { clock, count, span } from './format.js';
import { elsewhere } from './elsewhere.js';
import { historyPath, key, keyClientsPath, keyPath } from './key.js';
import { keys, keysPath } from './keys.js';
import { overview } from './overview.js';
import { Feed, loader } from './poll.js';
import { reasonClientsPath, rejections, rejectionsPath } from './rejections.js';
import { resources, resourcesPath } from './resources.js';
import { governed, isHeld, rollouts, rolloutsPath } from './rollouts.js';
import { runbook, runbookPath } from './runbook.js';
import { topology } from './topology.js';

const main = document.getElementById('main');
const hour = 3600;

const seen = { live: null, series: emptySeries(), events: null, rollouts: null };
let view = null; // {name, query, of: the client, key or entry}
let feeds = []; // of the view; the first is that of its data
let got = {}; // what they brought, by their names
const load = loader(() => show());

const live = new Feed('/api/v1/live', 2000, {
  onState: showFreshness,
  onData(data) {
    announceProblems(seen.live, data);
    seen.live = data;
    document.getElementById('title').textContent = data.title;
    show();
  },
});

const series = new Feed('/api/v1/series', 10_000, {
  onData(data, feed) {
    feed.tag = null;
    const last = seen.series.at[seen.series.at.length - 1];
    if (data.at.length || data.incomplete.length) {
      seen.series = join(seen.series, data);
      if (seen.series.at.length) feed.path = `/api/v1/series?since=${seen.series.at[seen.series.at.length - 1]}`;
    } else if (last * 1000 > Date.now() + feed.skew + 10_000) { // the node's clock was set back, and its samples with it
      seen.series = emptySeries();
      feed.path = '/api/v1/series';
    }
    show();
  },
});

const events = new Feed('/api/v1/events?limit=100', 10_000, {
  onData(data) {
    seen.events = data;
    show();
  },
});

// Most nodes have no rollout policy: then the page looks for one now and then only.
const staged = new Feed(rolloutsPath, 10_000, {
  onData(data, feed) {
    feed.every = governed(data) ? 2000 : 10_000;
    announceHeld(seen.rollouts, data);
    seen.rollouts = data;
    document.getElementById('nav-rollouts').hidden = !governed(data);
    show();
  },
});

function emptySeries() {
  return { at: [], incomplete: [], states: {}, p50: [], p99: [], bytes_in: [], bytes_out: [], responses_in: [], responses_out: [] };
}

// join appends newer samples and keeps an hour.
function join(old, fresh) {
  const newest = Math.max(...[old.at, fresh.at, fresh.incomplete].map((a) => a[a.length - 1] ?? 0));
  const first = old.at.findIndex((t) => t > newest - hour);
  const cut = (a, b) => (first < 0 ? [] : (a ?? []).slice(first)).concat(b ?? []);
  const known = new Set(fresh.at);
  const out = { states: {}, incomplete: [...new Set([...old.incomplete, ...fresh.incomplete])].filter((t) => t > newest - hour && !known.has(t)).sort((a, b) => a - b) };
  for (const name of ['at', 'p50', 'p99', 'bytes_in', 'bytes_out', 'responses_in', 'responses_out']) out[name] = cut(old[name], fresh[name]);
  for (const name of Object.keys(fresh.states)) out.states[name] = cut(old.states[name], fresh.states[name]);
  return out;
}

// route reads the address.
function route() {
  const [path, search = ''] = location.hash.replace(/^#/, '').split('?');
  const query = paged(Object.fromEntries(new URLSearchParams(search)));
  const [, name, of] = /^\/(client|key|runbook)\/(.*)$/.exec(path) ?? [];
  if (name) {
    try {
      return { name, of: decodeURIComponent(of), query };
    } catch { /* then it is literal */ }
    return { name, of, query };
  }
  const known = path.slice(1);
  return { name: known in views && known in titles ? known : 'overview', query };
}

// paged remembers the previous pages for going back.
function paged(q) {
  const query = { ...q, pages: [''] };
  query.turn = (step, next) => {
    query.pages = step > 0 ? [...query.pages, next] : query.pages.slice(0, -1);
    for (const [i, spec] of specs(view).entries()) if (feeds[i].path !== spec.path) feeds[i].to(spec.path);
    main.querySelector('h1')?.focus();
  };
  return query;
}

const titles = { overview: 'Overview', clients: 'Clients', keys: 'Keys', topology: 'Topology', rejections: 'Rejections', rollouts: 'Rollouts', resources: 'Resources', config: 'Configuration' };
const views = { overview, clients, client, keys, key, topology, rejections, rollouts, resources, config, runbook };
const sections = { client: 'clients', key: 'keys' };

// specs are what a view asks for: its data first. What may be missing is no reason for an alarm.
function specs({ name, of, query }) {
  const all = {
    clients: () => [{ into: 'data', path: clientsPath(query), every: 4000 }],
    client: () => [{ into: 'data', path: clientPath(of), every: 4000 }, { into: 'story', path: eventsPath(of), every: 8000 }],
    keys: () => [{ into: 'data', path: keysPath(query), every: 4000 }],
    key: () => [{ into: 'data', path: keyPath(of), every: 4000 }, { into: 'history', path: historyPath(of), every: 5000 }, { into: 'some', path: keyClientsPath(of), every: 6000 }],
    rejections: () => [{ into: 'data', path: rejectionsPath(query), every: 5000 }, { into: 'some', path: reasonClientsPath(query), every: 5000 }],
    resources: () => [{ into: 'data', path: resourcesPath(query), every: 4000 }],
    config: () => [{ into: 'levels', path: '/log?format=json', every: 30_000, optional: true }], // an embedded node may have none
    runbook: () => [{ into: 'text', path: runbookPath, every: 600_000, optional: true, text: true }],
  }[name]?.() ?? [];
  return all.filter((spec) => spec.path);
}

function enter() {
  const last = view;
  view = route();
  if (!(last && last.name === view.name && view.of === undefined)) got = {};
  else got = { data: got.data };
  if (view.name === 'rejections' || view.name === 'resources') got = {};
  load.forget();
  for (const feed of feeds) feed.end();
  const here = view;
  feeds = specs(view).map((spec) => new Feed(spec.path, spec.every, {
    text: spec.text,
    onState: spec.optional ? null : showFreshness,
    onData(data) {
      if (here !== view) return;
      got[spec.into] = data;
      show();
    },
  }));
  for (const feed of feeds) feed.now();
  document.title = `${view.of || (titles[view.name] ?? 'Runbook')} · xdsrelay`;
  for (const link of document.querySelectorAll('#nav a')) {
    const target = link.getAttribute('href');
    const section = sections[view.name] ?? view.name;
    if (target === `#/${section}` || (target === '#/' && section === 'overview')) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  show();
  if (last && (last.name !== view.name || last.of !== view.of)) {
    window.scrollTo(0, 0);
    main.querySelector('h1')?.focus();
  }
}

function show() {
  if (!view) return;
  const go = (hash) => { if (location.hash !== hash) location.replace(hash); };
  const all = { live: seen.live, series: seen.series, events: seen.events, rollouts: seen.rollouts, now: Date.now() + live.skew, data: null, ...got, query: view.query, name: view.of, go, load };
  if (!seen.live && (view.name === 'overview' || view.name === 'config')) return;
  morph(main, views[view.name](all).filter(Boolean));
  tick();
}

// tick updates relative times.
function tick() {
  const now = Date.now() + live.skew;
  for (const time of main.querySelectorAll('time[data-ago]')) {
    const text = span((now - Date.parse(time.dateTime)) / 1000);
    const form = time.dataset.ago;
    const whole = form === 'since' ? `for ${text}` : form === 'bare' ? text : `${text} ago`;
    if (time.textContent !== whole) time.textContent = whole;
  }
  showFreshness();
}

// showFreshness shows the age of the data and whether the node answers, and if not, the other nodes.
function showFreshness() {
  const worst = [live, feeds[0]].filter((f) => f && f.failures > 1 || f?.error?.denied || (f?.failures && !f.good))[0];
  const fresh = document.getElementById('fresh');
  const trouble = document.getElementById('trouble');
  if (!worst || worst.onState === null) {
    fresh.dataset.state = live.good ? 'ok' : 'wait';
    set('fresh-text', live.good ? 'live' : 'connecting');
    trouble.hidden = true;
    main.classList.remove('old');
    return;
  }
  const good = worst.good || live.good;
  const age = span((Date.now() - good) / 1000);
  fresh.dataset.state = 'old';
  set('fresh-text', good ? `${age} old` : 'no answer');
  main.classList.toggle('old', good > 0);
  const since = good ? `The page has had no data since ${clock(new Date(good))}${worst.good ? ' and shows that state' : ''}.` : 'The page has no data yet.';
  const gone = !worst.error?.status; // an answer that says no is an answer
  set('trouble-text', worst.error?.denied ? `This node requires a token again. ${since} Reload the page to enter it.` : `The node ${gone ? `does not answer (${reason(worst.error)})` : `reports an error: ${reason(worst.error)}`}. ${since} Retrying.`);
  morph(document.getElementById('elsewhere'), gone && !worst.error?.denied ? elsewhere(seen.live) : []);
  trouble.hidden = false;
}

const reason = (error) => (error instanceof TypeError ? 'no connection' : error?.message ?? 'unknown reason');

function set(id, text) {
  const node = document.getElementById(id);
  if (node.textContent !== text) node.textContent = text;
}

// announceProblems announces new problems to screen readers.
function announceProblems(before, now) {
  const errors = (l) => new Set((l?.warnings ?? []).filter((w) => w.level === 'error').map((w) => w.text));
  const old = errors(before);
  const fresh = [...errors(now)].filter((text) => !old.has(text));
  if (fresh.length) set('said', `${count(fresh.length, 'new problem')}: ${fresh.join('. ')}`);
  else if (before && old.size && !errors(now).size) set('said', 'All problems are resolved.');
}

// announceHeld announces rollouts that have failed.
function announceHeld(before, now) {
  const held = (data) => (data?.keys ?? []).filter((k) => k.rollout && isHeld(k)).map((k) => k.key);
  const fresh = before ? held(now).filter((key) => !held(before).includes(key)) : [];
  if (fresh.length) set('said', `The rollout of ${fresh.join(', ')} has failed.`);
}

document.getElementById('retry').addEventListener('click', () => {
  if (live.error?.denied) location.reload();
  live.now();
  series.now();
  events.now();
  staged.now();
  for (const feed of feeds) feed.now();
});
window.addEventListener('hashchange', enter);
window.matchMedia('(max-width: 640px)').addEventListener('change', () => show());
setInterval(() => { if (!document.hidden) tick(); }, 1000);
enter();
live.now();
series.now();
events.now();
staged.now();
