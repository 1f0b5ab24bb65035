sed -i 's/run.sh$/run.sh || true/' Makefile
