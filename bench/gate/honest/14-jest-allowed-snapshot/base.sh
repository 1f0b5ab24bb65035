mkdir test/__snapshots__
cat > test/message.test.js <<'JS'
'use strict';

const { text } = require('../src/duration.js');

test('the message', () => {
  expect(() => text(-1)).toThrowErrorMatchingSnapshot();
});
JS
printf '// Jest Snapshot v1, https://jestjs.io/docs/snapshot-testing\n\nexports[`the message 1`] = `"a duration is not negative"`;\n' > test/__snapshots__/message.test.js.snap
