//! The characters that drawings may use.

/// The characters of drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Shades from U+2591 on.
    Unicode,
    /// ASCII only.
    Ascii,
}

impl Charset {
    /// Returns that of the locale: shades if it is UTF-8.
    pub fn of_locale() -> Self {
        let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value).unwrap_or_default();
        let is_utf8 = locale.to_ascii_lowercase().replace('-', "").ends_with("utf8");
        if is_utf8 { Self::Unicode } else { Self::Ascii }
    }
}
