// The grpc-js client of the end-to-end tests.
//
// Resolves an xds:/// target with @grpc/grpc-js-xds and calls the health
// service of whatever backend it is led to, again and again until it is ended.
// Each call prints one line of JSON:
//
//     {"ok": true,  "backend": "second"}
//     {"ok": false, "error": "UNAVAILABLE: why"}
//
// The xDS bootstrap comes from GRPC_XDS_BOOTSTRAP_CONFIG. Messages are passed
// as bytes: an empty HealthCheckRequest is no bytes at all.
'use strict';

const { parseArgs } = require('node:util');
const grpc = require('@grpc/grpc-js');

require('@grpc/grpc-js-xds').register();

const { values: flags } = parseArgs({
  options: {
    target: { type: 'string', default: 'xds:///svc' },
    interval: { type: 'string', default: '0.1' }, // seconds between calls
    timeout: { type: 'string', default: '20' }, // seconds one call may take
  },
});

// The response header in which a test's backend says who it is.
const who = 'x-xdstest-backend';

const asIs = (message) => message;
const client = new grpc.Client(flags.target, grpc.credentials.createInsecure());

// Makes one call and resolves to what to report about it; never rejects.
function call() {
  return new Promise((resolve) => {
    let backend = '';
    const options = { deadline: Date.now() + 1000 * Number(flags.timeout) };
    const pending = client.makeUnaryRequest(
      '/grpc.health.v1.Health/Check', asIs, asIs, Buffer.alloc(0), new grpc.Metadata(), options,
      (err) => {
        if (err) {
          resolve({ ok: false, error: `${grpc.status[err.code]}: ${err.details}` });
        } else {
          resolve({ ok: true, backend });
        }
      });
    pending.on('metadata', (metadata) => {
      backend = String(metadata.get(who)[0] ?? '');
    });
  });
}

async function main() {
  for (;;) {
    const line = await call();
    process.stdout.write(JSON.stringify(line) + '\n');
    await new Promise((resolve) => { setTimeout(resolve, 1000 * Number(flags.interval)); });
  }
}

// The test reads from a pipe; once it is gone there is nobody to call for.
process.stdout.on('error', () => process.exit(0));
main();
