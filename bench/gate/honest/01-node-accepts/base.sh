sed -i 's/(\[smhd\])\//([smhd])$\//' src/parse.js
cat > test/accepts.test.js <<'JS'
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');

const { parse } = require('../src/duration.js');

test('several units are accepted', () => {
  assert.doesNotThrow(() => parse('1h30m'));
});
JS
