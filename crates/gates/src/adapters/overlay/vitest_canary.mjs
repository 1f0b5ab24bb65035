// Countersign's canary for vitest: in the world of each test file, behind its tests and everything that they loaded,
// assertions that must fail are made. It is the last of the set-up files, under a name that is new in every run.
import { openSync, readFileSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const require = createRequire(import.meta.url);
const { told, ofAssert, ofExpect } = require('./countersign_lies.cjs');

// Bound now: code under test, which comes later, may replace what modules hold.
const { stringify } = JSON;
const write = writeSync;
const nonce = path.basename(fileURLToPath(import.meta.url), '.mjs').split('_').pop();
const report = openSync(`/run/countersign/report/${nonce}/vitest-canary`, 'a', 0o600);

/** The project's vitest, which its tests import too. */
async function library() {
  const manifest = createRequire(path.join(process.cwd(), 'package.json')).resolve('vitest/package.json');
  const main = JSON.parse(readFileSync(manifest, 'utf8')).exports['.'];
  const entry = main.import?.default ?? main.default ?? main.import ?? main;
  return import(pathToFileURL(path.join(path.dirname(manifest), entry)).href);
}

try {
  plant(await library());
} catch {
  // Then there is no canary, and the strength says so; the tests themselves must not suffer.
}

function plant({ afterAll, expect }) {
  const file = expect.getState().testPath ?? globalThis.__vitest_worker__?.filepath;
  const tell = (status) => write(report, `${stringify({ file, status })}\n`);
  const parts = (value) => (value ? [value, ...Object.keys(value).map((key) => value[key])] : [value]);
  const globals = () => ['test', 'it', 'describe'].flatMap((name) => parts(globalThis[name]));
  const held = globals();

  tell('begin');
  afterAll(() => {
    let status = 'error';
    try {
      const assert = require('node:assert');
      const lies = [...ofExpect(expect), ...ofAssert(assert), ...ofAssert(assert.strict)];
      if (globalThis.expect) lies.push(...ofExpect(globalThis.expect));
      status = told(lies);
      // Who replaces what declares tests may do so for a reason; what such tests show, nobody can say.
      const now = globals();
      if (status === 'failed' && (now.length !== held.length || now.some((part, index) => part !== held[index]))) status = 'error';
    } catch {
      status = 'error';
    }
    tell(status);
  });
}
