// What happened in the tier: the last events as a list, and marks for the pictures of the last hour.
import { el } from './dom.js';
import { ago, chip, silence } from './parts.js';

const shown = 12;

const chips = { error: 'bad', warning: 'warn', info: 'ok' };

export const marksOf = (data) => (data?.events ?? []).map((e) => ({ at: Date.parse(e.time) / 1000, severity: e.severity in chips ? e.severity : 'info', text: e.text }));

// happened is a card with the newest events first.
export function happened(data, card) {
  if (!data) return null;
  const newest = data.events.slice(-shown).reverse();
  return card('events', 'Last events', null,
    el('p', { class: 'soft small' }, 'Lines in the pictures above; “xdsrelay events” shows more.'),
    silence(data.silent),
    newest.length ? el('ol', { class: 'events' }, newest.map((e) => el('li', { 'data-key': `${e.node}/${e.seq}/${e.time}` },
      el('p', { class: 'num soft small when' }, ago(e.time)),
      el('p', {}, chip(chips[e.severity] ?? 'ok', e.severity)),
      el('p', { class: 'what' }, e.text, el('span', { class: 'soft small' }, ` ${e.kind}, recorded by ${e.nodes.join(', ')}`)))))
      : el('p', { class: 'empty' }, 'None yet.'));
}
