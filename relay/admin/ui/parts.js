// Small parts that several views have.
import { el } from './dom.js';
import { count, number, share, stateHelp, stateNames, stateOrder, stamp } from './format.js';

// words is a state, which is an identifier in JSON, as words.
export const words = (state) => state.replaceAll('_', ' ');

// ago is a time relative to now; app.js updates its text.
export function ago(text, { since = false } = {}) {
  if (!text || text.startsWith('0001')) return null;
  return el('time', { datetime: text, title: stamp(text), 'data-ago': since === 'bare' ? since : since ? 'since' : 'ago' }, '');
}

export const chip = (state, text) => el('span', { class: 'chip', 'data-s': state }, text ?? stateNames[state] ?? state);

// stateBar shows the states of clients.
export function stateBar(states, what) {
  const all = stateOrder.reduce((sum, s) => sum + (states[s] ?? 0), 0);
  if (!all) return null;
  return el('div', { class: 'bar', role: 'img', 'aria-label': `${what}: ${inWords(states)}` },
    stateOrder.filter((s) => states[s]).map((s) => el('i', { 'data-key': s, 'data-s': s.toLowerCase(), style: { width: `${(100 * states[s]) / all}%` } })));
}

// counted is a number with its part of all.
export const counted = (n, all, text = number(n)) => el('span', { class: 'counted' }, text, all > 0 && n ? el('span', { class: 'soft small part' }, ` ${share(n, all)}`) : null);

// synced is the part of clients that are, for a place beside a bar.
export function synced(states) {
  const all = stateOrder.reduce((sum, s) => sum + (states[s] ?? 0), 0);
  return all ? el('span', { class: 'soft small' }, `${share(states.SYNCED ?? 0, all)} synced`) : null;
}

export function inWords(states) {
  const all = stateOrder.reduce((sum, s) => sum + (states[s] ?? 0), 0);
  return stateOrder.filter((s) => states[s]).map((s) => `${number(states[s])} ${stateNames[s].toLowerCase()} (${share(states[s], all)})`).join(', ') || 'none';
}

// sumStates adds up the states of the clients of a key's nodes.
export function sumStates(nodes) {
  const sum = {};
  for (const n of nodes) for (const [s, v] of Object.entries(n.states ?? {})) sum[s] = (sum[s] ?? 0) + v;
  return sum;
}

// legend lists states with their numbers and parts of all, as links to the clients: links are the
// other parameters of these.
export function legend(states, { links = null } = {}) {
  const all = stateOrder.reduce((sum, s) => sum + (states[s] ?? 0), 0);
  return el('ul', { class: 'legend' }, stateOrder.filter((s) => states[s] || s === 'SYNCED' || s === 'NACKED').map((s) => {
    const text = [el('span', { class: `swatch key-${s.toLowerCase()}`, 'aria-hidden': 'true' }), el('b', {}, number(states[s] ?? 0)), ` ${stateNames[s].toLowerCase()} `, all ? el('span', { class: 'part' }, share(states[s] ?? 0, all)) : null];
    return el('li', { title: stateHelp[s], 'data-key': s }, links ? el('a', { href: `#/clients?${new URLSearchParams({ ...links, state: s })}` }, text) : text);
  }));
}

// progressBar shows the progress of an update.
export function progressBar(u) {
  const parts = [['synced', u.acked], ['nacked', u.nacked], ['stale', u.sent], ['waiting', u.waiting]];
  const text = `${number(u.acked)} of ${count(u.clients, 'client')} (${share(u.acked, u.clients)}) acknowledged it`
    + `${u.nacked ? `, ${number(u.nacked)} rejected it` : ''}${u.sent ? `, ${number(u.sent)} awaiting ACK` : ''}${u.waiting ? `, ${number(u.waiting)} not sent yet` : ''}`;
  return el('div', {
    class: 'bar', role: 'progressbar', 'aria-label': `${u.type} of ${u.key}`, 'aria-valuemin': 0, 'aria-valuemax': u.clients || 1, 'aria-valuenow': u.acked, 'aria-valuetext': text, title: text,
  }, parts.map(([state, n]) => el('i', { 'data-key': state, 'data-s': state, hidden: !n, style: { width: `${u.clients ? (100 * n) / u.clients : 0}%` } })));
}

// shorten keeps the beginning of a version.
export const shorten = (text, most = 12) => (text && text.length > most ? el('span', { class: 'mono', title: text }, `${text.slice(0, most)}…`) : el('span', { class: 'mono' }, text));

export const keyLink = (name) => el('a', { href: `#/key/${encodeURIComponent(name)}` }, name || '(empty key)');

export const runbookLink = (entry) => el('a', { class: 'small', href: `#/runbook/${encodeURIComponent(entry)}` }, `Runbook: ${entry.replace(/^XDSRelay/, '')}`);

// select is a list to choose from; the first choice is for all.
export function select({ label, all, options, value, onSelect }) {
  const known = value && !options.includes(value) ? [value, ...options] : options;
  return el('label', { class: 'select', 'data-key': `select-${label}` }, el('span', { class: 'soft small' }, label), ' ',
    el('select', { onchange: (event) => onSelect(event.currentTarget.value) }, el('option', { value: '' }, all), known.map((o) => el('option', { value: o, selected: o === value, 'data-key': o }, o))));
}

// sorts is a list of orders where a table has no header to click.
export const sorts = (all, now, href) => el('nav', { 'aria-label': 'Order', class: 'filters orders', 'data-key': 'orders' }, el('span', { class: 'soft small' }, 'Sort by'),
  all.map(([value, text]) => el('a', { 'data-key': value, href: href(value), 'aria-current': now === value ? 'true' : null }, text)));

export const clientLink = (name) => el('a', { href: `#/client/${encodeURIComponent(name)}` }, name || '(no name)');

// silence names the nodes whose clients are missing in a list.
export function silence(silent) {
  if (!silent?.length) return null;
  return el('p', { class: 'alert error', 'data-key': 'silent' }, `No answer from ${silent.map((s) => s.node).join(', ')}; their rows are missing.`);
}

// fields of a form keep what is typed while the page changes around them.
export function search({ label, value, onSearch }) {
  let timer;
  const input = el('input', {
    type: 'search', 'data-key': 'search', id: 'search', placeholder: label, 'aria-label': label, autocomplete: 'off', spellcheck: 'false', maxlength: 200,
    oninput(event) {
      const text = event.currentTarget.value;
      clearTimeout(timer);
      timer = setTimeout(() => onSearch(text), 250);
    },
  });
  input.value = value;
  return el('form', { role: 'search', 'data-key': 'form', onsubmit: (event) => { event.preventDefault(); onSearch(event.currentTarget.elements.search.value); } }, input);
}
