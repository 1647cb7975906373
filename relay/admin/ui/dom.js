// Elements are made here and nowhere else. What comes from outside becomes text, never
// markup: there is no way to hand in any.

const svgNames = new Set(['svg', 'path', 'line', 'text', 'g', 'rect']);

// el makes an element. Attributes that are null or false are left out; style is an
// object of properties, and on… are listeners.
export function el(tag, attributes = {}, ...children) {
  const node = svgNames.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'style') {
      for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    } else if (name.startsWith('on')) {
      node[name] = value;
    } else {
      node.setAttribute(name, value === true ? '' : value);
    }
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// morph makes the children of a node those of a list, and keeps the elements that fit:
// so focus, open details and transitions stay as they are while numbers change.
export function morph(node, wanted) {
  const fresh = wanted.flat(Infinity).filter((w) => w !== null && w !== undefined && w !== false);
  const old = [...node.childNodes];
  const keyed = new Map(old.filter((o) => keyOf(o)).map((o) => [keyOf(o), o]));
  let place = node.firstChild;
  for (const next of fresh) {
    const key = keyOf(next);
    let match = key ? keyed.get(key) : place;
    if (match && !key && keyOf(match)) match = null;
    if (key) keyed.delete(key); // a second one with the same key is an element of its own
    if (match && fits(match, next)) {
      if (match !== place) node.insertBefore(match, place);
      patch(match, next);
      place = match.nextSibling;
    } else {
      node.insertBefore(next, place);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute('data-key') : null);

const fits = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function patch(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && name !== 'style' && name !== 'open') old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (name !== 'style' && name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const event of ['onclick', 'onsubmit', 'oninput', 'onchange', 'ontoggle', 'onpointermove', 'onpointerleave']) {
    if (old[event] !== next[event]) old[event] = next[event];
  }
  if (old.nodeName !== 'INPUT') morph(old, [...next.childNodes]);
  if (old.nodeName === 'SELECT' && old !== document.activeElement && old.value !== next.value) old.value = next.value;
}

// table makes a table. Columns are {title, num, href, sorted}; the first cell of a row is its
// header. href sorts the rows by the column, which sorted says of it: ascending or descending.
// Roles are written out, since on a phone a table is shown as cards.
export function table(caption, columns, rows, attributes = {}) {
  const head = el('tr', { role: 'row' }, columns.map((c) => el('th', { scope: 'col', role: 'columnheader', class: c.num ? 'num' : null, 'aria-sort': c.sorted ?? null },
    c.href ? el('a', { href: c.href, title: `Sort by ${c.title.toLowerCase()}` }, c.title, c.sorted ? el('span', { 'aria-hidden': 'true' }, c.sorted === 'ascending' ? ' ▲' : ' ▼') : null) : c.title)));
  const body = rows.map(({ key, cells, total }) => el('tr', { role: 'row', 'data-key': key, class: total ? 'total' : null }, cells.map((cell, i) => {
    const empty = cell === null || cell === undefined || cell === '' || (Array.isArray(cell) && cell.length === 0);
    const shape = [columns[i].num ? 'num' : '', empty ? 'none' : ''].filter(Boolean).join(' ') || null;
    if (i === 0) return el('th', { scope: 'row', role: 'rowheader' }, cell);
    return el('td', { role: 'cell', class: shape, 'data-label': columns[i].title }, cell);
  })));
  return el('table', { role: 'table', ...attributes }, el('caption', { class: 'unseen' }, caption),
    el('thead', { role: 'rowgroup' }, head), el('tbody', { role: 'rowgroup' }, body));
}
