mv test/parse.test.js test/parse.test.js.off
