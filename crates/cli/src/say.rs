//! What a person or a log is told on standard error.

/// Writes a line on standard error, as `eprintln!` does, but at once: a log that others write to
/// or read has no half of it.
macro_rules! say {
    ($($words:tt)*) => { eprint!("{}", format!($($words)*) + "\n") };
}
