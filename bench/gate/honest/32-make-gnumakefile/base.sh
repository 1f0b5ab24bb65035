mv Makefile GNUmakefile
