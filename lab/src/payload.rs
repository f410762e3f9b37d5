//! The files that a run brings along, as the tar stream that the guest unpacks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, ErrorKind, Result as IoResult, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use nodeward_lab_agent::protocol::Frame;
use walkdir::WalkDir;

use crate::libraries::{self, Library};

/// Bytes per frame.
const PIECE_BYTES: usize = 256 << 10;

/// A file or directory of the host for the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFile {
    /// Its path on the host.
    pub host: PathBuf,
    /// Its absolute path in the guest. By default a program goes to `/bin`, anything else to
    /// `/root`, where commands start.
    pub guest: Option<String>,
}

impl GuestFile {
    /// Creates an entry with the default path.
    pub fn new(host: impl Into<PathBuf>) -> Self {
        Self { host: host.into(), guest: None }
    }

    fn guest_path(&self) -> Result<String> {
        if let Some(path) = &self.guest {
            return Ok(path.clone());
        }
        let meta = fs::metadata(&self.host)
            .with_context(|| format!("cannot find {}", self.host.display()))?;
        let program = meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        let name = self.host.file_name().context("a path without a file name")?;
        Ok(format!("{}/{}", if program { "/bin" } else { "/root" }, name.to_string_lossy()))
    }
}

impl FromStr for GuestFile {
    type Err = String;

    /// Parses `PATH` or `PATH:GUESTPATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once(':') {
            None => Ok(Self::new(text)),
            Some((host, guest)) if guest.starts_with('/') => {
                Ok(Self { host: host.into(), guest: Some(guest.to_owned()) })
            }
            Some((_, guest)) => Err(format!("'{guest}' is no absolute path in the guest")),
        }
    }
}

/// Sends the files, and the libraries of the programs among them.
pub fn send(files: &[GuestFile], port: &mut impl Write) -> Result<()> {
    let all = with_libraries(files)?;
    let mut archive = tar::Builder::new(BufWriter::with_capacity(PIECE_BYTES, FrameWriter(port)));
    for (guest, host) in &all {
        append(&mut archive, host, Path::new(guest.trim_start_matches('/')))
            .with_context(|| format!("cannot send {}", host.display()))?;
    }
    archive.into_inner()?.flush()?;
    Ok(())
}

fn with_libraries(files: &[GuestFile]) -> Result<BTreeMap<String, PathBuf>> {
    let mut all = BTreeMap::new();
    for file in files {
        let guest = file.guest_path()?;
        ensure!(guest.len() > 1, "the guest's root cannot be replaced");
        all.insert(guest, file.host.clone());
        for library in libraries_of(&file.host)? {
            all.entry(library.guest).or_insert(library.host);
        }
    }
    Ok(all)
}

fn libraries_of(host: &Path) -> Result<Vec<Library>> {
    match host.is_dir() {
        true => libraries::shared_libraries_below(host),
        false => libraries::shared_libraries(host, None),
    }
}

/// Appends a file, or a directory with all its content. Links are replaced by their targets, but
/// for links to nothing: a runtime's directory has some, and they arrive as they are.
fn append(archive: &mut tar::Builder<impl Write>, host: &Path, guest: &Path) -> Result<()> {
    for entry in WalkDir::new(host).follow_links(true).sort_by_file_name() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(why) => {
                append_dangling(archive, &why, (host, guest))?;
                continue;
            }
        };
        let name = entry.path().strip_prefix(host)?;
        let place = if name.as_os_str().is_empty() { guest } else { &guest.join(name) };
        let appended = match entry.file_type().is_dir() {
            true => archive.append_dir(place, entry.path()),
            false => archive.append_path_with_name(entry.path(), place),
        };
        appended.with_context(|| format!("cannot read {}", entry.path().display()))?;
    }
    Ok(())
}

/// Appends a link to nothing. Anything else that cannot be read is an error.
fn append_dangling(
    archive: &mut tar::Builder<impl Write>,
    why: &walkdir::Error,
    (host, guest): (&Path, &Path),
) -> Result<()> {
    let path = why.path().unwrap_or(Path::new("?"));
    if let Some(above) = why.loop_ancestor() {
        let (shown, above) = (path.display(), above.display());
        bail!("{shown} is a link to {above}, in which it stands: remove it, or bring single files");
    }
    let is_gone = why.io_error().is_some_and(|error| error.kind() == ErrorKind::NotFound);
    let target = fs::read_link(path).ok().filter(|_| is_gone);
    let target = target.with_context(|| format!("cannot read {}: {why}", path.display()))?;
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&fs::symlink_metadata(path)?);
    Ok(archive.append_link(&mut header, guest.join(path.strip_prefix(host)?), target)?)
}

/// A stream that is sent in frames.
struct FrameWriter<'a, W>(&'a mut W);

impl<W: Write> Write for FrameWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        Frame::Files(piece.to_vec()).write_to(self.0)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_name_its_place() {
        let file: GuestFile = "a:b:/etc/c".parse().unwrap();
        assert_eq!((file.host, file.guest), ("a:b".into(), Some("/etc/c".into())));
        assert!("a:b".parse::<GuestFile>().unwrap_err().contains("'b' is no absolute path"));
    }

    #[test]
    fn programs_go_to_bin_and_data_to_where_commands_start() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::write(&data, "x").unwrap();
        assert_eq!(GuestFile::new(&data).guest_path().unwrap(), "/root/data");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(GuestFile::new(&data).guest_path().unwrap(), "/bin/data");
        assert_eq!(
            GuestFile::new(dir.path()).guest_path().unwrap().split('/').nth(1),
            Some("root")
        );
    }

    /// Goal: a link to a directory above it would have no end; it is named.
    #[test]
    fn a_link_to_what_it_stands_in_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(".", dir.path().join("again")).unwrap();
        let told = format!("{0}/again is a link to {0}, in which it stands", dir.path().display());
        let why = send(&[GuestFile::new(dir.path())], &mut Vec::new()).unwrap_err();
        let why = format!("{why:#}");
        assert!(why.contains(&told), "{why}");
    }

    /// Goal: a valid link arrives as its target, and a dangling one as itself.
    #[test]
    fn links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("data"), "x").unwrap();
        std::os::unix::fs::symlink("../gone", dir.path().join("gone")).unwrap();
        std::os::unix::fs::symlink("data", dir.path().join("link")).unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        append(&mut archive, dir.path(), Path::new("root/d")).unwrap();
        let bytes = archive.into_inner().unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.path().unwrap().display().to_string(), entry.header().entry_type())
        });
        let file = tar::EntryType::Regular;
        let expected = [("root/d", tar::EntryType::Directory), ("root/d/data", file)];
        let link = tar::EntryType::Symlink;
        let expected = expected.into_iter().chain([("root/d/gone", link), ("root/d/link", file)]);
        let expected: Vec<_> = expected.map(|(path, kind)| (path.to_owned(), kind)).collect();
        assert_eq!(entries.collect::<Vec<_>>(), expected);
    }
}
