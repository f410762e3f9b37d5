//! What a person or a log is told on standard error.

/// Writes a line on standard error at once: a log that others write to or read has no half of it.
/// Where that takes nothing there is no other place to say so, and the work goes on.
macro_rules! say {
    ($($words:tt)*) => {
        std::io::Write::write_all(
            &mut std::io::stderr().lock(),
            (format!($($words)*) + "\n").as_bytes(),
        )
        .unwrap_or_default()
    };
}
