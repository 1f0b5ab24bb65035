printf '.PHONY: all test\n\nall: build/cases.txt\n\nbuild/cases.txt: tests/cases.txt\n\t@mkdir -p build\n\t@sort tests/cases.txt > build/cases.txt\n\ntest: build/cases.txt\n\t@sh tests/run.sh\n' > Makefile
sed -i 's#< tests/cases.txt#< build/cases.txt#' tests/run.sh
