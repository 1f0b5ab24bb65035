//! Prints the seconds of each duration on standard input, one a line; `error` for what is none.

fn main() {
    for line in std::io::stdin().lines() {
        match duration::parse(line.unwrap_or_default().trim()) {
            Ok(seconds) => println!("{seconds}"),
            Err(_) => println!("error"),
        }
    }
}
