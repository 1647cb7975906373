'use strict';
// A browser that takes orders: each line of standard input is an order as JSON, and is
// answered by a line of standard output, {"ok": …} or {"error": …}. It keeps what no page
// may do: errors, violations of the policy, and requests to anybody else.

const readline = require('node:readline');
const { readFileSync } = require('node:fs');
const { chromium } = require('playwright-core');

const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const patience = 20_000;

let browser;
let page;
let origins = []; // the nodes of which the page may ask something
let wrong = [];
let asked = 0; // requests of the page

const orders = {
  // open opens the page of a node, instead of the one before.
  async open({ url, password }) {
    if (page) {
      await orders.clean();
      await page.context().close();
    }
    browser ??= await chromium.launch({ executablePath: process.env.E2E_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light', httpCredentials: password ? { username: 'anybody', password } : undefined });
    page = await context.newPage();
    origins = [new URL(url).origin];
    page.setDefaultTimeout(patience);
    page.on('pageerror', (error) => wrong.push(`an error: ${error.message}`));
    page.on('console', (message) => {
      const quiet = message.type() !== 'error' && message.type() !== 'warning';
      // What a browser says of a node that is down is no mistake of the page.
      if (!quiet && !/net::ERR_|status of 404/.test(message.text())) wrong.push(`the console: ${message.text()}`);
    });
    page.on('request', (request) => {
      asked++;
      if (!origins.some((origin) => request.url().startsWith(`${origin}/`))) wrong.push(`a request to ${request.url()}`);
    });
    page.on('dialog', (dialog) => wrong.push(`a dialog: ${dialog.message()}`));
    await page.addInitScript(() => {
      window.violations = [];
      document.addEventListener('securitypolicyviolation', (event) => window.violations.push(`${event.violatedDirective} by ${event.sourceFile}:${event.lineNumber} ${event.sample}`));
    });
    await page.goto(url);
    await page.locator('main h1').waitFor();
  },

  // view goes to a view, by the part of the address behind #.
  async view({ view }) {
    await page.evaluate((hash) => { location.hash = hash; }, view);
    await page.locator('main h1').waitFor();
  },

  // sees waits until a text is there; within narrows where.
  async sees({ text, within = 'body' }) {
    try {
      await page.waitForFunction(([where, what]) => [...document.querySelectorAll(where)].some((e) => e.innerText.replace(/\s+/g, ' ').includes(what)), [within, text]);
    } catch {
      throw new Error(`no "${text}" in ${within}, which says: ${(await page.locator(within).allInnerTexts()).join(' | ').slice(0, 3000)}`);
    }
  },

  // hidden holds that a part is there and is not shown.
  async hidden({ within }) {
    if (await page.locator(within).count() !== 1) throw new Error(`no ${within}`);
    if (await page.locator(within).isVisible()) throw new Error(`${within} is shown`);
  },

  // labeled waits for a part whose label has a text.
  async labeled({ text, within }) {
    await page.waitForFunction(([where, what]) => [...document.querySelectorAll(where)].some((e) => e.getAttribute('aria-label')?.includes(what)), [within, text]);
  },

  // reached waits for the newest update of a key to have come to so many of its clients.
  async reached({ key, reach }) {
    await orders.sees({ text: reach, within: `.updates li:has([aria-label="CDS of ${key}"])` });
    const bar = page.locator(`[role="progressbar"][aria-label="CDS of ${key}"]`).first();
    const [now, most] = [await bar.getAttribute('aria-valuenow'), await bar.getAttribute('aria-valuemax')];
    if (!reach.startsWith(`${now} / `) || !reach.endsWith(` / ${most}`)) throw new Error(`the bar says ${now} of ${most}, expected ${reach}`);
  },

  async search({ text }) {
    await page.getByRole('searchbox').fill(text);
  },

  async click({ name, role = 'button', within = 'body' }) {
    await page.locator(within).getByRole(role, { name, exact: true }).first().click();
  },

  async select({ label, value }) {
    await page.getByLabel(label).selectOption(value);
  },

  // unfold opens the first part that is closed.
  async unfold({ within }) {
    await page.locator(`${within} summary`).first().click();
  },

  // address waits until the address has a text behind #.
  async address({ text }) {
    await page.waitForFunction((what) => decodeURIComponent(location.hash).includes(what), text);
  },

  // repeats holds that of two elements with the same key both are shown, and stay while the page is drawn again.
  async repeats() {
    const script = await page.locator('script[type="module"]').first().getAttribute('src');
    const drawn = await page.evaluate(async (address) => {
      const { el, morph } = await import(new URL('dom.js', new URL(address, location.href)).href);
      const list = el('ul', {});
      const texts = [];
      for (let i = 0; i < 3; i++) {
        morph(list, ['old', 'new'].map((text) => el('li', { 'data-key': 'same' }, `${text} ${i}`)));
        texts.push([...list.children].map((e) => e.innerText ?? e.textContent).join(', '));
      }
      return texts.join('; ');
    }, script);
    if (drawn !== 'old 0, new 0; old 1, new 1; old 2, new 2') throw new Error(`drawn as ${drawn}`);
  },

  // follow follows a link to another node.
  async follow({ name }) {
    const link = page.getByRole('link', { name, exact: true }).first();
    origins.push(new URL(await link.getAttribute('href')).origin);
    await link.click();
    await page.locator('main h1').waitFor();
  },

  // walk uses the keyboard alone: past what is above, to the clients, and to one of them.
  async walk() {
    await orders.view({ view: '#/' });
    await page.evaluate(() => { document.activeElement.blur(); window.scrollTo(0, 0); });
    const focused = () => page.evaluate(() => {
      const e = document.activeElement;
      return { text: e.innerText ?? '', id: e.id, name: e.nodeName, ring: getComputedStyle(e).outlineStyle !== 'none' };
    });
    const tab = async (want) => {
      for (let i = 0; i < 40; i++) {
        await page.keyboard.press('Tab');
        const now = await focused();
        if (now.name !== 'BODY' && (now.text.startsWith(want) || now.id === want)) {
          if (!now.ring) throw new Error(`no ring around ${want}`);
          return;
        }
      }
      throw new Error(`${want} is not reached by the keyboard`);
    };
    await tab('Skip to the content');
    await tab('Clients');
    await page.keyboard.press('Enter');
    await orders.sees({ text: 'Clients', within: 'h1' });
    await page.waitForFunction(() => document.activeElement.nodeName === 'H1');
    await tab('search');
    await tab('Rejected');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => location.hash.includes('NACKED'));
  },

  // fits holds that nothing is wider than a phone, in all views.
  async fits({ width, views }) {
    await page.setViewportSize({ width, height: 740 });
    for (const view of views) {
      await orders.view({ view });
      await page.waitForTimeout(100);
      const wide = await page.evaluate(() => {
        const most = document.documentElement.clientWidth;
        if (document.documentElement.scrollWidth <= most) return null;
        return [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > most + 1).slice(0, 5).map((e) => `${e.nodeName}.${e.getAttribute('class')}`).join(', ');
      });
      if (wide) throw new Error(`${view} is wider than ${width}: ${wide}`);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  },

  async colours({ scheme }) {
    await page.emulateMedia({ colorScheme: scheme });
    const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0));
    if (light > 380 !== (scheme === 'light')) throw new Error(`${scheme} colours have a background of ${light}`);
  },

  // accessible holds that axe finds nothing that is serious, in all views.
  async accessible({ views, width }) {
    await page.setViewportSize({ width, height: 844 });
    for (const view of views) {
      await orders.view({ view });
      await page.waitForTimeout(100);
      // By the debugger, since the policy lets no page do so.
      const debug = await page.context().newCDPSession(page);
      await debug.send('Runtime.evaluate', { expression: `window.axe ?? (() => { ${axe} })(); undefined` });
      await debug.detach();
      const found = await page.evaluate(async () => {
        const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
        return violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} ${n.failureSummary?.slice(0, 240)}`).join(' | ')}`);
      });
      const bad = found.filter((v) => /^(serious|critical|moderate)/.test(v));
      if (bad.length) throw new Error(`${view}, ${width} wide: ${bad.join('; ')}`);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  },

  // quiet holds that a hidden page asks for nothing, and a shown one does again.
  async quiet() {
    const hide = (hidden) => page.evaluate((is) => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => is });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    await hide(true);
    const before = asked;
    await page.waitForTimeout(2500);
    if (asked !== before) throw new Error(`${asked - before} requests of a hidden page`);
    await hide(false);
    for (const end = Date.now() + patience; asked === before;) {
      if (Date.now() > end) throw new Error('no request after it was shown again');
      await page.waitForTimeout(50);
    }
  },

  async shot({ path, view, width, height, scheme, full }) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme });
    await orders.view({ view });
    await page.evaluate(() => { document.activeElement.blur(); window.scrollTo(0, 0); });
    await page.waitForTimeout(1500);
    await page.screenshot({ path, fullPage: Boolean(full) });
  },

  // clean holds that the page did nothing that it may not.
  async clean() {
    wrong.push(...(await page.evaluate(() => window.violations)).map((v) => `a violation of the policy: ${v}`));
    if (wrong.length) throw new Error(wrong.join('; '));
  },
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    let answer = { ok: true };
    try {
      await orders[order.do](order);
    } catch (error) {
      answer = { error: `${order.do}: ${error.message}` };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  await browser?.close();
})();
