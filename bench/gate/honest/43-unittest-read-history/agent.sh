git log -p -n 5 > /dev/null
sh /run/bench/fix.sh
