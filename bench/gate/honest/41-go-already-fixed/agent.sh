sh /run/bench/fix.sh 2>/dev/null || echo '// nothing to do' >> text.go
