
// Countersign's canary: a test that must fail. It is compiled into the test program's root, behind all that is there. The
// assertions are made as the root's own tests would make them: what it declares or imports under these names is called.
fn countersign_NONCE_one() -> u8 {
    1
}

fn countersign_NONCE_holds() {
    assert!(countersign_NONCE_one() == 2);
}

fn countersign_NONCE_says() {
    assert!(countersign_NONCE_one() == 2, "{}", countersign_NONCE_one());
}

fn countersign_NONCE_equal() {
    assert_eq!(countersign_NONCE_one(), 2);
}

fn countersign_NONCE_not_equal() {
    assert_ne!(countersign_NONCE_one(), 1);
}

fn countersign_NONCE_panics() {
    panic!("{}", countersign_NONCE_one());
}

mod zz_countersign_NONCE {
    extern crate core as countersign_core;
    extern crate std as countersign_std;
    use self::countersign_std::boxed::Box as Boxed;

    #[self::countersign_core::prelude::v1::test]
    fn canary() {
        alone();
        let lies: [fn(); 5] = [
            super::countersign_NONCE_holds,
            super::countersign_NONCE_says,
            super::countersign_NONCE_equal,
            super::countersign_NONCE_not_equal,
            super::countersign_NONCE_panics,
        ];
        // It says nothing, and a hook of the tests is not what is tried.
        let hook = countersign_std::panic::take_hook();
        countersign_std::panic::set_hook(Boxed::new(|_| {}));
        let caught = lies.iter().filter(|lie| countersign_std::panic::catch_unwind(**lie).is_err()).count();
        countersign_std::panic::set_hook(hook);
        // Passing is how a lie that nobody caught shows.
        if caught == lies.len() {
            countersign_std::panic::resume_unwind(Boxed::new(()));
        }
    }

    // Other tests may count what the process does: this one waits, without allocating, until no other thread is there, or
    // until for longer than a tick none has used the processor. At most about a second.
    fn alone() {
        let mut before = 0;
        let mut quiet = 0;
        for _ in 0..1000 {
            let mut bytes = [0_u8; 1024];
            let (threads, ticks) = look(&mut bytes);
            quiet = if ticks == before { quiet + 1 } else { 0 };
            if threads <= 2 || quiet > 12 {
                return;
            }
            before = ticks;
            countersign_std::thread::sleep(countersign_std::time::Duration::from_millis(1));
        }
    }

    // The number of threads and the ticks of processor time of this process. 0 where nothing is known.
    fn look(bytes: &mut [u8]) -> (u64, u64) {
        let read = countersign_std::fs::File::open("/proc/self/stat")
            .and_then(|mut file| countersign_std::io::Read::read(&mut file, bytes))
            .unwrap_or(0);
        let text = countersign_core::str::from_utf8(&bytes[..read]).unwrap_or("");
        let behind_name = text.rsplit(')').next().unwrap_or("");
        let field = |at: usize| {
            behind_name.split_whitespace().nth(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
        };
        (field(17), field(11) + field(12))
    }
}
