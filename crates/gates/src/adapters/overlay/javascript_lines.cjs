// Countersign's lines: what reporters for JavaScript runners write where the verifier reads them.
'use strict';
const { openSync, writeSync } = require('node:fs');
const { createHash } = require('node:crypto');
const path = require('node:path');

// Bound now: code under test, which comes later, may replace what modules hold.
const { stringify } = JSON;
const LONGEST_ID = 3000;

/** Appends to the report of the run whose number stands in the reporter's own file name. */
exports.open = (reporter, runner) => {
  const nonce = path.basename(reporter).replace(/\.[cm]?js$/, '').split('_').pop();
  const report = openSync(`/run/countersign/report/${nonce}/${runner}`, 'a', 0o600);
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
