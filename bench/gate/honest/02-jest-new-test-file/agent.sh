sh /run/bench/fix.sh
printf "'use strict';\n\nconst { parse } = require('../src/duration.js');\n\ntest('all four', () => {\n  expect(parse('1d1h1m1s')).toBe(90061);\n});\n" > test/four.test.js
