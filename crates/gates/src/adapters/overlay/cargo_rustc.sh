#!/bin/sh
# Countersign's wrapper of rustc for `cargo test`: each test program with Rust's own harness gets one more test, the canary,
# at the end of its root. rustc reads a copy of the root beside it, so that every path in it leads where it did, and is
# told to call the copy by the root's name. Where that does not compile, the program is compiled as it is.
report=$COUNTERSIGN_REPORT
unset COUNTERSIGN_REPORT RUSTC_WORKSPACE_WRAPPER RUSTDOC
nonce=${report##*/}
root= harness= out= crate= extra= previous=
for word in "$@"; do
    case $word in
        --test) harness=yes ;;
        extra-filename=*) extra=${word#*=} ;;
        -*) ;;
        *.rs) [ -n "$root" ] || root=$word ;;
    esac
    case $previous in
        --out-dir) out=$word ;;
        --crate-name) crate=$word ;;
    esac
    previous=$word
done
case $harness:$root in
    yes:*[!A-Za-z0-9_./-]* | yes: | :*) exec "$@" ;;
esac
# A harness of the project's own may take any test for one of its kind.
if [ ! -f "$root" ] || grep -q test_runner "$root"; then exec "$@"; fi
directory=
case $root in */*) directory=${root%/*}/ ;; esac
copy=$directory.countersign_${nonce}_$$.rs
said=$report/$$.rustc
# All words again, one name in place of another.
call() {
    from=$1 to=$2
    shift 2
    count=$#
    for word in "$@"; do
        if [ "$word" = "$from" ]; then word=$to; fi
        set -- "$@" "$word"
    done
    shift "$count"
    "$@"
}
if { cat "$root" && sed "s/NONCE/$nonce/g" /run/countersign/verifier/cargo-canary; } 2> "$said" > "$copy" \
    && call "$root" "$copy" "$@" --remap-path-prefix "$copy=$root" 2> "$said"; then
    rm -f "$copy"
    cat "$said" >&2
    rm -f "$said"
    # What cargo compares the next time is the root.
    if [ -f "$out/$crate$extra.d" ]; then sed -i "s#$copy#$root#g" "$out/$crate$extra.d"; fi
    exit 0
fi
rm -f "$copy" "$said"
exec "$@"
