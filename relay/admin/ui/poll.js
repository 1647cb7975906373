// Polls of the node's API: only while the tab is visible, only changes (ETag), and with a backoff
// while the node does not answer.

const longest = 30_000;

// Feed polls a path; every is in milliseconds.
export class Feed {
  constructor(path, every, { onData, onState }) {
    Object.assign(this, { path, every, onData, onState });
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
        data = answer.status === 200 || answer.status === 404 ? await answer.json() : null;
        if (!data || (data.error && answer.status !== 404)) throw refusal(answer.status, data);
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

function refusal(status, data) {
  const error = new Error(data?.error ?? `the node answered ${status}`);
  error.denied = status === 401 || status === 403;
  return error;
}
