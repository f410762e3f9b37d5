//! Reads files whose content the kernel makes when they are read: those of /proc and /sys.
//!
//! stat(2) says that they are empty. So `std::fs::read` asks for the size, then reads 32 bytes,
//! then twice as many, and so on: ten calls for a status, where two do.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The size that holds most of these files whole.
const USUAL_BYTES: usize = 4096;

/// Reads a whole file.
///
/// # Errors
/// Those of open(2) and read(2).
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_rest(&File::open(path)?)
}

/// Reads a whole file as text.
///
/// # Errors
/// Those of [`read`]; [`io::ErrorKind::InvalidData`] if the file is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads an open file from where it stands.
///
/// # Errors
/// Those of read(2).
pub fn read_rest(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    // With a limit, the size is not asked for.
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Goal: a file is whole, whether it is shorter than the first call asks for or longer.
    #[test]
    fn short_and_long_files_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bytes in [0, 1, USUAL_BYTES - 1, USUAL_BYTES, USUAL_BYTES + 1, 10 * USUAL_BYTES] {
            let content: Vec<u8> = (0..=250).cycle().take(bytes).collect();
            fs::write(&path, &content).unwrap();
            assert_eq!(read(&path).unwrap(), content);
        }
        assert!(read_to_string("/proc/self/status").unwrap().starts_with("Name:"));
    }

    /// Goal: bytes that are no text are an error, as with the standard library.
    #[test]
    fn what_is_no_text_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_to_string(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
