//! The characters that drawings may use.

/// The characters of drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Shades from U+2591 on.
    Unicode,
    /// ASCII only.
    Ascii,
}
