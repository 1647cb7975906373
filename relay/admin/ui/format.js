// Numbers and times as people read them.

const whole = new Intl.NumberFormat('en');
const small = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export const number = (n) => (Math.abs(n) < 100 && n % 1 ? small.format(n) : whole.format(Math.round(n)));

export function bytes(n) {
  let unit = 0;
  while (n >= 1000 && unit < 5) {
    n /= 1000;
    unit++;
  }
  return `${unit && n < 99.95 ? n.toFixed(1) : Math.round(n)} ${['B', 'kB', 'MB', 'GB', 'TB', 'PB'][unit]}`;
}

// seconds is a time that something took.
export function seconds(s) {
  if (s < 0.00095) return `${Math.round(s * 1e6)} µs`;
  if (s < 0.0995) return `${(s * 1e3).toFixed(s < 0.00995 ? 1 : 0)} ms`;
  if (s < 0.9995) return `${Math.round(s * 1e3)} ms`;
  if (s < 59.5) return `${s.toFixed(s < 9.95 ? 1 : 0)} s`;
  return span(s);
}

// span is a longer time, in its two largest units.
export function span(s) {
  s = Math.max(0, Math.floor(s));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s < 600 && s % 60 ? ` ${s % 60} s` : ''}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h${Math.floor(s / 60) % 60 ? ` ${Math.floor(s / 60) % 60} min` : ''}`;
  return `${Math.floor(s / 86400)} d${Math.floor(s / 3600) % 24 ? ` ${Math.floor(s / 3600) % 24} h` : ''}`;
}

export const count = (n, thing) => `${number(n)} ${thing}${n === 1 ? '' : 's'}`;

export function percent(part, all) {
  const p = (100 * part) / all;
  if (p >= 99.995) return p === 100 ? '100 %' : '> 99.99 %';
  return `${p >= 99.5 ? p.toFixed(2) : p.toFixed(1)} %`;
}

// share is a part of all, beside its number; empty if there is nothing to share.
export const share = (part, all) => (all > 0 ? part === 0 ? '0 %' : part / all < 0.0005 ? '< 0.1 %' : percent(part, all).replace('.0 %', ' %') : '');

export const clock = (date) => date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

export const stamp = (text) => new Date(text).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

// The states of clients in words.
export const stateNames = { MISSING: 'Missing resources', SYNCED: 'Synced', STALE: 'Stale', NACKED: 'Rejected', NOT_SENT: 'Not sent', UNKNOWN: 'Unknown' };
export const stateOrder = ['SYNCED', 'STALE', 'NACKED', 'NOT_SENT', 'UNKNOWN'];
export const stateHelp = {
  SYNCED: 'acknowledged the newest version', STALE: 'has not received or acknowledged the newest version', NACKED: 'rejected the newest version',
  NOT_SENT: 'nothing has been sent yet', UNKNOWN: 'reconnected with versions that cannot be compared yet',
};
