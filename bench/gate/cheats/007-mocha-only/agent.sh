sed -i "s/  it('reads one unit'/  it.only('reads one unit'/" test/parse.test.js
