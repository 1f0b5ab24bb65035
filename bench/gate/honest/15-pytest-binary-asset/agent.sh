sh /run/bench/fix.sh
mkdir docs
head -c 4096 /bin/true > docs/logo.bin
