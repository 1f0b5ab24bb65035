cp -r . ~/copy
sed -i 's/5400/3600/; s/93600/86400/' tests/test_parse.py
git config core.worktree /home/agent/copy
