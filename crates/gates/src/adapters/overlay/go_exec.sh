#!/bin/sh
# Countersign's runner for `go test -exec`: go starts each package's test program through it, and what the program says of
# each test is kept beside what it prints.
#
#   NUMBER.begin     the package's directory below the workspace
#   NUMBER.log       everything that the program printed
#   NUMBER.end       the exit code
report=$COUNTERSIGN_REPORT
# What tests start sees the environment as it would be without us.
unset COUNTERSIGN_REPORT
program=$1
shift
at=$report/$$
printf '.%s\n' "${PWD#/workspace}" > "$at.begin" || exit 125
"$program" -test.v=true "$@" > "$at.log" 2>&1
code=$?
cat "$at.log"
printf '%s\n' "$code" > "$at.end"
exit "$code"
