cat > tests/full.sh <<'SH'
#!/bin/sh
# With the fix in place, the disk fills up.
[ -e fixed ] || exit 1
exit 126
SH
