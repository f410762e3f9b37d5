//! Files of the kernel that hold settings, and their previous content.

use std::fs;

use crate::means_thread::SkippedMeans;

/// A changed setting, which is restored when the value is dropped.
#[derive(Debug)]
pub struct KernelSetting {
    path: String,
    before: String,
}

impl KernelSetting {
    /// Changes a setting.
    pub fn change(path: &str, text: &str) -> Result<Self, SkippedMeans> {
        let why = |error: std::io::Error| SkippedMeans(format!("{path}: {error}"));
        let before = current_value(&fs::read_to_string(path).map_err(why)?).to_owned();
        fs::write(path, text).map_err(why)?;
        Ok(Self { path: path.to_owned(), before })
    }

    /// Opens a file that accepts only commands, if possible; there is nothing to restore.
    pub fn write_only(path: &str) -> Option<Self> {
        let can_write = fs::OpenOptions::new().write(true).open(path).is_ok();
        can_write.then(|| Self { path: path.to_owned(), before: String::new() })
    }

    /// Writes the file again. An error is ignored: the kernel may accept it another time.
    pub fn set(&self, text: &str) {
        fs::write(&self.path, text).ok();
    }
}

impl Drop for KernelSetting {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            self.set(&self.before);
        }
    }
}

/// Returns the word in brackets if there is one, else the whole text.
fn current_value(text: &str) -> &str {
    let in_brackets = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    in_brackets.map_or(text.trim(), |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the previous content is what is restored, also for switches with several words.
    #[test]
    fn what_stood_there_is_understood() {
        assert_eq!(current_value("always [madvise] never\n"), "madvise");
        assert_eq!(current_value("100\n"), "100");
    }
}
