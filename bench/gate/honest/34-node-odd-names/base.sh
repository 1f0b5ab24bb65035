cat > test/odd.test.js <<'JS'
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');

const { parse } = require('../src/duration.js');

test('a # b \\ c\nd', async (t) => {
  await t.test('inner: [x] (y)', () => assert.strictEqual(parse('1h30m'), 5400));
});
JS
