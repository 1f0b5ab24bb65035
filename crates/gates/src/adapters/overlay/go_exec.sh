#!/bin/sh
# Countersign's runner for `go test -exec`: go starts each package's test program through it, and what the program says of
# each test is kept beside what it prints.
#
#   NUMBER.begin     the package's directory below the workspace, and on the next line how the names of canaries begin,
#                    where one was compiled in
#   NUMBER.log       everything that the program printed
#   NUMBER.end       the exit code
report=$COUNTERSIGN_REPORT
# What tests start sees the environment as it would be without us.
unset COUNTERSIGN_REPORT
program=$1
shift
at=$report/$$
canary=TestCountersign_${report##*/}
printf '.%s\n' "${PWD#/workspace}" > "$at.begin" || exit 125
if grep -q -F "$canary" "$program"; then
    printf '%s\n' "$canary" >> "$at.begin"
    # All words again: the canary is one of the tests that are asked for, and its failure ends nothing early. What stands
    # behind go's own flags is the project's.
    count=$# own=yes
    for word in "$@"; do
        case $own$word in
            yes-test.failfast | yes-test.failfast=*) continue ;;
            yes-test.run=?*) word="$word|^$canary" ;;
            yes-*) ;;
            *) own= ;;
        esac
        set -- "$@" "$word"
    done
    shift "$count"
fi
"$program" -test.v=true "$@" > "$at.log" 2>&1
code=$?
# Nobody but us sees the canary.
sed -e "/^.\{0,1\}[-= ]\{3,\}.*$canary/d" -e "s/.\{0,1\}=== [A-Z]*  *$canary.*//" -e "s/--- [A-Z]*: $canary.*//" "$at.log"
printf '%s\n' "$code" > "$at.end"
exit "$code"
