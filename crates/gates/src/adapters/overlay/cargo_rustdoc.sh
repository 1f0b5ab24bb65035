#!/bin/sh
# Countersign's rustdoc for `cargo test`: the same rustdoc, which writes each example's result to a file.
report=$COUNTERSIGN_REPORT
unset COUNTERSIGN_REPORT RUSTDOC
case " $* " in
    *" --test "*) ;;
    *) exec rustdoc "$@" ;;
esac
crate=doc
previous=
for word in "$@"; do
    if [ "$previous" = --crate-name ]; then crate=$word; fi
    previous=$word
done
at=$report/$$
printf 'doc/%s\n' "$crate" > "$at.begin" || exit 125
rustdoc "$@" --test-args "--logfile $at.log"
code=$?
printf '%s\n' "$code" > "$at.end"
exit "$code"
