echo 'See the tests for examples.' >> README.md
