// Countersign's lines: what reporters for JavaScript runners write where the verifier reads them.
'use strict';
const { openSync, readFileSync, writeSync } = require('node:fs');
const { createHash } = require('node:crypto');
const path = require('node:path');

// Bound now: code under test, which comes later, may replace what modules hold.
const { stringify } = JSON;
const LONGEST_ID = 3000;

/** The number of the run, which stands in the reporter's own file name. */
exports.nonce = (reporter) => path.basename(reporter).replace(/\.[cm]?js$/, '').split('_').pop();

/** Appends to the report of the reporter's run. */
exports.open = (reporter, runner) => {
  const report = openSync(`/run/countersign/report/${exports.nonce(reporter)}/${runner}`, 'a', 0o600);
  const pid = process.pid;
  return (fields) => {
    // A process that a test forked must not speak for us.
    if (process.pid !== pid) return;
    // Only ASCII: a lone half of a surrogate pair in a name must not make the report unreadable.
    const text = stringify(fields)
      .replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .replace(/\\ud[89a-f][0-9a-f]{2}/gi, '\\ufffd');
    writeSync(report, `${text}\n`);
  };
};

exports.id = (parts) => {
  const text = parts.join(' > ');
  if (Buffer.byteLength(text) <= LONGEST_ID) return text;
  return `${text.slice(0, LONGEST_ID / 8)}#${createHash('sha256').update(text).digest('hex')}`;
};

exports.relative = (file) => (file ? path.relative(process.cwd(), file) : '');

/** What the canary of each file said. One that began in any and did not come to its end where tests passed is broken. */
exports.canaries = (reporter, name, passed) => {
  const seen = new Map();
  try {
    const text = readFileSync(`/run/countersign/report/${exports.nonce(reporter)}/${name}`, 'utf8');
    for (const entry of text.split('\n').filter(Boolean)) {
      const { file, status } = JSON.parse(entry);
      if (status !== 'begin' || !seen.has(file)) seen.set(file, status);
    }
  } catch {
    return new Map();
  }
  for (const file of passed) if (!['failed', 'passed'].includes(seen.get(file))) seen.set(file, 'error');
  // Behind a file without a test that passed no hook runs.
  for (const [file, status] of seen) if (!passed.has(file) && status !== 'passed') seen.delete(file);
  return seen;
};
