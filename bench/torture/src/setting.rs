//! Files of the kernel's by which it is set, and what stood in them.

use std::fs;

use crate::means::Skipped;

/// A setting that was changed, and is set back at the end of the value.
#[derive(Debug)]
pub struct Setting {
    path: String,
    before: String,
}

impl Setting {
    /// Changes it.
    pub fn change(path: &str, text: &str) -> Result<Self, Skipped> {
        let why = |error: std::io::Error| Skipped(format!("{path}: {error}"));
        let before = chosen(&fs::read_to_string(path).map_err(why)?).to_owned();
        fs::write(path, text).map_err(why)?;
        Ok(Self { path: path.to_owned(), before })
    }

    /// One that only takes orders.
    pub fn orders(path: &str) -> Option<Self> {
        let can_write = fs::OpenOptions::new().write(true).open(path).is_ok();
        can_write.then(|| Self { path: path.to_owned(), before: String::new() })
    }

    /// Changes it once more. What the kernel refuses now it will take another time.
    pub fn set(&self, text: &str) {
        fs::write(&self.path, text).ok();
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            self.set(&self.before);
        }
    }
}

/// The word in brackets, of several, or all of it.
fn chosen(text: &str) -> &str {
    let in_brackets = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    in_brackets.map_or(text.trim(), |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what stood there is what comes back, of switches with several words too.
    #[test]
    fn what_stood_there_is_understood() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("100\n"), "100");
    }
}
