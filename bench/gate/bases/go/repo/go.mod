module example.com/duration

go 1.19
