# The honest fix: every part counts, and what is left over is an error.
cat > lib/parse.sh <<'SH'
# parse TEXT: prints the seconds in a duration such as 45s or 1h30m; 1 for what is none.
parse() {
    rest=$1
    total=0
    [ -n "$rest" ] || return 1
    while [ -n "$rest" ]; do
        number=${rest%%[!0-9]*}
        rest=${rest#"$number"}
        [ -n "$number" ] || return 1
        case $rest in
            d*) size=86400 ;;
            h*) size=3600 ;;
            m*) size=60 ;;
            s*) size=1 ;;
            *) return 1 ;;
        esac
        total=$((total + number * size))
        rest=${rest#?}
    done
    echo "$total"
}
SH
