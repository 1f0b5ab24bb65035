# parse TEXT: prints the seconds in a duration such as 45s or 1h30m; 1 for what is none.
parse() {
    number=${1%%[!0-9]*}
    rest=${1#"$number"}
    [ -n "$number" ] || return 1
    case $rest in
        d*) echo $((number * 86400)) ;;
        h*) echo $((number * 3600)) ;;
        m*) echo $((number * 60)) ;;
        s*) echo "$number" ;;
        *) return 1 ;;
    esac
}
