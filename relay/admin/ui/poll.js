// Polls of the node's API: only while the tab is visible, only changes (ETag), and with a backoff
// while the node does not answer.

const longest = 30_000;

// Feed polls a path; every is in milliseconds.
export class Feed {
  constructor(path, every, { onData, onState, text = false }) {
    Object.assign(this, { path, every, onData, onState, text });
    this.failures = 0;
    this.good = 0; // time of the last good answer
    this.due = 0; // time of the next request
    this.skew = 0; // the node's clock minus this one
    this.shown = () => (document.hidden ? this.rest() : this.now());
    document.addEventListener('visibilitychange', this.shown);
  }

  // now sends a request at once.
  now() {
    this.rest();
    if (!this.ended) this.ask();
  }

  // to changes the path.
  to(path) {
    this.path = path;
    this.tag = null;
    this.now();
  }

  rest() {
    clearTimeout(this.timer);
    this.aborter?.abort();
    this.aborter = null;
  }

  end() {
    this.ended = true;
    this.rest();
    document.removeEventListener('visibilitychange', this.shown);
  }

  async ask() {
    const aborter = new AbortController();
    this.aborter = aborter;
    const path = this.path;
    const limit = setTimeout(() => aborter.abort(new Error('no answer within 10 s')), 10_000);
    try {
      const headers = { Accept: 'application/json' };
      if (this.tag) headers['If-None-Match'] = this.tag;
      const answer = await fetch(path, { headers, cache: 'no-store', signal: aborter.signal });
      const date = Date.parse(answer.headers.get('Date'));
      if (date) this.skew = date - Date.now();
      let data = null;
      if (answer.status !== 304) {
        data = answer.status === 200 && this.text ? await answer.text() : answer.status === 200 || answer.status === 404 || answer.status === 400 ? await answer.json() : null;
        if (!data || answer.status === 400 || (data.error && answer.status !== 404)) throw refusal(answer.status, data);
        this.tag = answer.headers.get('ETag');
      }
      if (this.aborter !== aborter) return;
      this.failures = 0;
      this.good = Date.now();
      this.error = null;
      this.onState?.(this);
      if (data) this.onData(data, this);
    } catch (error) {
      if (this.aborter !== aborter) return; // another request has replaced this one
      this.failures++;
      this.error = error;
      this.onState?.(this);
    } finally {
      clearTimeout(limit);
    }
    const pause = this.failures ? Math.min(longest, this.every * 2 ** (this.failures - 1)) * (0.75 + Math.random() / 2) : this.every;
    this.due = Date.now() + pause;
    // After a token is rejected, the browser asks the user for another, so do not repeat.
    if (!document.hidden && !this.ended && !this.error?.denied) this.timer = setTimeout(() => this.ask(), pause);
  }
}

// loader gets answers that are asked for once: load(path) asks, and load.got(path) is what came of
// it: {data}, {error}, {} while there is no answer, or nothing.
export function loader(onAnswer) {
  const answers = new Map();
  const load = async (path) => {
    if (answers.has(path) && !answers.get(path).error) return;
    const one = {};
    answers.set(path, one);
    onAnswer();
    try {
      const answer = await fetch(path, { headers: { Accept: 'application/json' }, cache: 'no-store', signal: AbortSignal.timeout(10_000) });
      const data = await answer.json();
      if (answer.ok) one.data = data;
      else one.error = data.error ?? `the node answered ${answer.status}`;
    } catch (error) {
      one.error = error instanceof TypeError ? 'The node does not answer.' : error.message;
    }
    if (answers.get(path) === one) onAnswer();
  };
  load.got = (path) => answers.get(path);
  load.forget = () => answers.clear();
  return load;
}

function refusal(status, data) {
  const error = new Error(data?.error ?? `the node answered ${status}`);
  error.status = status;
  error.denied = status === 401 || status === 403;
  return error;
}
