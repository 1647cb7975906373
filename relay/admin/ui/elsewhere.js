// The other nodes of the tier, for when the node of this page does not answer: as it last knew them.
import { el } from './dom.js';
import { words } from './parts.js';

export function elsewhere(live) {
  const others = (live?.nodes ?? []).filter((n) => n.name !== live.self && n.state !== 'silent' && n.state !== 'disappeared').slice(0, 12);
  if (!others.length) return [];
  const linked = others.filter((n) => /^https?:\/\//.test(n.admin ?? ''));
  const rest = others.filter((n) => !linked.includes(n));
  return [
    linked.length ? el('p', { 'data-key': 'links' }, 'This view on another node: ', linked.map((n, i) => [i ? ', ' : '', el('a', { href: `${n.admin}/${location.hash}`, rel: 'noreferrer' }, n.name), n.state === 'ok' ? null : ` (${words(n.state)})`]), '.') : null,
    rest.length ? el('p', { 'data-key': 'rest' }, `The admin port of ${rest.map((n) => n.name).join(', ')} accepts connections from ${rest.length === 1 ? 'its' : 'their'} own machine only: use kubectl port-forward or ssh -L there, and open the same address.`) : null,
  ].filter(Boolean);
}
