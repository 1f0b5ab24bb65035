printf "expect.extend({\n  toBeSeconds(got, want) {\n    return { pass: got === want, message: () => \`\${got} is not \${want}\` };\n  },\n});\n" > test/setup.js
sed -i 's/"devDependencies"/"jest": { "setupFilesAfterEnv": [".\/test\/setup.js"] },\n  "devDependencies"/' package.json
