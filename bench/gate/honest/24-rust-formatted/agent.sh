sh /run/bench/fix.sh
sed -i 's/^    /\t/; s/^\t    /\t\t/; s/^\t\t    /\t\t\t/' src/main.rs
