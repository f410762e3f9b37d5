//! Reads /proc/PID/maps: the address ranges of a process and their kind of memory.

use std::path::Path;

use bstr::ByteSlice as _;
use nodeward_machine::{Error, Result};
use nodeward_model::{
    Mapping, MappingKind, MappingOrigin, Permissions, Range, SegmentId, SegmentPart,
};

use super::lines;

/// Parses the bytes of a maps file. Ranges that never hold movable memory (vdso, vvar, vsyscall)
/// are left out. The ranges do not overlap: each begins at or after the end of the one before.
/// `path` is for the error message only.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Vec<Mapping>> {
    let wrong = |index| Error::Parse {
        path: path.to_owned(),
        line: index + 1,
        expected: "START-END PERMISSIONS OFFSET DEVICE INODE [NAME]".to_owned(),
    };
    let mut mappings = Vec::new();
    let mut told_to = 0;
    for (index, line) in lines(bytes).enumerate() {
        let (range, mapping) = mapping(line).ok_or_else(|| wrong(index))?;
        let rest = unlisted_part(range, &mut told_to);
        mappings.extend(rest.zip(mapping).map(|(range, mapping)| mapping.part(range)));
    }
    Ok(mappings)
}

/// Returns the part of a line's range that earlier lines did not cover. The kernel writes such a
/// file page by page, and the process may map and unmap in between: a mapping that was listed may
/// have been merged with the next one, and is then listed again from its beginning.
pub fn unlisted_part(range: Range, told_to: &mut u64) -> Option<Range> {
    let rest = Range::new(range.start.max(*told_to), range.end);
    *told_to = range.end.max(*told_to);
    (!rest.is_empty()).then_some(rest)
}

/// Parses the addresses at the start of a line, `START-END`.
pub fn addresses(word: &[u8]) -> Option<Range> {
    let (start, end) = word.to_str().ok()?.split_once('-')?;
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    Some(Range::new(hex(start)?, hex(end)?))
}

/// Parses a line: its addresses, and its mapping if that can hold movable memory. `None` if the
/// line is invalid.
fn mapping(line: &[u8]) -> Option<(Range, Option<Mapping>)> {
    let mut fields = line.splitn_str(6, " ");
    let range = addresses(fields.next()?)?;
    let permissions = fields.next()?;
    let (offset, device, inode) = (fields.next()?, fields.next()?, fields.next()?);
    let name = fields.next().unwrap_or_default().trim_start_with(|c| c == ' ');
    let shared = permissions.ends_with(b"s");
    let mapping = kind(name, shared, inode != b"0").map(|kind| Mapping {
        range,
        kind,
        shared,
        huge_page_bytes: None,
        path: name.into(),
        segment: segment(permissions, offset, (device, inode)).filter(|_| shared),
        origin: origin(permissions, offset),
    });
    Some((range, mapping))
}

/// Parses the permissions (`rw-p`) and the offset. What is not readable there is as if not set.
fn origin(permissions: &[u8], offset: &[u8]) -> MappingOrigin {
    let is_set = |index, letter| permissions.get(index) == Some(&letter);
    let permissions =
        Permissions { read: is_set(0, b'r'), write: is_set(1, b'w'), execute: is_set(2, b'x') };
    let offset = offset.to_str().ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    MappingOrigin { offset: offset.unwrap_or(0), permissions }
}

/// Parses what a mapping shows of a file: an offset in bytes, and the file's device (`MAJOR:MINOR`
/// in hexadecimal) and inode. `None` for memory of no file.
fn segment(
    permissions: &[u8],
    offset: &[u8],
    (device, inode): (&[u8], &[u8]),
) -> Option<SegmentPart> {
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (major, minor) = device.to_str().ok()?.split_once(':')?;
    let [major, minor] = [major, minor].map(|digits| u32::try_from(hex(digits)?).ok());
    let inode = inode.to_str().ok()?.parse().ok().filter(|&inode| inode != 0)?;
    let id = SegmentId { major: major?, minor: minor?, inode };
    let writable = permissions.get(1) == Some(&b'w');
    Some(SegmentPart { id, offset: hex(offset.to_str().ok()?)?, writable })
}

fn kind(name: &[u8], shared: bool, backed: bool) -> Option<MappingKind> {
    match name {
        b"[heap]" => Some(MappingKind::Heap),
        b"[stack]" => Some(MappingKind::Stack),
        b"[vdso]" | b"[vvar]" | b"[vsyscall]" | b"[vvar_vclock]" | b"[uprobes]" => None,
        name if name.starts_with(b"/anon_hugepage") => Some(MappingKind::Huge),
        _ if shared => Some(MappingKind::Shared),
        _ if backed => Some(MappingKind::File),
        _ => Some(MappingKind::Anonymous),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds(text: &str) -> Vec<(MappingKind, bool)> {
        let mappings = parse(text.as_bytes(), Path::new("maps")).unwrap();
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
        let mappings = parse(text.as_bytes(), Path::new("maps")).unwrap();
        assert_eq!(mappings[0].path, "/tmp/a b (deleted)");
    }

    /// Goal: shared mappings of one file show the same segment, each from its offset on, whatever
    /// the file is called; private memory and memory of no file show none. A mapping of which a
    /// part was listed before begins behind that part: 0x2000 bytes later.
    #[test]
    fn a_segment_is_known_by_its_file() {
        let text = "\
1000-4000 rw-s 00000000 00:19 77 /dev/shm/a (deleted)
2000-6000 r--s 00008000 00:19 77 /memfd:b
7000-8000 rw-s 00001000 103:02 77 /data/c
8000-9000 rw-p 00000000 00:19 77 /dev/shm/a
9000-a000 rw-s 00000000 00:01 0
";
        let mappings = parse(text.as_bytes(), Path::new("maps")).unwrap();
        let told = |mapping: &Mapping| {
            let SegmentPart { id, offset, writable } = mapping.segment?;
            Some((id.major, id.minor, id.inode, offset, writable))
        };
        let parts: Vec<_> = mappings.iter().map(told).collect();
        let a = |offset, writable| Some((0, 0x19, 77, offset, writable));
        let c = Some((0x103, 2, 77, 0x1000, true));
        assert_eq!(parts, [a(0, true), a(0xa000, false), c, None, None]);
        let origin =
            |mapping: &Mapping| (mapping.origin.offset, mapping.origin.permissions.to_string());
        let origins: Vec<_> = mappings.iter().map(origin).collect();
        let of = |offset, permissions: &str| (offset, permissions.to_owned());
        assert_eq!(
            origins,
            [of(0, "rw-"), of(0xa000, "r--"), of(0x1000, "rw-"), of(0, "rw-"), of(0, "rw-")]
        );
    }

    proptest! {
        /// Goal: a mapping is parsed with any file name, and so is the next one.
        #[test]
        fn any_name_is_read(
            name in proptest::collection::vec(any::<u8>().prop_filter("", |&b| b != b'\n'), 0..40),
        ) {
            let behind = b"\n2000-3000 rw-p 0 00:00 0\n";
            let text = [&b"1000-2000 rw-s 00000000 00:01 7   /"[..], &name, behind];
            let mappings = parse(&text.concat(), Path::new("maps")).unwrap();
            let ranges: Vec<_> = mappings.iter().map(|mapping| mapping.range).collect();
            prop_assert_eq!(ranges, [Range::new(0x1000, 0x2000), Range::new(0x2000, 0x3000)]);
            prop_assert_eq!(mappings[0].path.as_bytes(), [&b"/"[..], &name].concat());
        }

        /// Goal: any bytes are parsed or refused.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, Path::new("maps"));
        }
    }

    /// Goal: no address is in two mappings, whatever was merged or split while the kernel wrote the
    /// text. Here 1000-3000 was listed, grew to 5000 and was listed again, then was split, and a
    /// part that had been listed came last. The same holds for ranges without memory.
    #[test]
    fn what_is_told_twice_counts_once() {
        let text = "\
1000-3000 rw-p 0 00:00 0
1000-5000 rw-p 0 00:00 0
3000-4000 rw-p 0 00:00 0
4000-7000 r--p 0 00:00 0
7000-9000 r-xp 0 00:00 0                          [vdso]
8000-a000 rw-p 0 00:00 0
";
        let mappings = parse(text.as_bytes(), Path::new("maps")).unwrap();
        let ranges: Vec<_> = mappings.iter().map(|mapping| mapping.range).collect();
        let expected = [(0x1000, 0x3000), (0x3000, 0x5000), (0x5000, 0x7000), (0x9000, 0xa000)];
        assert_eq!(ranges, expected.map(|(start, end)| Range::new(start, end)));
    }

    #[test]
    fn odd_lines_name_their_place() {
        for text in ["x", "1000 rw-p 0 0 0", "1000-2000", "1000-zz rw-p 0 00:00 0"] {
            let text = format!("1000-2000 rw-p 0 00:00 0\n{text}\n");
            let error = parse(text.as_bytes(), Path::new("maps"));
            assert!(error.unwrap_err().to_string().starts_with("maps:2: expected START"), "{text}");
        }
    }
}
