//! A scheduler (sched_ext) that runs threads at home.

use std::path::Path;

use aya::maps::{Array, HashMap, MapError, PerCpuArray};

use crate::probe::{Attachment, Probe};
use crate::struct_ops::{LoadedTable, OperationTable};
use crate::unavailable::Unavailable;

/// The programs of `programs/homes.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../objects/homes.o");

const fn operation(program: &'static str, name: &'static str) -> Probe {
    Probe {
        program,
        at: Attachment::Operation(name),
        tells: "a scheduler that runs threads at home",
    }
}

static PROGRAMS: [Probe; 11] = [
    operation("homes_select_cpu", "select_cpu"),
    operation("homes_enqueue", "enqueue"),
    operation("homes_dispatch", "dispatch"),
    operation("homes_running", "running"),
    operation("homes_stopping", "stopping"),
    operation("homes_init_task", "init_task"),
    operation("homes_exit_task", "exit_task"),
    operation("homes_cpu_online", "cpu_online"),
    operation("homes_cpu_offline", "cpu_offline"),
    operation("homes_init", "init"),
    operation("homes_exit", "exit"),
];

// enum scx_ops_flags: a thread comes to `enqueue` also when it is alone on its CPU, when it exits,
// and while it must not migrate; idle CPUs are kept by node.
const ENQ_LAST: u64 = 1 << 1;
const ENQ_EXITING: u64 = 1 << 2;
const ENQ_MIGRATION_DISABLED: u64 = 1 << 4;
const IDLE_PER_NODE: u64 = 1 << 6;
const FLAGS: u64 = ENQ_LAST | ENQ_EXITING | ENQ_MIGRATION_DISABLED | IDLE_PER_NODE;

/// The kernel unloads the scheduler when a thread has waited for so long.
const TIMEOUT_MS: u32 = 10_000;

static TABLE: OperationTable = OperationTable {
    type_name: "sched_ext_ops",
    programs: &PROGRAMS,
    sleepable: &["init"],
    values: &[
        ("flags", &FLAGS.to_ne_bytes()),
        ("timeout_ms", &TIMEOUT_MS.to_ne_bytes()),
        ("name", HomesScheduler::NAME.as_bytes()),
    ],
};

/// The words of `struct end` in the program: a kind, and two texts.
const END_WORDS: usize = 1 + (REASON_BYTES + MESSAGE_BYTES) / 8;
const REASON_BYTES: usize = 128;
const MESSAGE_BYTES: usize = 1024;

/// What the scheduler did since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HomesCounts {
    /// Time that threads with a home ran there, in nanoseconds, when they stopped or their slice
    /// ended.
    pub at_home_ns: u64,
    /// That which they ran elsewhere.
    pub elsewhere_ns: u64,
    /// Threads that a CPU took from another node's queue because nobody had served that for long.
    pub overdue: u64,
    /// Threads that found no room in a map; they run in the order in which they come.
    pub unordered: u64,
}

impl HomesCounts {
    /// Adds up what each CPU has in its map.
    pub fn of(cpus: &[[u64; 4]]) -> Self {
        let sum = |at: usize| cpus.iter().map(|cpu| cpu[at]).fold(0, u64::saturating_add);
        Self { at_home_ns: sum(0), elsewhere_ns: sum(1), overdue: sum(2), unordered: sum(3) }
    }
}

/// Why the kernel unloaded a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerEnd {
    /// In the kernel's words.
    pub reason: Vec<u8>,
    /// What it says besides, which may hold names of programs.
    pub message: Vec<u8>,
}

impl SchedulerEnd {
    /// Reads `struct end`; `None` while the scheduler is loaded.
    pub fn of(words: &[u64; END_WORDS]) -> Option<Self> {
        let (kind, texts) = words.split_first()?;
        let bytes: Vec<u8> = texts.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let text = |bytes: &[u8]| bytes.split(|byte| *byte == 0).next().unwrap_or(&[]).to_vec();
        let (reason, message) = bytes.split_at(REASON_BYTES);
        (*kind != 0).then(|| Self { reason: text(reason), message: text(message) })
    }
}

/// Whether a thread's home could be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It could.
    Yes,
    /// The map is full: the thread runs as one without a home.
    NoRoom,
}

/// The scheduler, which has all threads of the machine that have no real-time policy until this is
/// dropped, or the process ends, or the kernel unloads it.
pub struct HomesScheduler {
    table: LoadedTable,
}

impl HomesScheduler {
    /// Its name in /sys/kernel/sched_ext/root/ops.
    pub const NAME: &'static str = "nodeward_homes";
    /// Nodes have smaller numbers.
    pub const NODES_MAX: u32 = 64;

    /// Loads it, on the machine whose files are below `root`. No thread has a home yet.
    ///
    /// # Errors
    ///
    /// The kernel has no sched_ext, lacks what the scheduler needs, or refuses it.
    pub fn load(root: &Path) -> Result<Self, Unavailable> {
        Ok(Self { table: LoadedTable::load(OBJECT, &TABLE, root)? })
    }

    /// Sets the nodes where a thread is at home, as bits; not 0.
    ///
    /// # Errors
    ///
    /// The map cannot be written.
    pub fn set_home(&mut self, tid: u32, nodes: u64) -> Result<Entered, MapError> {
        let mut homes = HashMap::<_, u32, u64>::try_from(self.table.map_mut("homes"))?;
        match homes.insert(tid, nodes, 0) {
            Ok(()) => Ok(Entered::Yes),
            Err(MapError::SyscallError(error)) if is_full(&error.io_error) => Ok(Entered::NoRoom),
            Err(error) => Err(error),
        }
    }

    /// Lets a thread run anywhere. A thread that ended needs no call.
    ///
    /// # Errors
    ///
    /// The map cannot be written.
    pub fn forget(&mut self, tid: u32) -> Result<(), MapError> {
        let mut homes = HashMap::<_, u32, u64>::try_from(self.table.map_mut("homes"))?;
        match homes.remove(&tid) {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sets the nodes, as bits, where only threads run that are at home there.
    ///
    /// # Errors
    ///
    /// The map cannot be written.
    pub fn avoid(&mut self, nodes: u64) -> Result<(), MapError> {
        Array::<_, u64>::try_from(self.table.map_mut("avoided"))?.set(0, nodes, 0)
    }

    /// Returns what it did so far.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    pub fn counts(&self) -> Result<HomesCounts, MapError> {
        let counted = PerCpuArray::<_, [u64; 4]>::try_from(self.table.map("counted"))?;
        Ok(HomesCounts::of(&counted.get(&0, 0)?))
    }

    /// Returns why the kernel unloaded it, if it did.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    pub fn end(&self) -> Result<Option<SchedulerEnd>, MapError> {
        let ended = Array::<_, [u64; END_WORDS]>::try_from(self.table.map("ended"))?;
        Ok(SchedulerEnd::of(&ended.get(&0, 0)?))
    }
}

fn is_full(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the counts of all CPUs add up, each in its place.
    #[test]
    fn counts_of_cpus_add_up() {
        let expected = HomesCounts { at_home_ns: 11, elsewhere_ns: 22, overdue: 33, unordered: 44 };
        assert_eq!(HomesCounts::of(&[[1, 2, 3, 4], [10, 20, 30, 40]]), expected);
        assert_eq!(HomesCounts::of(&[]), HomesCounts::default());
    }

    /// Goal: while the kind is 0 there is no end; then both texts are read up to their zeros, or as
    /// far as there is room.
    #[test]
    fn an_end_has_two_texts() {
        let mut words = [0; END_WORDS];
        assert_eq!(SchedulerEnd::of(&words), None);
        words[0] = 64;
        words[1] = u64::from_ne_bytes(*b"watchdog");
        words[1 + REASON_BYTES / 8..].fill(u64::from_ne_bytes(*b"stalled "));
        let end = SchedulerEnd::of(&words).unwrap();
        assert_eq!((end.reason, end.message), (b"watchdog".to_vec(), b"stalled ".repeat(128)));
    }

    /// Goal: the table has each program of the object, under the name of its operation.
    #[test]
    fn each_program_has_its_operation() {
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        let mut programs: Vec<_> = object.programs.keys().map(String::as_str).collect();
        programs.sort_unstable();
        let mut listed: Vec<_> = PROGRAMS.iter().map(|probe| probe.program).collect();
        listed.sort_unstable();
        assert_eq!(programs, listed);
        for Probe { program, at, .. } in &PROGRAMS {
            let operation = program.strip_prefix("homes_").unwrap();
            assert!(matches!(at, Attachment::Operation(name) if *name == operation), "{program}");
        }
    }

    /// Goal: a kernel without sched_ext is named as such; so is one that does not tell its types.
    #[test]
    fn kernels_without_sched_ext_are_told() {
        let root = tempfile::tempdir().unwrap();
        let told = || HomesScheduler::load(root.path()).err().unwrap().to_string();
        assert!(told().contains("no BTF"), "{}", told());
        let types = root.path().join("sys/kernel/btf");
        std::fs::create_dir_all(&types).unwrap();
        std::fs::write(types.join("vmlinux"), aya_obj::btf::Btf::new().to_bytes()).unwrap();
        assert!(told().contains("no sched_ext (Linux 6.12"), "{}", told());
    }

    /// Goal: the name leaves room for a zero in the kernel's field of 128 bytes.
    #[test]
    fn the_name_fits() {
        assert!(HomesScheduler::NAME.len() < 128);
    }
}
