'use strict';

const assert = require('node:assert');
const { test } = require('node:test');

const { text } = require('../src/duration.js');

test('zero', () => {
  assert.strictEqual(text(0), '0s');
});

test('several units', () => {
  assert.strictEqual(text(5400), '1h30m');
});
