printf '\ncheck:\n\t@test ! -x tests/run.sh || tests/run.sh\n' >> Makefile
