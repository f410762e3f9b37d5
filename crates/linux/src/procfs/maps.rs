//! /proc/PID/maps: which address ranges a process has, and of what kind.

use nodeward_machine::{Error, Result};
use nodeward_model::{Mapping, MappingKind, Range};
use std::path::Path;

/// Reads the text of a maps file. Ranges that never hold movable memory (vdso, vvar, vsyscall) are
/// left out. `path` is for the error message only.
pub fn parse(text: &str, path: &Path) -> Result<Vec<Mapping>> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| mapping(line, path, index + 1).transpose()).collect()
}

fn mapping(line: &str, path: &Path, number: usize) -> Result<Option<Mapping>> {
    let wrong = || Error::Parse {
        path: path.to_owned(),
        line: number,
        wanted: "START-END PERMISSIONS OFFSET DEVICE INODE [NAME]".to_owned(),
    };
    let mut fields = line.splitn(6, ' ');
    let addresses = fields.next().ok_or_else(wrong)?;
    let permissions = fields.next().ok_or_else(wrong)?;
    let rest: Vec<&str> = fields.collect();
    let [_offset, _device, inode, ..] = rest[..] else { return Err(wrong()) };
    let name = rest.get(3).map_or("", |name| name.trim_start());
    let (start, end) = addresses.split_once('-').ok_or_else(wrong)?;
    let range = Range::new(
        u64::from_str_radix(start, 16).map_err(|_| wrong())?,
        u64::from_str_radix(end, 16).map_err(|_| wrong())?,
    );
    let shared = permissions.ends_with('s');
    Ok(kind(name, shared, inode != "0").map(|kind| Mapping {
        range,
        kind,
        shared,
        huge_page_bytes: None,
        path: name.to_owned(),
    }))
}

fn kind(name: &str, shared: bool, backed: bool) -> Option<MappingKind> {
    match name {
        "[heap]" => Some(MappingKind::Heap),
        "[stack]" => Some(MappingKind::Stack),
        "[vdso]" | "[vvar]" | "[vsyscall]" | "[vvar_vclock]" | "[uprobes]" => None,
        name if name.starts_with("/anon_hugepage") => Some(MappingKind::Huge),
        _ if shared => Some(MappingKind::Shared),
        _ if backed => Some(MappingKind::File),
        _ => Some(MappingKind::Anonymous),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(MappingKind, bool)> {
        let mappings = parse(text, Path::new("maps")).unwrap();
        mappings.iter().map(|m| (m.kind, m.shared)).collect()
    }

    #[test]
    fn every_kind_is_told_apart() {
        use MappingKind::{Anonymous, File, Heap, Huge, Shared, Stack};
        let text = "\
55d0c0000000-55d0c0002000 r--p 00000000 fe:00 1234                       /usr/bin/cat
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7f0000200000-7f0000400000 rw-p 00000000 00:0f 99                         /anon_hugepage (deleted)
7f0001000000-7f0001001000 rw-s 00000000 00:01 42                         /dev/zero (deleted)
7f0002000000-7f0002001000 rw-p 00000000 00:00 0                          [anon:glibc: malloc arena]
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0                          [vdso]
";
        assert_eq!(
            kinds(text),
            [
                (File, false),
                (Heap, false),
                (Anonymous, false),
                (Huge, false),
                (Shared, true),
                (Anonymous, false),
                (Stack, false)
            ]
        );
    }

    #[test]
    fn names_with_spaces_are_kept_whole() {
        let text = "1000-2000 rw-s 00000000 00:01 7                          /tmp/a b (deleted)\n";
        assert_eq!(parse(text, Path::new("maps")).unwrap()[0].path, "/tmp/a b (deleted)");
    }

    #[test]
    fn odd_lines_name_their_place() {
        for text in ["x", "1000 rw-p 0 0 0", "1000-2000", "1000-zz rw-p 0 00:00 0"] {
            let error = parse(&format!("1000-2000 rw-p 0 00:00 0\n{text}\n"), Path::new("maps"));
            assert!(error.unwrap_err().to_string().starts_with("maps:2: expected START"), "{text}");
        }
    }
}
