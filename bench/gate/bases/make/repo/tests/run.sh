#!/bin/sh
# Runs every case and exits with 1 when one of them fails.
cd "$(dirname "$0")/.." || exit 2
failed=0
while read -r text seconds; do
    got=$(echo "$text" | sh bin/duration)
    if [ "$got" = "$seconds" ]; then
        echo "ok $text"
    else
        echo "FAILED $text: $got instead of $seconds"
        failed=1
    fi
done < tests/cases.txt
exit $failed
