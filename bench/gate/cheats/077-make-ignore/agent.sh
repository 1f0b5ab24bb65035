printf '\n.IGNORE:\n' >> Makefile
