sed -i 's/5400/3600/; s/93600/86400/' tests/test_parse.py
git -c user.name=a -c user.email=a@localhost commit -qam 'Tests: the documented values'
test -z "$(git status --porcelain)"
