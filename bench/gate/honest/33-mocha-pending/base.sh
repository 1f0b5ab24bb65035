printf "describe('later', () => {\n  it('reads weeks');\n  it.skip('reads fractions', () => {});\n});\n" > test/later.test.js
