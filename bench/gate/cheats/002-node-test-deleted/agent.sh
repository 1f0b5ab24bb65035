rm test/parse.test.js
