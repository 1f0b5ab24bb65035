// Countersign's reporter for node's own test runner: one line for each test, written where the verifier reads them.
//
// It runs in the process that starts one process for each test file, so that code under test shares no memory with it.
// What it hears are nevertheless the words of those processes.
import { openSync, readFileSync, writeSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

const nonce = path.basename(fileURLToPath(import.meta.url), '.mjs').split('_').pop();
const report = openSync(`/run/countersign/report/${nonce}/node`, 'a', 0o600);
const LONGEST_ID = 3000;

function line(fields) {
  // Only ASCII: a lone half of a surrogate pair in a name must not make the report unreadable.
  const text = JSON.stringify(fields).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
  writeSync(report, `${text.replace(/\\ud[89a-f][0-9a-f]{2}/gi, '\\ufffd')}\n`);
}

function id(parts) {
  const text = parts.join(' > ');
  if (Buffer.byteLength(text) <= LONGEST_ID) return text;
  return `${text.slice(0, LONGEST_ID / 8)}#${createHash('sha256').update(text).digest('hex')}`;
}

const relative = (file) => (file ? path.relative(process.cwd(), file.startsWith('file:') ? fileURLToPath(file) : file) : '');

/** Whether the process of a file came to its end by itself, as our module in it says. */
function ended(file) {
  try {
    const ends = readFileSync(`/run/countersign/report/${nonce}/node-ends`, 'utf8');
    return ends.split('\n').includes(JSON.stringify(path.resolve(file)));
  } catch {
    return false;
  }
}

function status(data) {
  if (data.skip !== undefined && data.skip !== false) return 'skipped';
  // A test that is allowed to fail shows nothing by passing either.
  if (data.todo !== undefined && data.todo !== false) return 'skipped';
  return null;
}

export default async function* (source) {
  line({ begin: 'node:test', version: process.version });
  // The names of what a test stands in, by file and depth: each file's events come in the order of its tests.
  const open = new Map();
  let failed = false;
  for await (const { type, data } of source) {
    if (type !== 'test:start' && type !== 'test:pass' && type !== 'test:fail') continue;
    const file = relative(data.file);
    const stack = open.get(file) ?? [];
    open.set(file, stack);
    if (type === 'test:start') {
      stack.length = Math.min(stack.length, data.nesting);
      stack[data.nesting] = data.name;
      continue;
    }
    if (type === 'test:fail') failed = true;
    // Where a whole file is reported as one test, no test of it has a name.
    const whole = data.nesting === 0 && relative(path.resolve(data.name)) === (file || data.name);
    if (whole) {
      // A script without tests is one that passes when its process ends by itself. What ends it early is no result, and
      // what fails may be a script as well as a file of tests that cannot be loaded.
      if (type === 'test:fail') line({ collector: id([file || data.name]) });
      else if (ended(data.name)) line({ id: id([file || data.name]), status: 'passed' });
      continue;
    }
    if (data.details?.type === 'suite') {
      // A hook of the suite failed where no test of it did; its tests then have no result or a bad one.
      continue;
    }
    const name = id([file, ...stack.slice(0, data.nesting), data.name]);
    line({ id: name, status: status(data) ?? (type === 'test:pass' ? 'passed' : 'failed') });
  }
  line({ end: failed ? 1 : 0 });
}
