//! Programs that take the place of functions in a table of the kernel (struct_ops). aya parses and
//! relocates the object, and does not know such tables.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use aya::EbpfError;
use aya::maps::{Map, MapData, MapError};
use aya_obj::Object;
use aya_obj::btf::{Btf, BtfType, Int, IntEncoding};
use aya_obj::generated::bpf_map_type;

use crate::kernel_calls;
use crate::kernel_types::{KernelStruct, KernelTypes};
use crate::probe::{Absence, Absent, Attachment, Probe};
use crate::sys::{FunctionProgram, TableMap, load_program, load_types};
use crate::unavailable::{Unavailable, is_locked_down, kernel_types};

/// A table of the kernel, and what is put into it.
pub(crate) struct OperationTable {
    /// The name of the table's struct in the kernel.
    pub type_name: &'static str,
    /// Programs, each at the operation whose field it fills.
    pub programs: &'static [Probe],
    /// Operations that may sleep.
    pub sleepable: &'static [&'static str],
    /// The bytes of other fields.
    pub values: &'static [(&'static str, &'static [u8])],
}

/// A table that the kernel uses until this is dropped, or the process ends.
pub(crate) struct LoadedTable {
    maps: HashMap<String, Map>,
    _link: OwnedFd,
}

impl LoadedTable {
    /// Loads the programs of `object`, on the machine whose files are below `root`, and makes the
    /// kernel use the table.
    ///
    /// # Errors
    ///
    /// The kernel lacks the table or what a program needs, or refuses something.
    pub fn load(object: &[u8], table: &OperationTable, root: &Path) -> Result<Self, Unavailable> {
        let core_types = kernel_types(root)?;
        if is_locked_down(root) {
            return Err(Unavailable::LockedDown);
        }
        let types = KernelTypes::read(root)?;
        let layout = TableLayout::find(&types, table).ok_or(Unavailable::NoSchedExt)?;
        let explain = |error: EbpfError| Unavailable::explain(error, root);
        let mut parsed = Object::parse(object).map_err(|error| explain(error.into()))?;
        parsed.relocate_btf(&core_types).map_err(|error| explain(error.into()))?;
        resolve_calls(&mut parsed, object, table, &types)?;
        let maps = create_maps(&mut parsed).map_err(explain)?;
        let programs = load_programs(&parsed, table, &layout, root)?;
        let value = layout.fill(table, &programs);
        let link = link(&layout, table, &value).map_err(Unavailable::NotTaken)?;
        Ok(Self { maps, _link: link })
    }

    /// Returns a map by its name in the object, which must have it.
    pub fn map(&self, name: &str) -> &Map {
        self.maps.get(name).expect("the object has the map")
    }

    /// As [`LoadedTable::map`], to write to.
    pub fn map_mut(&mut self, name: &str) -> &mut Map {
        self.maps.get_mut(name).expect("the object has the map")
    }
}

/// How the kernel lays the table out.
struct TableLayout {
    /// The struct that holds the table and what the kernel notes about it.
    whole: KernelStruct,
    table: KernelStruct,
    /// The place of the table in the whole, in bytes.
    start: usize,
}

impl TableLayout {
    fn find(types: &KernelTypes, table: &OperationTable) -> Option<Self> {
        let whole = types.structure(&format!("bpf_struct_ops_{}", table.type_name))?;
        let (_, start) = whole.field("data")?;
        Some(Self { table: types.structure(table.type_name)?, whole, start })
    }

    /// Returns the bytes of the whole, with these programs.
    fn fill(&self, table: &OperationTable, programs: &[(&'static str, OwnedFd)]) -> Vec<u8> {
        let mut whole = vec![0; self.whole.bytes];
        for (name, bytes) in table.values {
            self.put(&mut whole, name, bytes);
        }
        for (name, program) in programs {
            // The kernel reads the number of the file where it will have the function's address.
            let number = u64::from(program.as_raw_fd().cast_unsigned());
            self.put(&mut whole, name, &number.to_ne_bytes());
        }
        whole
    }

    /// Writes the bytes of a field, if the kernel has it.
    fn put(&self, whole: &mut [u8], name: &str, bytes: &[u8]) {
        let place = self.table.field(name).map(|(_, place)| self.start + place);
        let field = place.and_then(|at| whole.get_mut(at..at.checked_add(bytes.len())?));
        if let Some(field) = field {
            field.copy_from_slice(bytes);
        }
    }
}

/// Gives calls of functions of the kernel their numbers.
fn resolve_calls(
    parsed: &mut Object,
    object: &[u8],
    table: &OperationTable,
    types: &KernelTypes,
) -> Result<(), Unavailable> {
    let missing = kernel_calls::resolve(parsed, object, types)
        .map_err(|error| Unavailable::Refused(error.into()))?;
    let absent = missing.into_iter().find_map(|missing| {
        let probe = table.programs.iter().find(|probe| probe.program == missing.program)?;
        Some(Absent { probe, why: Absence::Calls(missing.function) })
    });
    absent.map_or(Ok(()), |absent| Err(Unavailable::Lacking(absent)))
}

/// Creates the maps, and has the programs use them.
fn create_maps(parsed: &mut Object) -> Result<HashMap<String, Map>, EbpfError> {
    let mut created = Vec::new();
    for (name, map) in parsed.maps.drain() {
        let (kind, entries) = (map.map_type(), map.max_entries());
        // Without the types of key and value, which these kinds of maps do not need.
        let plain = aya_obj::Map::new_from_params(
            kind,
            map.key_size(),
            map.value_size(),
            entries,
            map.map_flags(),
        );
        let data = MapData::create(plain, &name, None)?;
        created.push((name, map, data));
    }
    let sections = parsed.functions.keys().map(|(section, _)| *section).collect();
    let places =
        created.iter().map(|(name, map, data)| (name.as_str(), data.fd().as_fd().as_raw_fd(), map));
    parsed.relocate_maps(places, &sections)?;
    parsed.relocate_calls(&sections)?;
    let typed = |(name, map, data): (String, aya_obj::Map, _)| Ok((name, typed(&map, data)?));
    created.into_iter().map(typed).collect()
}

fn typed(map: &aya_obj::Map, data: MapData) -> Result<Map, MapError> {
    Ok(match bpf_map_type::try_from(map.map_type())? {
        bpf_map_type::BPF_MAP_TYPE_HASH => Map::HashMap(data),
        bpf_map_type::BPF_MAP_TYPE_ARRAY => Map::Array(data),
        bpf_map_type::BPF_MAP_TYPE_PERCPU_ARRAY => Map::PerCpuArray(data),
        _ => Map::Unsupported(data),
    })
}

/// Loads the programs; returns each with its operation.
fn load_programs(
    parsed: &Object,
    table: &OperationTable,
    layout: &TableLayout,
    root: &Path,
) -> Result<Vec<(&'static str, OwnedFd)>, Unavailable> {
    let load = |probe: &'static Probe| {
        let Attachment::Operation(operation) = probe.at else { unreachable!("of a table") };
        let is_sleepable = table.sleepable.contains(&operation);
        let loaded = match layout.table.field(operation) {
            Some((member, _)) => load_one(parsed, probe, layout.table.id, member, is_sleepable),
            None => Err(Absence::Unknown),
        };
        match loaded {
            Ok(program) => Ok((operation, program)),
            Err(why) if why.is_permission() => Err(Unavailable::not_permitted(root)),
            Err(why) => Err(Unavailable::Lacking(Absent { probe, why })),
        }
    };
    table.programs.iter().map(load).collect()
}

fn load_one(
    parsed: &Object,
    probe: &Probe,
    table_type_id: u32,
    member: u32,
    is_sleepable: bool,
) -> Result<OwnedFd, Absence> {
    let program = parsed.programs.get(probe.program).expect("the object has the program");
    let function = &parsed.functions[&program.function_key()];
    let program = FunctionProgram {
        name: probe.program,
        licence: &program.license,
        instructions: &function.instructions,
        table_type_id,
        member,
        is_sleepable,
    };
    let refused = |_| {
        let mut log = Vec::new();
        // The verifier is slow while it writes a log; so it is asked again only now.
        load_program(&program, Some(&mut log)).map_err(|error| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            Absence::Refused { error, log: String::from_utf8_lossy(&log[..end]).into_owned() }
        })
    };
    load_program(&program, None).or_else(refused)
}

fn link(layout: &TableLayout, table: &OperationTable, value: &[u8]) -> io::Result<OwnedFd> {
    let types = load_types(&any_types())?;
    let map = TableMap::create(table.type_name, types.as_fd(), layout.whole.id, value.len())?;
    map.fill(value)?;
    map.link()
}

/// Returns the BTF of one type. The kernel wants types of the caller with the map of a table, and
/// uses its own.
fn any_types() -> Vec<u8> {
    let mut types = Btf::new();
    let name = types.add_string("int");
    types.add_type(BtfType::Int(Int::new(name, 4, IntEncoding::Signed, 0)));
    types.to_bytes()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn structure(bytes: usize, fields: &[(&str, usize)]) -> KernelStruct {
        let fields = fields.iter().map(|(name, place)| ((*name).to_owned(), *place)).collect();
        KernelStruct { id: 1, bytes, fields }
    }

    /// Goal: programs and values are where this kernel has their fields, counted from the start of
    /// the table in the whole; a value that the kernel has no field for is left out.
    #[test]
    fn a_table_is_filled_by_the_names_of_its_fields() {
        let table = OperationTable {
            type_name: "t",
            programs: &[],
            sleepable: &[],
            values: &[("limit", &[7, 0, 0, 0]), ("newer", &[9])],
        };
        let layout = TableLayout {
            whole: structure(40, &[("common", 0), ("data", 16)]),
            table: structure(24, &[("run", 0), ("stop", 8), ("limit", 16)]),
            start: 16,
        };
        let program = OwnedFd::from(File::open("/dev/null").unwrap());
        let number = u64::from(program.as_raw_fd().cast_unsigned());
        let filled = layout.fill(&table, &[("stop", program)]);
        let mut expected = vec![0; 40];
        expected[16 + 8..][..8].copy_from_slice(&number.to_ne_bytes());
        expected[16 + 16] = 7;
        assert_eq!(filled, expected);
    }
}
