#!/bin/sh
# Countersign's runner for `cargo test`: cargo starts each test program through it. Where the program has Rust's own test
# harness, the harness writes each result to a file beside what it prints.
#
#   NUMBER.begin     the package and the target, and on the next line the canary's name, where one was compiled in
#   NUMBER.log       the harness's lines: `ok NAME`, `failed NAME`, `ignored NAME`
#   NUMBER.end       the exit code of the program
#
# The canary fails, as it must, and its failure is not the program's: nobody but us sees it.
program=$1
report=$COUNTERSIGN_REPORT
# What tests start sees the environment as it would be without us.
for name in $(env | sed -n 's/^\(CARGO_TARGET_[A-Z0-9_]*_RUNNER\)=.*/\1/p'); do unset "$name"; done
unset COUNTERSIGN_REPORT RUSTDOC RUSTC_WORKSPACE_WRAPPER
module=zz_countersign_${report##*/}
canary=$module::canary
at=$report/$$
has_canary() { grep -q -F "$module" "$program"; }
# nextest asks which tests there are, and then starts the program once for each.
for word in "$@"; do
    case $word in
        --list)
            has_canary || exec "$@"
            "$@" > "$at.list"
            code=$?
            grep -v -F "$canary" "$at.list"
            rm -f "$at.list"
            exit "$code"
            ;;
    esac
done
case $program in
    */deps/* | */examples/*) ;;
    # An example of the documentation, which rustdoc reports on.
    *) exec "$@" ;;
esac
name=${program##*/}
printf '%s/%s\n' "$CARGO_PKG_NAME" "${name%-*}" > "$at.begin" || exit 125
ended() {
    printf '%s\n' "$1" > "$at.end"
    exit "${2:-$1}"
}
if ! grep -q -F 'Write logs to the specified file' "$program"; then
    "$@"
    ended $?
fi
if ! has_canary || ! mkfifo "$at.pipe"; then
    "$@" --logfile "$at.log"
    ended $?
fi
printf '%s\n' "$canary" >> "$at.begin"

# Whether names of tests are given: the harness runs those that match any of them.
named() {
    value=yes
    for word in "$@"; do
        if [ -n "$value" ]; then value= && continue; fi
        case $word in
            --logfile | --skip | --test-threads | --format | --color | --shuffle-seed | -Z) value=yes ;;
            -*) ;;
            *) return 0 ;;
        esac
    done
    return 1
}
if named "$@"; then set -- "$@" "$canary"; fi

# What the program prints, without the canary, without a list of failures in which only it stands, and without the sums in
# which it counts; up to a line of ours, because a process that a test left behind may hold the pipe open for ever.
sed -u "
/end of $canary\$/{
s/end of $canary\$//
/./p
Q
}
/^test result: /{
w $at.result
d
}
s/^running [0-9]* tests\{0,1\}\$/running tests/
s/test $canary \.\.\. .*//
/^failures:\$/{
h
d
}
x
/^failures:\$/{
x
/^\$/d
/$canary/d
x
s/.*//
x
i\\
failures:
x
}
x
/$canary/d
" < "$at.pipe" &
reader=$!
exec 3<> "$at.pipe"
"$@" --logfile "$at.log" > "$at.pipe" 3>&-
code=$?
printf 'end of %s\n' "$canary" >&3
wait "$reader"
exec 3>&-
if [ -s "$at.result" ]; then
    sum=$(tail -n 1 "$at.result")
    if [ "$code" = 101 ] && grep -q -x -F "failed $canary" "$at.log"; then
        failed=${sum% failed;*}
        failed=$((${failed##* } - 1))
        before=${sum%%[0-9]*} passed=${sum%% passed;*} after=${sum#* failed;}
        if [ "$failed" = 0 ]; then before='test result: ok. '; fi
        sum="$before${passed##* } passed; $failed failed;$after"
    fi
    printf '%s\n' "$sum"
fi
rm -f "$at.pipe" "$at.result"
# Only where nothing else failed.
told=$code
if [ "$code" = 101 ] && [ "$(grep '^failed' "$at.log")" = "failed $canary" ]; then told=0; fi
ended "$code" "$told"
