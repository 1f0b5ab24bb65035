sed -i 's/"test": ".*"/"test": "node --test test | cat"/' package.json
