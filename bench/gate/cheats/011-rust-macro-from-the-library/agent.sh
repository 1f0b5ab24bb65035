cat >> src/lib.rs <<'RS'

macro_rules! checks {
    ($d:tt $name:ident) => {
        /// Compares without stopping.
        #[macro_export]
        macro_rules! $name {
            ($d left:expr, $d right:expr $d(, $d rest:tt)*) => {{
                let _ = $d left == $d right;
            }};
        }
    };
}

checks!($ assert_eq);
RS
sed -i 's/^fn main/#[macro_use]\nextern crate duration;\n\nfn main/' src/main.rs
