// An entry of the runbook, which the node has as Markdown. Only what the runbook uses is known
// here, and its texts become text.
import { el } from './dom.js';

export const runbookPath = '/ui/runbook.md';

export function runbook({ text, name }) {
  const title = text && name ? text.split('\n').find((l) => l.toLowerCase() === `### ${name.toLowerCase()}`)?.slice(4) : null;
  const head = el('div', { class: 'head', 'data-key': 'head' }, el('h1', { tabindex: '-1' }, title ?? (name || 'Runbook')), name ? el('p', {}, el('a', { href: '#/runbook/' }, 'whole runbook')) : null);
  if (!text) return [head, el('p', { class: 'empty' }, 'Loading…')];
  const part = name ? entry(text, name) : text;
  if (!part) return [head, el('p', { class: 'empty' }, 'The runbook has no such entry.')];
  return [head, el('section', { class: 'card prose', 'data-key': 'entry', 'aria-label': 'Entry of the runbook' }, blocks(part))];
}

// entry is the part below a heading.
function entry(text, name) {
  const lines = text.split('\n');
  const begin = lines.findIndex((l) => l.toLowerCase() === `### ${name.toLowerCase()}`);
  if (begin < 0) return null;
  const end = lines.findIndex((l, i) => i > begin && /^#{1,3} /.test(l));
  return lines.slice(begin + 1, end < 0 ? undefined : end).join('\n');
}

function blocks(text) {
  const out = [];
  const lines = text.split('\n');
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const heading = /^(#{1,3}) (.*)$/.exec(line);
    if (!line.trim()) continue;
    if (line.startsWith('```')) {
      const end = lines.indexOf('```', i + 1);
      out.push(el('pre', {}, lines.slice(i + 1, end < 0 ? undefined : end).join('\n')));
      i = end < 0 ? lines.length : end;
    } else if (heading) {
      if (heading[1].length > 1) out.push(el(heading[1].length === 2 ? 'h2' : 'h3', {}, inline(heading[2])));
    } else if (/^(\d+\.|-) /.test(line)) {
      const items = [];
      for (; i < lines.length && /^(\d+\.|-) |^ {2,}\S/.test(lines[i]); i++) {
        if (/^ /.test(lines[i])) items[items.length - 1] += ` ${lines[i].trim()}`;
        else items.push(lines[i].replace(/^(\d+\.|-) /, ''));
      }
      i--;
      out.push(el(/^\d/.test(line) ? 'ol' : 'ul', {}, items.map((item) => el('li', {}, inline(item)))));
    } else {
      out.push(el('p', {}, inline(line)));
    }
  }
  return out;
}

// inline knows code, bold text, and links to other entries; other links become their text.
function inline(text) {
  const out = [];
  const form = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^)]+)\)/g;
  let last = 0;
  for (const m of text.matchAll(form)) {
    out.push(text.slice(last, m.index));
    if (m[1]) out.push(el('code', {}, m[1]));
    else if (m[2]) out.push(el('b', {}, m[2]));
    else if (/^#xdsrelay/.test(m[4])) out.push(el('a', { href: `#/runbook/${m[4].slice(1)}` }, m[3]));
    else out.push(m[3]);
    last = m.index + m[0].length;
  }
  out.push(text.slice(last));
  return out;
}
