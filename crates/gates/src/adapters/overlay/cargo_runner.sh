#!/bin/sh
# Countersign's runner for `cargo test`: cargo starts each test program through it. Where the program has Rust's own test
# harness, the harness writes each result to a file beside what it prints.
#
#   NUMBER.begin     the package and the target
#   NUMBER.log       the harness's lines: `ok NAME`, `failed NAME`, `ignored NAME`
#   NUMBER.end       the exit code
program=$1
report=$COUNTERSIGN_REPORT
# What tests start sees the environment as it would be without us.
for name in $(env | sed -n 's/^\(CARGO_TARGET_[A-Z0-9_]*_RUNNER\)=.*/\1/p'); do unset "$name"; done
unset COUNTERSIGN_REPORT RUSTDOC
# nextest asks which tests there are, and then starts the program once for each.
for word in "$@"; do
    case $word in
        --list) exec "$@" ;;
    esac
done
case $program in
    */deps/* | */examples/*) ;;
    # An example of the documentation, which rustdoc reports on.
    *) exec "$@" ;;
esac
name=${program##*/}
at=$report/$$
printf '%s/%s\n' "$CARGO_PKG_NAME" "${name%-*}" > "$at.begin" || exit 125
if grep -q -F 'Write logs to the specified file' "$program"; then
    "$@" --logfile "$at.log"
else
    "$@"
fi
code=$?
printf '%s\n' "$code" > "$at.end"
exit "$code"
