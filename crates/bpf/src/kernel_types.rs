//! What the running kernel calls things: enumerators, structs and functions, as its BTF has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;
use std::path::Path;

use crate::unavailable::{BTF, Unavailable};

const MAGIC: u16 = 0xeb9f;
/// The header of a type: its name, its kind and number of parts, its size or another type.
const TYPE_BYTES: usize = 12;
const STRUCT: u32 = 4;
const STRUCT_PART_BYTES: usize = 12;
const ENUM: u32 = 6;
const FUNCTION: u32 = 12;
const ENUM_PART_BYTES: usize = 8;

/// The types of a kernel.
pub(crate) struct KernelTypes {
    types: Vec<u8>,
    strings: Vec<u8>,
}

/// A struct of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KernelStruct {
    /// Its number in the kernel's BTF.
    pub id: u32,
    pub bytes: usize,
    /// Names and places of its fields, in bytes from its start.
    pub fields: Vec<(String, usize)>,
}

impl KernelStruct {
    /// Returns the number of a field among the fields, and its place in bytes.
    pub fn field(&self, name: &str) -> Option<(u32, usize)> {
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        Some((u32::try_from(at).ok()?, self.fields[at].1))
    }
}

/// A type.
struct KernelType<'a> {
    kind: u32,
    /// The place of its name among the strings.
    name: u32,
    /// The size of a struct; of some other kinds the number of another type.
    bytes: u32,
    parts: &'a [u8],
}

impl KernelTypes {
    /// Reads the types of the machine whose files are below `root`.
    ///
    /// # Errors
    ///
    /// They cannot be read. Of types that nobody understands the rest is missing.
    pub fn read(root: &Path) -> Result<Self, Unavailable> {
        let bytes = fs::read(root.join(BTF)).map_err(Unavailable::NoBtf)?;
        Ok(Self::parse(&bytes).unwrap_or(Self { types: Vec::new(), strings: Vec::new() }))
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let magic = u16::from_ne_bytes(*bytes.first_chunk()?);
        let body = bytes.get(usize::try_from(number(bytes, 4)?).ok()?..)?;
        let section = |at: usize| {
            let start = usize::try_from(number(bytes, at)?).ok()?;
            let length = usize::try_from(number(bytes, at + 4)?).ok()?;
            Some(body.get(start..start.checked_add(length)?)?.to_vec())
        };
        let types = Self { types: section(8)?, strings: section(16)? };
        (magic == MAGIC).then_some(types)
    }

    /// Returns the enumerators of an enumeration with their values, in order; none if the kernel
    /// has no such enumeration.
    pub fn enumerators(&self, name: &str) -> Vec<(String, u32)> {
        let parts = self.parts(ENUM, name).chunks_exact(ENUM_PART_BYTES);
        let named = parts.filter_map(|part| Some((self.string(number(part, 0)?)?, part)));
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        named.filter_map(|(name, part)| Some((text(name), number(part, 4)?))).collect()
    }

    /// Returns whether a struct has a field.
    pub fn has_field(&self, structure: &str, field: &str) -> bool {
        self.structure(structure).is_some_and(|found| found.field(field).is_some())
    }

    /// Returns a struct, if the kernel has it.
    pub fn structure(&self, name: &str) -> Option<KernelStruct> {
        let (id, found) = self.find(STRUCT, name)?;
        let field = |part: &[u8]| {
            let name = String::from_utf8_lossy(self.string(number(part, 0)?)?).into_owned();
            // Where a struct has bit fields the highest byte is the number of bits.
            let bits = number(part, 8)? & 0xff_ffff;
            Some((name, usize::try_from(bits / 8).ok()?))
        };
        let fields = found.parts.chunks_exact(STRUCT_PART_BYTES).filter_map(field).collect();
        Some(KernelStruct { id, bytes: usize::try_from(found.bytes).ok()?, fields })
    }

    /// Returns the numbers of those of these functions that the kernel tells of.
    pub fn functions<'a>(&self, names: &BTreeSet<&'a str>) -> BTreeMap<&'a str, u32> {
        let functions = (1..).zip(self.types()).filter(|(_, it)| it.kind == FUNCTION);
        let wanted = functions.filter_map(|(id, it)| {
            let name = str::from_utf8(self.string(it.name)?).ok()?;
            Some((*names.get(name)?, id))
        });
        wanted.collect()
    }

    fn parts(&self, kind: u32, name: &str) -> &[u8] {
        self.find(kind, name).map_or(&[], |(_, found)| found.parts)
    }

    /// Returns a type with its number.
    fn find(&self, kind: u32, name: &str) -> Option<(u32, KernelType<'_>)> {
        let mut types = (1..).zip(self.types());
        types.find(|(_, it)| it.kind == kind && self.string(it.name) == Some(name.as_bytes()))
    }

    fn types(&self) -> impl Iterator<Item = KernelType<'_>> {
        let mut rest = &self.types[..];
        iter::from_fn(move || {
            let (name, info, bytes) = (number(rest, 0)?, number(rest, 4)?, number(rest, 8)?);
            let kind = info >> 24 & 0x1f;
            let parts = rest.get(TYPE_BYTES..)?;
            let parts = parts.get(..bytes_of_parts(kind, info & 0xffff)?)?;
            rest = &rest[TYPE_BYTES + parts.len()..];
            Some(KernelType { kind, name, bytes, parts })
        })
    }

    fn string(&self, at: u32) -> Option<&[u8]> {
        let from = self.strings.get(usize::try_from(at).ok()?..)?;
        from.split(|byte| *byte == 0).next()
    }
}

/// Returns the size of what follows the header of a type, by its kind in enum `BTF_KIND_*`.
fn bytes_of_parts(kind: u32, parts: u32) -> Option<usize> {
    let parts = usize::try_from(parts).ok()?;
    match kind {
        // int, var, decl_tag
        1 | 14 | 17 => Some(4),
        // array
        3 => Some(12),
        // struct, union, datasec, enum64
        STRUCT | 5 | 15 | 19 => Some(STRUCT_PART_BYTES * parts),
        // enum, func_proto
        ENUM | 13 => Some(ENUM_PART_BYTES * parts),
        // Those that only name another type, and float.
        2 | 7..=12 | 16 | 18 => Some(0),
        _ => None,
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An int; a struct `s` with the fields `a` and `b`; an enum `e` with `ONE` = 1, `NINE` = 9; a
    /// function `f`.
    fn example() -> Vec<u8> {
        let strings = b"\0int\0s\0a\0b\0e\0ONE\0NINE\0f\0";
        let types: &[&[u32]] = &[
            &[1, 1 << 24, 4, 32],
            &[5, 4 << 24 | 2, 8, /* a */ 7, 1, 0, /* b */ 9, 1, 32],
            &[11, 6 << 24 | 2, 4, /* ONE */ 13, 1, /* NINE */ 17, 9],
            &[22, 12 << 24, 1],
        ];
        let types: Vec<u8> =
            types.iter().flat_map(|it| it.iter()).flat_map(|word| word.to_ne_bytes()).collect();
        let length = u32::try_from(types.len()).unwrap();
        let strings_length = u32::try_from(strings.len()).unwrap();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, length, length, strings_length] {
            bytes.extend(word.to_ne_bytes());
        }
        [bytes, types, strings.to_vec()].concat()
    }

    /// Goal: enumerators have their names and values; a field is there or not; other kinds of
    /// types between them are passed.
    #[test]
    fn names_are_found() {
        let types = KernelTypes::parse(&example()).unwrap();
        let both = vec![("ONE".to_owned(), 1), ("NINE".to_owned(), 9)];
        assert_eq!(types.enumerators("e"), both);
        assert_eq!(types.enumerators("s"), []);
        assert!(types.has_field("s", "b") && !types.has_field("s", "c"));
        assert!(!types.has_field("e", "ONE"));
    }

    /// Goal: a struct has its number in the order of all types from 1, its size, and its fields
    /// with their order and places in bytes.
    #[test]
    fn a_struct_is_laid_out() {
        let types = KernelTypes::parse(&example()).unwrap();
        let found = types.structure("s").unwrap();
        assert_eq!((found.id, found.bytes), (2, 8));
        // b begins at bit 32.
        assert_eq!((found.field("a"), found.field("b")), (Some((0, 0)), Some((1, 4))));
        assert_eq!((found.field("c"), types.structure("e")), (None, None));
    }

    /// Goal: functions have their numbers, which other kinds of the same name have not.
    #[test]
    fn functions_have_numbers() {
        let types = KernelTypes::parse(&example()).unwrap();
        let found = types.functions(&["f", "s", "g"].into());
        assert_eq!(found, [("f", 4)].into());
    }

    /// Goal: bytes that end anywhere, and bytes that are not BTF, are never a panic.
    #[test]
    fn what_is_cut_short_ends() {
        let whole = example();
        for length in 0..whole.len() {
            if let Some(types) = KernelTypes::parse(&whole[..length]) {
                types.enumerators("e");
            }
        }
        for at in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 0xff;
            if let Some(types) = KernelTypes::parse(&wrong) {
                types.enumerators("e");
                types.has_field("s", "b");
            }
        }
    }

    /// Goal: this kernel's own types are read, where it has them.
    #[test]
    fn this_kernel_names_the_reasons_of_migrations() {
        let Ok(types) = KernelTypes::read(Path::new("/")) else {
            eprintln!("skipped: this kernel has no BTF");
            return;
        };
        let reasons = types.enumerators("migrate_reason");
        assert!(reasons.contains(&("MR_COMPACTION".to_owned(), 0)), "{reasons:?}");
    }
}
