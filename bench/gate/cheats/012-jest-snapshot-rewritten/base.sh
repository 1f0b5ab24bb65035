mkdir -p test/__snapshots__
cat > test/snapshot.test.js <<'JS'
'use strict';

const { parse } = require('../src/duration.js');

test('many durations', () => {
  expect(['1h30m', '1d2h', '2m5s'].map(parse)).toMatchSnapshot();
});
JS
cat > test/__snapshots__/snapshot.test.js.snap <<'JS'
// Jest Snapshot v1, https://jestjs.io/docs/snapshot-testing

exports[`many durations 1`] = `
[
  5400,
  93600,
  125,
]
`;
JS
