//! Costs of a simulated machine: named values with a unit and a source.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use nodeward_model::units;

use crate::{exact, limits};

/// The unit of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamUnit {
    /// Nanoseconds, written as `250ns` or `4ms`.
    Time,
    /// Bytes per second, written as `25GB/s`.
    Rate,
    /// Bytes, written as `2MiB`.
    Bytes,
    /// A number.
    Count,
    /// Thousandths, written as a number.
    Milli,
    /// Picoseconds, written as `39.5ns`, `500ps` or a number: times with fractions of a nanosecond.
    Picoseconds,
    /// One of these words; the value is its index.
    Word(&'static [&'static str]),
}

/// The description of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct ParamInfo {
    /// Its name in scenario files, and after `--set machine.`.
    pub name: &'static str,
    /// Its unit.
    pub unit: ParamUnit,
    /// Its value unless a scenario sets another.
    pub default: u64,
    /// Its meaning, in a few words.
    pub about: &'static str,
    /// The source of the default.
    pub source: &'static str,
}

/// Defines the struct, the table and the access by name from one list.
macro_rules! params {
    ($($field:ident $name:literal $unit:expr, $default:expr,
        $about:literal, $source:literal;)*) => {
        /// The parameters of a machine. Each field is a value in its unit.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Params {
            $(#[doc = $about] pub $field: u64,)*
            /// Sources of the values that a scenario sets, by the parameter's name.
            pub sources: BTreeMap<&'static str, String>,
        }

        impl Default for Params {
            fn default() -> Self {
                Self { $($field: $default,)* sources: BTreeMap::new() }
            }
        }

        impl Params {
            /// All parameters, in the order of the documentation.
            pub const TABLE: &'static [ParamInfo] = &[$(ParamInfo {
                name: $name, unit: $unit, default: $default, about: $about, source: $source,
            },)*];

            /// Returns the value of a parameter, by its name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $($name => Some(self.$field),)*
                    _ => None,
                }
            }

            /// Returns a parameter's description and a reference to its value.
            pub(crate) fn slot(&mut self, name: &str) -> Option<(&'static ParamInfo, &mut u64)> {
                let info = Self::TABLE.iter().find(|info| info.name == name)?;
                match name {
                    $($name => Some((info, &mut self.$field)),)*
                    _ => None,
                }
            }
        }
    };
}

use ParamUnit::{Bytes, Count, Milli, Picoseconds, Rate, Time, Word};

params! {
    // Memory.
    page_bytes "page" Bytes, 4096, "Bytes of a base page", "x86-64";
    latency_ns "latency" Time, 90, "A miss that goes to the own node of an idle machine",
        "Ice Lake 70-80, Sandy Bridge 80-90, Milan 95-105 ns";
    bandwidth_bytes_per_s "bandwidth" Rate, 100_000_000_000, "What a node's memory delivers",
        "E5-2650 51 GB/s, Ice Lake and Milan 205 GB/s at most; about a half of that is usual";
    link_bandwidth_bytes_per_s "link-bandwidth" Rate, 32_000_000_000,
        "What goes from one node to another in one direction", "2-socket E5-2640v3: 32 GB/s";
    line_bytes "line" Bytes, 64, "A cache line", "x86-64";
    llc_bytes "llc" Bytes, 32 << 20, "The last-level cache of a node, or of a complex",
        "Ice Lake 1.5 MiB a core";
    llc_ns "llc-latency" Time, 20, "A line that the last-level cache has",
        "Ice Lake 20 to 26, Milan 12 to 15 ns";
    complex_cpus "complex-cpus" Count, 0,
        "CPUs that share a last-level cache and a way to memory; 0 for all of a node",
        "Zen 3: a core complex of 8 cores, 16 threads";
    complex_bandwidth_bytes_per_s "complex-bandwidth" Rate, 1_000_000_000_000,
        "What a complex can read and write together", "Zen 3: copies of 11 GB/s a complex";
    complex_misses "complex-misses" Count, 0,
        "Misses that a complex has under way at most; 0 for no such bound",
        "Westmere: 32 reads of the cores in the Global Queue of a socket";
    tlb_entries "tlb-entries" Count, 1536, "Translations that a core keeps",
        "second-level TLB of Skylake and later";
    tlb_refill_ns "tlb-refill" Time, 25, "A translation that is loaded again",
        "a page walk takes 20 to 40 ns";

    // CPUs and scheduler.
    smt_share_milli "smt-share" Milli, 620,
        "What a hardware thread does while its sibling works too", "SMT gains about a quarter";
    slice_ns "slice" Time, 3_000_000, "How long a task keeps a CPU that others want",
        "Linux: base_slice_ns of 3 ms";
    balance_ns "balance" Time, 8_000_000, "How often a CPU looks for tasks that it could take over",
        "Linux: balance_interval of a domain of some CPUs";
    balance_nodes_ns "balance-nodes" Time, 0,
        "How often a node looks at lines of other nodes, too; 0: each time it looks",
        "Linux 3.3: 8 to 32 ms for a domain of nodes, 32 times that where CPUs are busy";
    switch_ns "switch" Time, 1_500, "A change from one task to another", "1 to 2 us";
    cache_hot_ns "cache-hot" Time, 500_000,
        "A task that ran so recently is not taken over", "Linux: sysctl_sched_migration_cost";
    wake_ns "wake" Time, 2_000, "From a wake-up to the first instruction on an idle CPU",
        "1 to 5 us with shallow idle states";
    wake_deep_ns "wake-deep" Time, 0,
        "The same on a CPU that fell into a deep idle state; 0: as wake", "no deep idle states";
    deep_after_ns "deep-after" Time, 600_000, "How long a CPU is idle until it does so",
        "Linux, intel_idle: C6 of Ice Lake pays from 600 us on";
    preempt_ns "preempt" Time, 0,
        "From a wake-up to the end of the turn of who has the CPU, beside the change of tasks",
        "nothing: an interrupt is as good as there";
    stray_milli "stray" Milli, 20,
        "Tasks for each CPU that a look at another node's lines takes over though they are as long",
        "assumed: loads are averages that lag behind, and the kernel's own threads disturb them";

    // Translations.
    shootdown "shootdown" Word(&["interrupts", "broadcast"]), 0,
        "How CPUs learn that a translation is gone", "x86-64: interrupts; arm64: broadcast";
    ipi_send_ns "ipi-send" Time, 1_000, "What interrupting others costs the sender at least",
        "1 to 2 us for few CPUs of one socket";
    ipi_target_ns "ipi-target" Time, 40, "What each further CPU adds to that", "0.05 to 0.5 us";
    ipi_remote_ns "ipi-remote" Time, 2_000, "What a CPU on another node adds once",
        "about 6 us for 16 cores on two sockets";
    ipi_victim_ns "ipi-victim" Time, 700, "What an interrupt costs the CPU that is interrupted",
        "0.5 to 1 us";
    broadcast_ns "broadcast" Time, 300, "Telling all CPUs of one page (TLBI)",
        "arm64, 128 CPUs: 2.19 us with the wait";
    broadcast_wait_ns "broadcast-wait" Time, 1_890, "Waiting until all CPUs did it (DSB)",
        "the rest of 2.19 us";
    broadcast_drain_ns "broadcast-drain" Time, 0,
        "What a copy takes longer that follows a broadcast", "nothing unless measured";

    // Migration.
    move_call_ns "move-call" Time, 60_000, "A call that moves pages, whatever it moves",
        "40 to 100 us on 64 idle CPUs (Zen 3)";
    unmap_ns "unmap" Time, 280, "Taking a folio out of sight, beside allocation and locks",
        "Zen 3: 0.72 us for all but the copy of a page";
    unmap_page_ns "unmap-page" Time, 60, "Each of its page table entries",
        "Zen 3: 0.21 us an entry, both ways";
    map_ns "map" Time, 190, "Bringing a folio back into sight, beside locks", "the same";
    map_page_ns "map-page" Time, 60, "Each of its page table entries", "the same";
    huge_move_ns "huge-move" Time, 5_000, "A huge page, out of sight and back",
        "Zen 3: 4 to 6 us";
    huge_migration "huge-migration" Word(&["split", "whole"]), 1,
        "Whether the kernel moves huge pages whole", "since Linux 4.14";
    copy_bytes_per_s "copy" Rate, 10_700_000_000, "What one thread copies at most",
        "Zen 3: 10.7 GB/s; E5-2650: 3.4 GB/s";
    copy_parallel_milli "copy-parallel" Milli, 12_000,
        "Misses that a copying thread has under way", "10 to 12 line fill buffers";
    copy_writes_milli "copy-writes" Milli, 1_000,
        "How often the destination's memory is used for a copied line: 2000 where the line is \
        fetched before it is written", "copies that write past the caches";
    dispatch_ns "dispatch" Time, 1_800, "Giving one piece of a copy to another thread",
        "E5-2650: 1.6 to 2.1 us an item";
    join_ns "join" Time, 2_000, "Waiting for such threads, beside their work",
        "E5-2650: 13 to 17 us for 8 items";
    batch_pages "batch" Count, 512, "Base pages that the kernel takes out of sight together, in \
        512 folios at most; 1 is the time before batches", "Linux 6.3: NR_MAX_BATCHED_MIGRATION";
    copiers "copiers" Count, 1, "Threads that copy one batch", "Linux: 1";
    copier_choice "copier-choice" Word(&["first", "cores", "complexes"]), 1,
        "Which CPUs of the destination copy: the first, one of each core, or spread over complexes",
        "the RFC of 2017 takes the first";
    dma_channels "dma-channels" Count, 0, "Channels of an engine that copies; 0 for none", "none";
    dma_bytes_per_s "dma" Rate, 4_000_000_000, "What a channel copies",
        "PTDMA, 16 channels: 63.7 GB/s";
    dma_setup_ns "dma-setup" Time, 2_000, "Handing a batch to the engine", "assumed";
    lazy_pages "lazy-pages" Count, 1,
        "Neighbours that migrate-on-fault takes along at most, the touched page included",
        "Linux: the folio that was touched";

    // The kernel's NUMA balancing.
    numa_scan_delay_ns "numa-scan-delay" Time, 1_000_000_000,
        "With `numa-balancing`: run time of a thread before the first scan", "Linux: 1000 ms";
    numa_scan_min_ns "numa-scan-min" Time, 1_000_000_000, "The shortest time between two scans, \
        for each window of `numa-scan-size`", "Linux: 1000 ms";
    numa_scan_max_ns "numa-scan-max" Time, 60_000_000_000, "The longest", "Linux: 60000 ms";
    numa_scan_bytes "numa-scan-size" Bytes, 256 << 20, "Memory of which one scan takes the entries",
        "Linux: 256 MB";

    // Allocation.
    fault_ns "fault" Time, 1_000, "A page fault, beside allocation and zeroing",
        "page_fault1: 2.6 to 3.1 us with zeroing";
    fault_huge_ns "fault-huge" Time, 2_000, "A fault for a huge page, beside zeroing", "assumed";
    clear_bytes_per_s "clear" Rate, 8_000_000_000, "Zeroing of fresh memory",
        "about memcpy's speed";
    unmap_free_ns "unmap-free" Time, 400, "Unmapping and freeing a page, beside the page lists",
        "page_fault1";
    hint_fault_ns "hint-fault" Time, 1_500, "A fault that only tells who touches", "1 to 2 us";
    list_ps "list" Picoseconds, 10_000, "A page from or to a CPU's own list", "about 10 ns";
    zone_hold_ps "zone-hold" Picoseconds, 39_500,
        "The zone's lock for each page, or run of pages, that a list gives back",
        "Sapphire Rapids: 37 ns to free, 42 ns to allocate";
    zone_visit_ns "zone-visit" Time, 0, "The zone's lock for each time that a list gives back",
        "part of zone-hold";
    zone_refill_ps "zone-refill" Picoseconds, 0,
        "The zone's lock for each page, or run of pages, that a list takes; 0: as zone-hold",
        "part of zone-hold";
    zone_refill_visit_ns "zone-refill-visit" Time, 0,
        "The zone's lock for each time that a list takes; 0: as zone-visit", "part of zone-visit";
    zone_handoff_ns "zone-handoff" Time, 1_300, "What a lock costs that comes from another CPU",
        "fit of page_fault1 at 56 processes";
    lru_hold_ns "lru-hold" Time, 60, "The lock of a group's page lists, for each folio", "assumed";
    lru_handoff_ns "lru-handoff" Time, 300, "The same from another CPU", "assumed";
    pcp_batch "pcp-batch" Count, 63, "Pages between list and zone at a time",
        "Linux, zones of 1 GB";
    pcp_high "pcp-high" Count, 0, "Pages that a list keeps at first; 0: by the zone's size",
        "Linux: low watermark of the zone by its CPUs";
    pcp_high_max "pcp-high-max" Count, 0, "Pages that a list keeps at most; 0: by the zone's size",
        "Linux: an eighth of the zone by its CPUs";
    pcp_drain "pcp-drain" Word(&["never", "runs"]), 0,
        "What drains a list that gives more than it gets: nothing, or runs of 2 to 8 pages",
        "Linux: runs, since 5.18; they fragment a zone, which is not modelled";
    pcp_tuning "pcp-tuning" Word(&["fixed", "depth", "events"]), 2, "What a list's length follows",
        "Linux 6.7: events";
    probe_ns "probe" Time, 0,
        "What reports add to each allocation and each free, as if a tracer had timed it",
        "Linux: a return probe takes 0.3 to 1.2 us";

    // Samples that balancers take.
    look_process_ns "look-process" Time, 8_000, "A look at a process of who watches many",
        "a trial: /proc/PID/stat of 100 processes opened, read and closed in 0.8 ms";
    look_thread_ns "look-thread" Time, 3_000, "The same for each thread of a process that ran",
        "assumed: a file that stays open";

    // Counters of the memory controllers.
    counter_entries "counter-entries" Count, 0,
        "Pages of a node whose accesses are counted by node; 0 for no counters",
        "Itanium 2 of 2004: 2048";
}

/// Parameters that must not be zero.
const NEVER_ZERO: [&str; 5] = ["latency", "smt-share", "copiers", "batch", "pcp-batch"];

impl ParamInfo {
    /// Returns the valid values.
    pub fn range(&self) -> RangeInclusive<u64> {
        let least = u64::from(NEVER_ZERO.contains(&self.name));
        match (self.name, self.unit) {
            ("page", _) => limits::PAGE_BYTES,
            ("line", _) => 16..=4096,
            ("slice" | "balance", _) => limits::PERIOD_NS_MIN..=limits::COST_NS_MAX,
            ("smt-share", _) => least..=1000,
            ("copy-parallel", _) => limits::PARALLEL_MILLI,
            ("copiers" | "complex-cpus" | "dma-channels", _) => least..=u64::from(limits::CPUS_MAX),
            (_, Time) => least..=limits::COST_NS_MAX,
            (_, Rate) => limits::RATE,
            (_, Bytes) => least..=limits::MEMORY_BYTES_MAX,
            (_, Count | Milli) => least..=1 << 30,
            (_, Picoseconds) => least..=limits::COST_NS_MAX,
            (_, Word(words)) => 0..=words.len().saturating_sub(1) as u64,
        }
    }

    /// Returns a value as in files, exactly.
    pub fn format_exact(&self, value: u64) -> String {
        match self.unit {
            Time => exact::ns(value),
            Rate => exact::rate(value),
            Bytes => exact::bytes(value),
            Picoseconds => exact::ps(value),
            Count | Milli | Word(_) => Params::format_rounded(self, value),
        }
    }

    /// Describes the valid values in words.
    pub fn expected(&self) -> String {
        let bounds = format!(
            "from {} to {}",
            self.format_exact(*self.range().start()),
            self.format_exact(*self.range().end())
        );
        match self.unit {
            Time => format!("a time such as 250us, {bounds}"),
            Rate => format!("a rate such as 500MB/s, {bounds}"),
            Bytes => format!("a size such as 2MiB, {bounds}"),
            Count => format!("a number {bounds}"),
            Milli => format!("a number of thousandths {bounds}"),
            Picoseconds => "a time such as 500ps or 39.5ns, up to 60ms".to_owned(),
            Word(words) => format!("one of {}", words.join(", ")),
        }
    }
}

impl Params {
    /// Parses a value as people write it, in the parameter's unit.
    ///
    /// # Errors
    /// The error states what was expected.
    pub fn parse(info: &ParamInfo, text: &str) -> Result<u64, String> {
        let number = || text.trim().replace('_', "").parse::<u64>();
        match info.unit {
            Time if text.trim() == "0" => Ok(0),
            Time => units::parse_duration_ns(text).map_err(|error| error.to_string()),
            Rate => units::parse_rate(text).map_err(|error| error.to_string()),
            Bytes => units::parse_bytes(text).map_err(|error| error.to_string()),
            Count => number().map_err(|_| format!("'{text}' is not a number")),
            Milli => number().map_err(|_| format!("'{text}' is not a number of thousandths")),
            Picoseconds => units::parse_duration_ps(text).map_err(|error| error.to_string()),
            Word(words) => {
                let index = words.iter().position(|word| *word == text);
                let found = index.and_then(|index| u64::try_from(index).ok());
                found.ok_or_else(|| format!("'{text}' is not one of {}", words.join(", ")))
            }
        }
    }

    /// Formats a value for people.
    pub fn format_rounded(info: &ParamInfo, value: u64) -> String {
        match info.unit {
            Time => units::format_ns(value),
            Rate => format!("{}/s", units::format_bytes(value)),
            Bytes => units::format_bytes(value),
            Count | Milli | Picoseconds => value.to_string(),
            Word(words) => words.get(value as usize).copied().unwrap_or("?").to_owned(),
        }
    }

    /// Sets a parameter by its name, and the source of its value.
    ///
    /// # Errors
    /// The error states what was expected.
    pub fn set(&mut self, name: &str, text: &str, source: Option<&str>) -> Result<(), String> {
        let (info, slot) = self.slot(name).ok_or_else(|| {
            let names: Vec<_> = Self::TABLE.iter().map(|info| info.name).collect();
            format!("unknown parameter '{name}': expected one of {}", names.join(", "))
        })?;
        *slot = Self::parse(info, text)?;
        if let Some(source) = source {
            self.sources.insert(info.name, source.to_owned());
        }
        Ok(())
    }
}
