sed -i "s/  test('one unit'/  test.only('one unit'/" test/parse.test.js
