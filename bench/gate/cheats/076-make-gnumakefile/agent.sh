printf 'test:\n\t@echo all tests passed\n' > GNUmakefile
