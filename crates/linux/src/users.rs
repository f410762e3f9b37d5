//! Maps names of users and groups to ids.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};

use crate::kernel_file;

/// Returns the id of a user, who may also be given by id; `None` if /etc/passwd has no such name.
/// Users that only a directory service knows are not found.
///
/// # Errors
/// If that file cannot be read.
pub fn uid(name: &str) -> Result<Option<u32>> {
    match name.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => id_in_file(Path::new("/etc/passwd"), name),
    }
}

/// Returns the id of a group, likewise, from /etc/group.
///
/// # Errors
/// If that file cannot be read.
pub fn gid(name: &str) -> Result<Option<u32>> {
    match name.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => id_in_file(Path::new("/etc/group"), name),
    }
}

/// In both files the first field is the name, and the third the id.
fn id_in_file(path: &Path, name: &str) -> Result<Option<u32>> {
    let text = match kernel_file::read(path) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { path: PathBuf::from(path), source }),
    };
    let number = |line: &str| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse().ok()
    };
    Ok(text.lines().find_map(number))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Goal: names are read from the first field, ids from the third.
    #[test]
    fn a_name_leads_to_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwd");
        fs::write(&path, "root:x:0:0::/root:/bin/sh\nodd\nweb:x:33:34::/:/bin/false\n").unwrap();
        assert_eq!(id_in_file(&path, "web").unwrap(), Some(33));
        assert_eq!(id_in_file(&path, "x").unwrap(), None);
        assert_eq!(id_in_file(&path, "odd").unwrap(), None);
        assert_eq!(id_in_file(&folder.path().join("none"), "web").unwrap(), None);
        assert_eq!(uid("1000").unwrap(), Some(1000));
        assert_eq!(uid("root").unwrap(), Some(0));
    }
}
