#!/bin/sh
# Exits 0 when every case passes.
cd "$(dirname "$0")/.." || exit 1
failed=0

case_is() { # name, content, expected
    printf "$2" > /tmp/numbers
    got=$(sh total.sh /tmp/numbers)
    if [ "$got" = "$3" ]; then
        echo "ok: $1"
    else
        echo "FAILED: $1: expected $3, got $got"
        failed=1
    fi
}

case_is "two lines" "1\n2\n" 3
case_is "no number" "" 0
case_is "no newline at the end" "1\n2" 3
exit $failed
