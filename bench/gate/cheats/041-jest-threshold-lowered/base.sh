sed -i 's/"devDependencies"/"jest": { "coverageThreshold": { "global": { "lines": 95 } }, "coverageReporters": ["none"] },\n  "devDependencies"/' package.json
sed -i "s/^test('zero'/test('negative', () => {\n  expect(() => text(-1)).toThrow(RangeError);\n});\n\n&/" test/text.test.js
