
var countersign_NONCE_NUMBER int

// Countersign's canary: tests that must fail, run by the package's own runner in its own process. What they come to is
// printed like any result, and stays out of the process's.
func TestCountersign_NONCE_NUMBER(t *testing_NONCE.T) {
	if countersign_NONCE_NUMBER++; countersign_NONCE_NUMBER > 1 {
		return
	}
	defer runtime_NONCE.GOMAXPROCS(runtime_NONCE.GOMAXPROCS(0))
	testing_NONCE.RunTests(regexp_NONCE.MatchString, []testing_NONCE.InternalTest{
		{Name: "TestCountersign_NONCE_NUMBER/error", F: func(t *testing_NONCE.T) { t.Error("TestCountersign_NONCE") }},
		{Name: "TestCountersign_NONCE_NUMBER/fatal", F: func(t *testing_NONCE.T) { t.Fatal("TestCountersign_NONCE") }},
		{Name: "TestCountersign_NONCE_NUMBER/fail", F: func(t *testing_NONCE.T) { t.Fail() }},
	})
}
