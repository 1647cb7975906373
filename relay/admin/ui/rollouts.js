// Rollouts: of each key how far its revision is, how the canaries are, and what is next.
import { el, table } from './dom.js';
import { count, number, percent, share, span } from './format.js';
import { ago, chip, clientLink, keyLink, runbookLink, silence } from './parts.js';

// path is what the page asks for: keys to which something happens, which are few.
export const rolloutsPath = '/api/v1/rollout?active=true';

// governed reports whether there is any rollout policy: otherwise the page shows nothing of rollouts.
export const governed = (data) => Boolean(data?.budget);

const staged = (data) => (data?.keys ?? []).filter((k) => k.rollout);

const named = (text) => ({ phase: text.split(' ')[0], need: text.split(' ').find((w) => needs.includes(w)) });
const needs = ['Quiet', 'Approval', 'Tokens', 'Write', 'Bake'];

// follows says that a node has described the key that does not decide about it.
const follows = (r) => r.role === 'following' || r.role === 'claiming';

const observed = (r) => r.mode === 'observe';

const wouldHold = (k) => observed(k.rollout) && named(k.rollout.state).phase === 'Held';

export const isHeld = (k) => !observed(k.rollout) && named(k.rollout.state).phase === 'Held';

// rollouts is the view.
export function rollouts({ rollouts: data, now }) {
  const head = el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, 'Rollouts'), el('p', { class: 'soft' }, 'changes reach a few clients first, and the others once those stay well'));
  if (!data) return [head, el('p', { class: 'empty' }, 'Loading…')];
  if (!governed(data)) return [head, el('p', { class: 'empty' }, 'No key with a client has a rollout policy: all changes pass at once.')];
  const all = staged(data);
  return [
    head,
    silence(data.silent),
    limits(data),
    all.length ? null : el('p', { class: 'empty', 'data-key': 'none' }, 'No rollout is in progress, and none has ended within the last hour.'),
    all.map((k) => rollout(k, now)),
    el('p', { class: 'soft small', 'data-key': 'rest' }, [data.omitted ? `${count(data.omitted, 'more key')} with rollouts are not shown.` : '', data.idle ? `${count(data.idle, 'key')} with a policy ${data.idle === 1 ? 'has' : 'have'} had no rollout for an hour.` : ''].filter(Boolean).join(' ')),
  ];
}

// limits are the budget and the breaker.
function limits({ budget: b }) {
  const breaker = b.breaker_open
    ? [chip('bad', 'Breaker open'), ' ', el('span', {}, 'No rollout starts until ', el('code', {}, 'xdsrelay rollout resume --all'), '.'), ' ', runbookLink('XDSRelayRolloutBreakerOpen')]
    : b.max_failures ? [chip('ok', 'Breaker closed'), ' ', el('span', { class: 'soft' }, `${number(b.failures)} of ${count(b.max_failures, 'failure')} until it opens`)] : el('span', { class: 'soft' }, 'No breaker');
  return el('section', { class: 'card limits', 'data-key': 'limits', 'aria-label': 'Budget and breaker' },
    el('div', {}, el('p', {}, el('b', {}, 'Budget'), ' ', `${number(b.used)} of ${number(b.limit)}`, el('span', { class: 'soft' }, ` clients may have unproven revisions: ${count(b.clients, 'client')} in all, of which ${b.share.replace('%', ' %')}`)),
      meter('Budget in use', b.used, Math.max(1, b.limit), `${number(b.used)} of ${count(b.limit, 'client')}`)),
    el('p', {}, breaker));
}

const meter = (label, value, most, text) => el('div', { class: 'bar', role: 'progressbar', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': most, 'aria-valuenow': Math.min(value, most), 'aria-valuetext': text },
  el('i', { 'data-s': value >= most ? 'stale' : 'synced', hidden: !value, style: { width: `${Math.min(100, (100 * value) / most)}%` } }));

// rollout is one key.
export function rollout(k, now) {
  const r = k.rollout;
  const id = `rollout-${k.key}`;
  return el('section', { class: 'card rollout', 'data-key': id, 'aria-label': `Rollout of ${k.key}` },
    el('header', {},
      el('h2', {}, keyLink(k.key)),
      el('p', { class: 'line' }, status(k), r.revision ? el('span', { class: 'tag mono' }, r.revision) : null, el('span', { class: 'soft small' }, `policy ${r.policy}, ${r.mode}`))),
    el('p', { class: 'says' }, words(k)),
    r.schedule ? steps(k, now) : null,
    el('dl', { class: 'facts' },
      r.revision ? fact('Exposed', exposed(r)) : null,
      r.observed ? fact('Would be canaries', number(r.canaries)) : null,
      r.observed ? fact('All clients', `${number(r.observed.rejected)} rejected it, ${number(r.observed.lost)} were lost, ${number(r.observed.unanswered)} have not answered`) : null,
      r.next ? fact('Next', commands(r.next)) : null,
      fact('Stable', [el('span', { class: 'mono' }, r.stable || k.stable || 'not known'), r.good && r.good === r.stable ? el('span', { class: 'soft' }, ' good') : null]),
      r.tokens ? fact('Budget', count(r.tokens, 'client')) : null),
    trouble(r),
    r.canary ? arms(k) : null,
    findings(r),
    k.pending.length ? held(k) : null,
    past(r));
}

const fact = (title, value) => el('div', { 'data-key': title }, el('dt', {}, title), el('dd', {}, value));

// commands shows what is quoted in a sentence as code.
const commands = (text) => text.split(/'([^']+)'/).map((part, i) => (i % 2 ? el('code', {}, part) : part));

function status(k) {
  const r = k.rollout;
  const { phase, need } = named(r.state);
  if (observed(r)) return chip(wouldHold(k) ? 'warn' : 'ok', wouldHold(k) ? 'Would be held' : 'Only observed');
  if (isHeld(k)) return chip('bad', 'Held');
  if (k.freeze || k.undone) return chip('warn', k.freeze ? 'Frozen' : 'Undone');
  if (r.state.includes('Braked')) return chip('warn', r.waits ? `Stopped: ${r.waits}` : 'Stopped');
  if (r.overdue) return chip('warn', 'Overdue');
  if (need === 'Approval') return chip('warn', 'Waits for an approval');
  if (need === 'Tokens') return chip('warn', r.waits.startsWith('breaker') ? 'Waits for the breaker' : 'Waits for the budget');
  if (follows(r)) return chip('warn', 'Owner unknown');
  return chip('ok', { Idle: 'Done', Settling: 'Collecting changes', Scouting: 'Scouts', Stepping: 'In progress', Proving: 'Final bake' }[phase] ?? r.state);
}

// words is the state as a sentence.
function words(k) {
  const r = k.rollout;
  const { phase, need } = named(r.state);
  if (follows(r)) return 'The node that decides does not answer; clients keep what they have.';
  const last = r.history?.[r.history.length - 1];
  if (observed(r)) return `The policy only observes: nothing is held back. ${wouldHold(k) ? 'A rollout would have failed.' : r.revision ? 'This is how a rollout would be.' : ''}`;
  switch (phase) {
    case 'Held': return ['The revision was refused', last?.what === 'failed' ? [' ', ago(last.at)] : null, `. No further client gets it${r.canaries ? '.' : '; all clients have the stable revision.'}`];
    case 'Settling': return 'A change has arrived. The relay waits until the control plane sends nothing more of it.';
    case 'Proving': return 'All clients have the revision. A failure now returns all of them to the one before.';
    case 'Idle': return last ? [`All clients have what the control plane sent. Last: ${decided[last.what] ?? last.what} `, ago(last.at), '.'] : 'All clients have what the control plane sent.';
  }
  const who = r.step === 0 ? 'scouts' : r.schedule?.[r.step]?.name === 'all' ? 'all clients' : `${r.schedule?.[r.step]?.name.replace('%', ' %')} of the clients`;
  if (need === 'Bake') return `${r.step === 0 ? `${count(r.canaries, 'scout')}, one for each software version,` : number(r.canaries)} of ${number(r.affected)} affected clients ${r.canaries === 1 ? 'has' : 'have'} the revision; all others have the stable one.`;
  if (need === 'Quiet') return 'A newer change has arrived, so no further client gets this revision.';
  return `The step to ${who} is not made yet${r.waits ? `: ${r.waits}` : ''}.`;
}

function exposed(r) {
  const of = r.affected ? [` of ${number(r.affected)} affected clients `, el('span', { class: 'part' }, `(${share(r.exposed, r.affected)})`)] : null;
  const { phase } = named(r.state);
  return [el('b', {}, number(r.exposed)), of, phase === 'Held' && !observed(r) ? el('span', { class: 'soft' }, r.canaries ? `, ${number(r.canaries)} now` : ', none now') : null];
}

// steps is a bar with a part for each step: how much of its bake is over.
function steps(k, now) {
  const r = k.rollout;
  const { phase, need } = named(r.state);
  const bake = (r.schedule[r.step]?.bake_ns ?? 0) / 1e9;
  const left = r.bake_ends ? Math.max(0, (Date.parse(r.bake_ends) - now) / 1000) : null;
  const over = left === null || !bake ? 0 : Math.min(1, 1 - left / bake);
  const here = { Held: 'failed', Idle: 'done' }[phase] ?? (need === 'Bake' && !r.state.includes('Braked') ? 'bake' : 'waits');
  const name = (s) => (s.name === 'scouts' ? 'Scouts' : s.name === 'all' ? 'All clients' : s.name.replace('%', ' %'));
  const where = `step ${r.step + 1} of ${r.schedule.length}, ${name(r.schedule[r.step]).toLowerCase()}`;
  const text = here === 'failed' ? `failed in ${where}` : here === 'bake' && bake ? `${where}, ${percent(over, 1)} of the bake is over` : where;
  return el('div', { class: 'steps', role: 'img', 'aria-label': `Steps of ${k.key}: ${text}` }, r.schedule.map((s, i) => {
    const is = i < r.step ? 'done' : i > r.step ? 'ahead' : here;
    const width = is === 'done' || is === 'failed' ? 100 : is === 'bake' ? (bake ? 100 * over : 100) : 0;
    const note = is === 'bake' && left !== null && bake ? `${span(Math.ceil(left))} left` : is === 'failed' ? 'failed' : is === 'waits' ? 'waits' : is === 'done' ? 'passed' : s.approve ? 'after an approval' : s.bake_ns ? span(s.bake_ns / 1e9) : '';
    return el('div', { class: 'step', 'data-key': s.name, 'data-is': is },
      el('span', { class: 'track' }, el('i', { style: { width: `${width}%` } })),
      el('span', { class: 'step-name' }, name(s)), el('span', { class: 'soft small' }, s.clients ? `${number(s.clients)} · ${note}` : note));
  }));
}

// arms are the canaries and their control group, side by side.
function arms(k) {
  const { canary, control } = k.rollout;
  const requests = (a) => (a.requests ? `${percent(a.errors, a.requests)} of ${number(a.requests)}` : el('span', { class: 'soft' }, 'not measured'));
  const bad = (n) => (n ? el('b', { class: 'reason' }, number(n)) : number(n));
  const none = el('span', { class: 'soft' }, '–');
  const columns = [{ title: 'Group' }, { title: 'Clients', num: true }, { title: 'Accepted', num: true }, { title: 'NACKs', num: true }, { title: 'Unanswered', num: true }, { title: 'Lost', num: true }, { title: 'Failed requests', num: true }];
  return table(`Canaries and control group of ${k.key}`, columns, [
    { key: 'canary', cells: ['Canaries', number(canary.clients), number(canary.accepted), bad(canary.rejected), bad(canary.unanswered), bad(canary.lost), requests(canary)] },
    { key: 'control', cells: ['Control', number(control.clients), none, none.cloneNode(true), none.cloneNode(true), number(control.lost), requests(control)] },
  ], { class: 'cards arms', 'data-key': 'arms' });
}

const outcomes = { pass: 'ok', fail: 'bad', 'not enough data': 'warn', 'not measured': 'none' };

// findings are what each signal says.
function findings(r) {
  if (!r.findings?.length) return null;
  return el('ul', { class: 'findings', 'data-key': 'findings', 'aria-label': 'Verdict' }, r.findings.map((text) => {
    const [, signal, outcome, why] = /^([^:]+): (pass|fail|not enough data|not measured), (.*)$/s.exec(text) ?? [];
    return el('li', { 'data-key': signal ?? text }, signal ? [chip(outcomes[outcome], outcome), ' ', el('b', {}, signal), ' ', el('span', { class: outcome === 'fail' ? 'reason' : 'soft' }, why)] : text);
  }));
}

const short = (url) => ({ Cluster: 'CDS', Listener: 'LDS', RouteConfiguration: 'RDS', ScopedRouteConfiguration: 'SRDS', TypedExtensionConfig: 'ECDS', Runtime: 'RTDS', Secret: 'SDS' }[url?.split('.').pop()] ?? url?.split('.').pop() ?? '');

// trouble is which clients have rejected what, were lost, or have not answered.
function trouble(r) {
  const all = [
    ...(r.rejections ?? []).map((x) => ({ ...x, kind: 'rejected', what: ['rejected ', el('span', { class: 'tag' }, short(x.type_url)), ' ', (x.resources ?? []).join(', ')], why: x.reason })),
    ...(r.lost ?? []).map((x) => ({ ...x, kind: 'lost', what: x.type_url ? ['was lost before it answered ', short(x.type_url)] : 'was lost after it had accepted the revision' })),
    ...(r.unanswered ?? []).map((x) => ({ ...x, kind: 'unanswered', what: ['has not answered ', short(x.type_url)] })),
  ];
  if (!all.length) return null;
  return el('ul', { class: 'troubles', 'data-key': 'trouble', 'aria-label': 'Clients in trouble' }, all.map((x) => el('li', { 'data-key': `${x.kind}/${x.client}/${x.type_url ?? ''}/${x.at}` },
    el('p', {}, el('b', {}, clientLink(x.client)), ' ', x.what, ' ', el('span', { class: 'soft small' }, ago(x.at))), x.why ? el('p', { class: 'reason' }, x.why) : null)));
}

const signs = (p) => [p.added ? `+${number(p.added)}` : '', p.changed ? `~${number(p.changed)}` : '', p.removed ? `−${number(p.removed)}` : ''].filter(Boolean).join(' ');

// held is what most clients do not have yet.
function held(k) {
  return el('p', { class: 'small', 'data-key': 'held' }, el('span', { class: 'soft' }, 'Held back from the others: '), k.pending.map((p, i) => [i ? '; ' : '', el('span', { class: 'tag' }, p.type), ` ${signs(p)} `, el('span', { class: 'soft' }, (p.names ?? []).slice(0, 3).join(', '))]));
}

const decided = {
  started: 'started', waiting: 'waits for an approval', step: 'gave the revision to the clients of a step', refilled: 'replaced canaries that have left', outgrown: 'begins again, since far more clients are affected', passed: 'passed a bake', promoted: 'released the revision to all clients',
  failed: 'failed', refused: 'refused a revision again', withdrawn: 'ended, because the control plane withdrew the change', approve: 'approved', pause: 'paused', resume: 'resumed', abort: 'aborted', retry: 'tried again', promote: 'released without checks', undo: 'undone',
};

// past are the last decisions.
function past(r) {
  const all = [...(r.history ?? [])].reverse();
  if (!all.length) return null;
  return el('ol', { class: 'decisions small', 'data-key': 'past', 'aria-label': 'Last decisions, newest first' }, all.map((d) => el('li', { 'data-key': `${d.at}/${d.what}` },
    el('span', { class: 'soft' }, ago(d.at)), ' ', d.observed ? 'observed only: ' : '', decided[d.what] ?? d.what, d.revision ? [' ', el('span', { class: 'mono soft' }, d.revision)] : null, d.by && d.by !== 'none' ? el('span', { class: 'soft' }, `, by ${d.by}`) : null)));
}

// inShort is a card for the overview.
export function inShort(data, now, card) {
  const all = staged(data);
  if (!all.length) return null;
  const shown = all.slice(0, 5);
  return card('rollouts', 'Rollouts', el('a', { class: 'small', href: '#/rollouts' }, all.length > shown.length ? `all ${number(all.length)}` : 'details'),
    el('ul', { class: 'rollouts' }, shown.map((k) => el('li', { 'data-key': k.key }, el('p', { class: 'line' }, el('b', {}, keyLink(k.key)), status(k), k.rollout.revision ? el('span', { class: 'soft small' }, exposed(k.rollout)) : null), k.rollout.schedule ? steps(k, now) : null))));
}
