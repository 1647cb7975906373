// The views, by the fragment of the URL, and the requests for their data.
import { client, clientPath, clients, clientsPath, eventsPath } from './clients.js';
import { config } from './config.js';
import { morph } from './dom.js';
import { clock, count, span } from './format.js';
import { keys, keysPath } from './keys.js';
import { overview } from './overview.js';
import { Feed } from './poll.js';
import { resources, resourcesPath } from './resources.js';

const main = document.getElementById('main');
const hour = 3600;

const seen = { live: null, series: emptySeries(), events: null, story: null, data: null, levels: null };
let view = null; // {name, query, name of the client}
let detail = null; // the feed of the view
let story = null; // the feed of a client's events

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
  const q = Object.fromEntries(new URLSearchParams(search));
  if (path.startsWith('/client/')) {
    let name = path.slice('/client/'.length);
    try {
      name = decodeURIComponent(name);
    } catch { /* then it is literal */ }
    return { name: 'client', client: name };
  }
  if (path === '/clients') return { name: 'clients', query: paged(q, clientsPath) };
  if (path === '/keys') return { name: 'keys', query: paged(q, keysPath) };
  if (path === '/resources') return { name: 'resources', query: paged(q, resourcesPath) };
  if (path === '/config') return { name: 'config' };
  return { name: 'overview' };
}

// paged remembers the previous pages for going back.
function paged(q, pathOf) {
  const query = { ...q, pages: [''] };
  query.turn = (step, next) => {
    query.pages = step > 0 ? [...query.pages, next] : query.pages.slice(0, -1);
    detail.to(pathOf(query));
    main.querySelector('h1')?.focus();
  };
  return query;
}

const titles = { overview: 'Overview', clients: 'Clients', client: 'Client', keys: 'Keys', resources: 'Resources', config: 'Configuration' };

function enter() {
  const last = view;
  view = route();
  if (!(last && last.name === view.name && view.name !== 'client')) seen.data = null;
  detail?.end();
  detail = null;
  story?.end();
  story = null;
  const path = { clients: () => clientsPath(view.query), keys: () => keysPath(view.query), resources: () => resourcesPath(view.query), client: () => clientPath(view.client), config: () => '/log?format=json' }[view.name]?.();
  if (path) {
    const here = view;
    detail = new Feed(path, view.name === 'config' ? 30_000 : 4000, {
      onState: showFreshness,
      onData(data) {
        if (here !== view) return;
        if (view.name === 'config') seen.levels = data;
        else seen.data = data;
        show();
      },
    });
    if (view.name === 'config') detail.onState = null; // the log levels of an embedded node may be unavailable
    detail.now();
    if (view.name === 'client') {
      seen.story = null;
      story = new Feed(eventsPath(view.client), 8000, { onData(data) { if (here === view) { seen.story = data; show(); } } });
      story.now();
    }
  }
  document.title = `${view.client ?? titles[view.name]} · xdsrelay`;
  for (const link of document.querySelectorAll('#nav a')) {
    const target = link.getAttribute('href');
    const on = target === `#/${view.name}` || (target === '#/' && view.name === 'overview') || (target === '#/clients' && view.name === 'client');
    if (on) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  show();
  if (last && last.name !== view.name) {
    window.scrollTo(0, 0);
    main.querySelector('h1')?.focus();
  }
}

function show() {
  if (!view) return;
  const go = (hash) => { if (location.hash !== hash) location.replace(hash); };
  const all = { live: seen.live, series: seen.series, events: seen.events, story: seen.story, data: seen.data, levels: seen.levels, query: view.query, name: view.client, go };
  if (!seen.live && (view.name === 'overview' || view.name === 'config')) return;
  morph(main, { overview, clients, client, keys, resources, config }[view.name](all).filter(Boolean));
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

// showFreshness shows the age of the data and whether the node answers.
function showFreshness() {
  const worst = [live, detail].filter((f) => f && f.failures > 1 || f?.error?.denied || (f?.failures && !f.good))[0];
  const fresh = document.getElementById('fresh');
  const trouble = document.getElementById('trouble');
  if (!worst) {
    fresh.dataset.state = live.good ? 'ok' : 'wait';
    set('fresh-text', live.good ? 'live' : 'connecting');
    trouble.hidden = true;
    main.classList.remove('old');
    return;
  }
  fresh.dataset.state = 'old';
  set('fresh-text', worst.good ? `${span((Date.now() - worst.good) / 1000)} old` : 'no answer');
  main.classList.toggle('old', worst.good > 0);
  const since = worst.good ? `The page shows the state of ${clock(new Date(worst.good))}.` : 'The page has no data yet.';
  set('trouble-text', worst.error?.denied ? `This node requires a token again. ${since} Reload the page to enter it.` : `The node does not answer (${reason(worst.error)}). ${since} Retrying.`);
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

document.getElementById('retry').addEventListener('click', () => {
  if (live.error?.denied) location.reload();
  live.now();
  series.now();
  events.now();
  detail?.now();
  story?.now();
});
window.addEventListener('hashchange', enter);
setInterval(() => { if (!document.hidden) tick(); }, 1000);
enter();
live.now();
series.now();
events.now();
