chmod 644 tests/run.sh
