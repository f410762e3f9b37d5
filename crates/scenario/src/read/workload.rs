//! Reads workloads, with the defaults of each kind.

use nodeward_model::units;
use nodeward_model::{Id, NodeId};

use super::fields::mask;
use crate::error::SourceError;
use crate::suggest;
use crate::toml_tree::{TomlItem, TomlTable};
use crate::workload::WINDOW_SHARE;
use crate::{
    AccessPattern, DutyCycle, InitialHome, MemoryPlacement, SharedLines, Workload, WorkloadKind,
};

/// The keys of every workload.
pub(crate) const KEYS: &[&str] = &[
    "name",
    "kind",
    "processes",
    "threads",
    "pools",
    "memory",
    "pages",
    "place",
    "nodes",
    "begins",
    "home",
    "start",
    "groups",
    "cpuset",
];

/// The kinds, with the keys that only they have.
const KINDS: &[(&str, &[&str])] = &[
    (
        "triad",
        &[
            "parallel",
            "compute",
            "writes",
            "shared",
            "shared-in-order",
            "passes",
            "populated",
            "works",
            "rests",
            "bound",
            "scattered",
            "one-segment",
        ],
    ),
    (
        "random",
        &[
            "parallel",
            "compute",
            "writes",
            "hot-touches",
            "hot-bytes",
            "populated",
            "works",
            "rests",
            "bound",
        ],
    ),
    ("page-fault", &[]),
    ("compile", &["parallel", "compute", "writes", "cpu-time", "lives", "varies"]),
    ("ping-pong", &["message", "cpu-time"]),
    ("stream", &["message", "buffer", "under-way", "cpu-time", "together"]),
    (
        "phases",
        &[
            "parallel",
            "compute",
            "writes",
            "phase",
            "shared",
            "populated",
            "works",
            "rests",
            "bound",
            "scattered",
        ],
    ),
    (
        "moving-set",
        &[
            "parallel",
            "compute",
            "writes",
            "window",
            "stays",
            "populated",
            "works",
            "rests",
            "bound",
        ],
    ),
    (
        "database",
        &[
            "parallel",
            "compute",
            "writes",
            "segment",
            "segment-place",
            "segment-touches",
            "own-part",
            "populated",
            "works",
            "rests",
        ],
    ),
    ("hog", &[]),
];

/// Returns the keys that a kind has beside those of every workload.
pub(crate) fn keys_of(kind: &str) -> Option<&'static [&'static str]> {
    KINDS.iter().find(|(name, _)| *name == kind).map(|(_, keys)| *keys)
}

const PLACES: &str = "\"first-touch\", \"bind:0,1\", \"interleave:0-3\", \"left:0-1\" or \"away\"";
const PAGES: &str = "\"base\", \"huge\" or the size of a folio such as \"64KiB\"";
const HOMES: &str = "\"none\", \"spread\" or the number of a node";
const PARALLEL: &str = "how many misses a thread has under way, such as 4 or 1.5";
const COMPUTE: &str = "a time for each cache line, such as \"500ps\" or \"2.5ns\"";
const MILLI: &str = "a number of thousandths, 0 to 1000";

pub(super) fn workload(table: &TomlTable) -> Result<Workload, SourceError> {
    let kind = table.required("kind", "`kind = \"triad\"` or another kind", kind_name)?;
    reject_unknown_keys(table, kind)?;
    let memory_bytes =
        table.required("memory", "a size such as `memory = \"1GiB\"`", TomlItem::bytes)?;
    let threads = table.count("threads")?.unwrap_or(1);
    let (huge, folio_bytes) = table.optional("pages", pages)?.unwrap_or_default();
    Ok(Workload {
        name: table
            .required("name", "a name such as `name = \"stream\"`", TomlItem::as_text)?
            .to_owned(),
        kind: self::kind(kind, table, memory_bytes, threads)?,
        processes: table.count("processes")?.unwrap_or(1),
        threads,
        pools: table.count("pools")?.unwrap_or(1),
        memory_bytes,
        huge,
        folio_bytes,
        placement: table.optional("place", placement)?.unwrap_or_default(),
        nodes: table.optional("nodes", |item| item.mask(NodeId::LIMIT))?,
        begins: table.optional("begins", |item| item.mask(NodeId::LIMIT))?,
        home: table.optional("home", home)?.unwrap_or_default(),
        start_ns: table.time_or_zero("start")?.unwrap_or(0),
        own_memcgs: table.word("groups", &[("own", true), ("one", false)])?.unwrap_or(false),
        populated: table.flag("populated")?,
        cpuset: table.optional("cpuset", |item| item.mask(NodeId::LIMIT))?,
        duty_cycle: duty_cycle(table)?,
        bound: table.flag("bound")?,
        scattered: table.flag("scattered")?,
        one_segment: table.flag("one-segment")?,
    })
}

/// Reads both keys or none.
fn duty_cycle(table: &TomlTable) -> Result<Option<DutyCycle>, SourceError> {
    match (table.time("works")?, table.time("rests")?) {
        (Some(works_ns), Some(rests_ns)) => {
            Ok(Some(DutyCycle { busy_ns: works_ns, idle_ns: rests_ns }))
        }
        (None, None) => Ok(None),
        _ => {
            let what = "`works` and `rests` go together".to_owned();
            Err(SourceError::new(&table.location, what, "both, such as `works = \"2s\"`, or none"))
        }
    }
}

/// Refuses keys that the kind does not have.
fn reject_unknown_keys(table: &TomlTable, kind: &str) -> Result<(), SourceError> {
    table.reject_unknown_keys(&[KEYS, keys_of(kind).unwrap_or_default()]).map_err(|fault| {
        let has = |keys: &[&str], key: &String| keys.contains(&key.as_str());
        let strange = table
            .items
            .iter()
            .find(|(key, _)| !has(KEYS, key) && !has(keys_of(kind).unwrap_or_default(), key));
        let others =
            KINDS.iter().filter(|(_, keys)| strange.is_some_and(|(key, _)| has(keys, key)));
        let others: Vec<_> = others.map(|(name, _)| *name).collect();
        match others.is_empty() {
            true => fault,
            false => SourceError {
                problem: format!("{}, which {} has", fault.problem, others.join(", ")),
                ..fault
            },
        }
    })
}

fn kind_name(item: &TomlItem) -> Result<&str, SourceError> {
    let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
    let name = item.scalar().filter(|name| names.contains(name));
    name.ok_or_else(|| {
        item.error(suggest::expected_one_of(item.scalar().unwrap_or_default(), &names))
    })
}

fn kind(
    kind: &str,
    table: &TomlTable,
    memory_bytes: u64,
    threads: u32,
) -> Result<WorkloadKind, SourceError> {
    let access = |parallel_milli, compute_ps, writes_milli| {
        access(table, AccessPattern { parallel_milli, compute_ps, writes_milli })
    };
    Ok(match kind {
        // a[i] = b[i] + s * c[i]: of three lines one is written, and all are fetched ahead.
        "triad" => WorkloadKind::Triad {
            access: access(10_000, 500, 333)?,
            shared: SharedLines {
                random_milli: milli(table, "shared")?.unwrap_or(0),
                in_order_milli: milli(table, "shared-in-order")?.unwrap_or(0),
            },
            passes: table
                .optional("passes", |item| item.number("how many, 0 for no end"))?
                .unwrap_or(0),
        },
        "random" => WorkloadKind::Random {
            access: access(4_000, 2_000, 500)?,
            hot_touches_milli: milli(table, "hot-touches")?.unwrap_or(0),
            hot_bytes_milli: milli(table, "hot-bytes")?.unwrap_or(0),
        },
        "page-fault" => WorkloadKind::PageFault,
        "compile" => WorkloadKind::Compile {
            compute_ns: table.time("cpu-time")?.unwrap_or(50_000_000),
            access: access(2_000, 5_000, 300)?,
            lives: table
                .optional("lives", |item| item.number("how many, 0 for no end"))?
                .unwrap_or(0),
            varies_milli: milli(table, "varies")?.unwrap_or(0),
        },
        "ping-pong" => WorkloadKind::PingPong {
            message_bytes: table.bytes("message")?.unwrap_or(16 << 10),
            compute_ns: table.time_or_zero("cpu-time")?.unwrap_or(2_000),
        },
        "stream" => WorkloadKind::Stream {
            message_bytes: table.bytes("message")?.unwrap_or(16 << 10),
            buffer_bytes: table.bytes("buffer")?.unwrap_or(4 << 10),
            window: table.count("under-way")?.unwrap_or(6).into(),
            compute_ns: table.time_or_zero("cpu-time")?.unwrap_or(5_000),
            on_one_cpu: table.flag("together")?,
        },
        "phases" => WorkloadKind::Phases {
            access: access(4_000, 2_000, 333)?,
            phase_bytes: table.bytes("phase")?.unwrap_or(memory_bytes / u64::from(threads.max(1))),
            shared_milli: milli(table, "shared")?.unwrap_or(0),
        },
        "moving-set" => WorkloadKind::MovingSet {
            access: access(4_000, 2_000, 300)?,
            window_bytes: table.bytes("window")?.unwrap_or(memory_bytes / WINDOW_SHARE),
            stays_ns: table.time("stays")?.unwrap_or(500_000_000),
        },
        "database" => WorkloadKind::Database {
            access: access(4_000, 2_000, 300)?,
            segment_bytes: table.bytes("segment")?.unwrap_or(memory_bytes),
            segment_placement: table.optional("segment-place", placement)?.unwrap_or_default(),
            segment_milli: milli(table, "segment-touches")?.unwrap_or(800),
            own_part_milli: milli(table, "own-part")?.unwrap_or(0),
        },
        _ => WorkloadKind::Hog,
    })
}

fn access(table: &TomlTable, default: AccessPattern) -> Result<AccessPattern, SourceError> {
    let parallel = |item: &TomlItem| {
        item.read(PARALLEL, |text| u32::try_from(units::parse_thousandths(text).ok()?).ok())
    };
    let compute = |item: &TomlItem| item.read(COMPUTE, |text| units::parse_duration_ps(text).ok());
    Ok(AccessPattern {
        parallel_milli: table.optional("parallel", parallel)?.unwrap_or(default.parallel_milli),
        compute_ps: table.optional("compute", compute)?.unwrap_or(default.compute_ps),
        writes_milli: milli(table, "writes")?.unwrap_or(default.writes_milli),
    })
}

fn milli(table: &TomlTable, key: &str) -> Result<Option<u32>, SourceError> {
    table.optional(key, |item| item.number(MILLI))
}

/// Reads whether pages are huge, and the bytes of folios that are neither huge nor base pages.
fn pages(item: &TomlItem) -> Result<(bool, u64), SourceError> {
    match item.scalar() {
        Some("base") => Ok((false, 0)),
        Some("huge") => Ok((true, 0)),
        _ => item.bytes().map(|bytes| (false, bytes)).map_err(|_| item.error(PAGES)),
    }
}

fn placement(item: &TomlItem) -> Result<MemoryPlacement, SourceError> {
    item.read(PLACES, |text| {
        let nodes = |list| mask::<NodeId>(list, NodeId::LIMIT);
        match text.split_once(':') {
            None if text == "away" => Some(MemoryPlacement::PopulatedFarthest),
            None => (text == "first-touch").then_some(MemoryPlacement::FirstTouch),
            Some(("left", list)) => nodes(list).map(MemoryPlacement::PopulatedOn),
            Some(("bind", list)) => nodes(list).map(MemoryPlacement::Bind),
            Some(("interleave", list)) => nodes(list).map(MemoryPlacement::Interleave),
            Some(_) => None,
        }
    })
}

fn home(item: &TomlItem) -> Result<InitialHome, SourceError> {
    match item.scalar() {
        Some("none") => Ok(InitialHome::None),
        Some("spread") => Ok(InitialHome::Spread),
        _ => item.node().map(InitialHome::On).map_err(|_| item.error(HOMES)),
    }
}
