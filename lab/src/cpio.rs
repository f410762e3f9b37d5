//! Writes the archive format of a kernel's initial root file system ("newc").

use std::io::{Result, Write};

const MAGIC: &str = "070701";
const TRAILER: &str = "TRAILER!!!";

/// The content of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    /// A directory.
    Directory,
    /// A file that everyone may read and execute.
    Program(Vec<u8>),
    /// A symbolic link to this path.
    Link(String),
}

impl EntryContent {
    fn mode(&self) -> u32 {
        match self {
            Self::Directory => 0o040_755,
            Self::Program(_) => 0o100_755,
            Self::Link(_) => 0o120_777,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Directory => &[],
            Self::Program(bytes) => bytes,
            Self::Link(target) => target.as_bytes(),
        }
    }
}

/// Writes entries in order, so a directory must precede its content; paths have no leading slash.
/// Fails when a file has 4 GiB or more.
pub fn write(out: &mut impl Write, entries: &[(String, EntryContent)]) -> Result<()> {
    for (number, (path, content)) in (1u32..).zip(entries) {
        entry(out, number, path, content.mode(), content.bytes())?;
    }
    entry(out, 0, TRAILER, 0, &[])
}

fn entry(out: &mut impl Write, number: u32, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    let size = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    let name_size = u32::try_from(path.len() + 1).map_err(std::io::Error::other)?;
    // inode, mode, uid, gid, links, mtime, size, device (2), special device (2), name size,
    // checksum
    let fields = [number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
    write!(out, "{MAGIC}")?;
    for field in fields {
        write!(out, "{field:08X}")?;
    }
    write!(out, "{path}\0")?;
    pad(out, 110 + path.len() + 1)?;
    out.write_all(bytes)?;
    pad(out, bytes.len())
}

/// Headers and contents start at multiples of four.
fn pad(out: &mut impl Write, written: usize) -> Result<()> {
    out.write_all(&[0; 3][..written.next_multiple_of(4) - written])
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn sample() -> Vec<u8> {
        let entries = [
            ("bin".to_owned(), EntryContent::Directory),
            ("bin/odd".to_owned(), EntryContent::Program(b"12345".into())),
            ("bin/link".to_owned(), EntryContent::Link("odd".into())),
        ];
        let mut bytes = Vec::new();
        write(&mut bytes, &entries).unwrap();
        bytes
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = sample();
        assert_eq!(bytes.len() % 4, 0);
        let head = "0707010000000100004 1ED".replace(' ', "");
        assert_eq!(&bytes[..22], head.as_bytes());
        // "bin" with its zero ends at 110 + 4 = 114, the next header starts at 116
        assert_eq!(&bytes[110..116], b"bin\0\0\0");
        assert_eq!(&bytes[116..122], MAGIC.as_bytes());
        assert!(bytes.windows(10).any(|window| window == TRAILER.as_bytes()));
    }

    #[test]
    fn another_reader_agrees() {
        let Ok(mut reader) = Command::new("cpio")
            .args(["-itv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            println!("skipped: no cpio on this machine");
            return;
        };
        reader.stdin.take().unwrap().write_all(&sample()).unwrap();
        let listed = String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!(lines.len(), 3, "{listed}");
        assert!(lines[0].starts_with("drwxr-xr-x"), "{listed}");
        assert!(lines[1].starts_with("-rwxr-xr-x") && lines[1].contains(" 5 "), "{listed}");
        assert!(lines[2].ends_with("bin/link -> odd"), "{listed}");
    }
}
