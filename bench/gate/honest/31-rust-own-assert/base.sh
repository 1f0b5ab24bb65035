cat > tests/parse.rs.new <<'RS'
#[macro_export]
macro_rules! assert_eq {
    ($left:expr, $right:expr $(, $($rest:tt)+)?) => {{
        let (left, right) = (&$left, &$right);
        if *left != *right {
            panic!("{left:?} is not {right:?}");
        }
    }};
}

RS
cat tests/parse.rs >> tests/parse.rs.new
mv tests/parse.rs.new tests/parse.rs
