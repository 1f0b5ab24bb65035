'use strict';

const assert = require('assert');

const { text } = require('../src/duration.js');

describe('text', () => {
  it('writes zero', () => {
    assert.strictEqual(text(0), '0s');
  });

  it('writes several units', () => {
    assert.strictEqual(text(5400), '1h30m');
  });
});
