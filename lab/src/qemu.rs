//! Builds the hypervisor's command line for a machine. This is a pure function.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nodeward_lab_agent::protocol::PORT_NAME;

use crate::layout::CpuLayout;
use crate::scenario::LabMachine;

/// The program.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// CPU features: all but some. Five-level page tables (la57) only make walks longer here. After
/// cmpxchg16b (cx16) QEMU 7.2 sometimes shows an interrupt wrong flags, and the kernel, whose
/// allocator uses it all the time, crashes (2 of 8 boots of six CPUs; none of 6 without). With fast
/// string instructions (erms, fsrm) the kernel clears pages bytewise, which is emulated bytewise: a
/// move of 4 KiB pages took twice as long, one of huge pages up to ten times.
const CPU: &str = "max,-la57,-cx16,-erms,-fsrm";
/// The device name of that CPU, for slots that are filled one by one.
const CPU_DEVICE: &str = "max-x86_64-cpu";
/// Arguments of every guest kernel: report errors on the serial line, and end when it ends.
const KERNEL_ARGUMENTS: &str =
    "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable nokaslr rdinit=/init";
/// Above this number of CPUs a thread for each costs more than it gains, because they wait for each
/// other: they take turns.
pub const CPU_THREADS_MAX: u32 = 8;
/// The distance given for unused node ids; nothing reads it.
const DISTANCE_HOLE: u32 = 20;

/// The storage of the machine's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestMemory {
    /// In the hypervisor, freed with it.
    Private,
    /// In files of this directory, written through: they become a snapshot.
    Recorded(PathBuf),
    /// In those files, read-only: the guest's writes are private.
    Restored(PathBuf),
}

/// A machine to start.
#[derive(Debug, Clone)]
pub struct QemuMachine<'a> {
    /// The nodes and CPUs.
    pub scenario: &'a LabMachine,
    /// The kernel image.
    pub kernel: &'a Path,
    /// The initial root file system.
    pub initramfs: &'a Path,
    /// Further arguments for the kernel.
    pub append: &'a str,
    /// The storage of the memory.
    pub memory: GuestMemory,
    /// Whether the host allocates all memory before the machine starts.
    pub populate: bool,
    /// Whether one thread of the host emulates all CPUs in turns.
    pub take_turns: bool,
    /// The counter of accesses, if any.
    pub counter: Option<&'a CounterPlugin>,
}

/// A counter for a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterPlugin {
    /// The plugin.
    pub plugin: PathBuf,
    /// The file that it writes; the guest sees it as the memory of a device.
    pub file: PathBuf,
    /// The length of the file.
    pub bytes: u64,
}

/// Returns the file of one node's memory in a snapshot's directory.
pub fn memory_file(dir: &Path, node: u32) -> PathBuf {
    dir.join(format!("node{node}.ram"))
}

/// Returns all arguments. Descriptor 0 is the guest's serial port, 1 the monitor, 2 the log.
pub fn command_line(machine: &QemuMachine) -> Result<Vec<OsString>> {
    let layout = CpuLayout::of(machine.scenario)?;
    let mut line = CommandLine::default();
    line.add_words("-nodefaults -no-user-config -display none -no-reboot -machine pc");
    line.add("-accel", accelerator(machine));
    line.add("-cpu", CPU);
    line.add("-m", format!("{}k", machine.scenario.memory_bytes() >> 10));
    processors(&mut line, &layout);
    nodes(&mut line, machine, &layout);
    distances(&mut line, machine.scenario);
    boot(&mut line, machine);
    chardevs(&mut line);
    if let Some(counted) = machine.counter {
        counter_options(&mut line, counted);
    }
    if matches!(machine.memory, GuestMemory::Restored(_)) {
        line.add_words("-incoming defer");
    }
    Ok(line.0)
}

#[derive(Default)]
struct CommandLine(Vec<OsString>);

impl CommandLine {
    fn add(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.push(option.into());
        self.0.push(value.into());
    }

    fn add_words(&mut self, words: &str) {
        self.0.extend(words.split_whitespace().map(OsString::from));
    }
}

fn accelerator(machine: &QemuMachine) -> &'static str {
    let take_turns = machine.take_turns || machine.scenario.cpu_count() > CPU_THREADS_MAX;
    if take_turns { "tcg,thread=single" } else { "tcg,thread=multi" }
}

/// With empty slots only the first CPU is present from the start; the others are plugged into their
/// slots.
fn processors(line: &mut CommandLine, layout: &CpuLayout) {
    let (slots, cores) = (layout.slots.len(), layout.cores_per_socket);
    let present = if layout.is_full() { slots } else { 1 };
    let sockets = layout.sockets();
    line.add(
        "-smp",
        format!("{present},maxcpus={slots},sockets={sockets},cores={cores},threads=1"),
    );
    let filled = (0u32..).zip(&layout.slots).filter(|(_, slot)| slot.filled);
    for (index, _) in filled.skip(present) {
        let (socket, core) = (index / cores, index % cores);
        line.add("-device", format!("{CPU_DEVICE},socket-id={socket},core-id={core},thread-id=0"));
    }
}

fn nodes(line: &mut CommandLine, machine: &QemuMachine, layout: &CpuLayout) {
    let count = node_id_count(machine.scenario);
    for id in 0..count {
        let bytes = memory_of(machine.scenario, id);
        if bytes > 0 {
            line.add("-object", memory_object(machine, id, bytes));
            line.add("-numa", format!("node,nodeid={id},memdev=ram{id}"));
        } else {
            line.add("-numa", format!("node,nodeid={id}"));
        }
    }
    for (index, slot) in (0u32..).zip(&layout.slots) {
        let (socket, core) = (index / layout.cores_per_socket, index % layout.cores_per_socket);
        let node = slot.node;
        line.add(
            "-numa",
            format!("cpu,node-id={node},socket-id={socket},core-id={core},thread-id=0"),
        );
    }
}

fn node_id_count(scenario: &LabMachine) -> u32 {
    scenario.nodes.last().map_or(0, |node| node.id.0 + 1)
}

fn memory_of(scenario: &LabMachine, id: u32) -> u64 {
    let node = scenario.nodes.iter().find(|node| node.id.0 == id);
    node.map_or(0, |node| node.memory_bytes)
}

fn memory_object(machine: &QemuMachine, id: u32, bytes: u64) -> OsString {
    let populate = if machine.populate { ",prealloc=on,prealloc-threads=2" } else { "" };
    let what = format!("id=ram{id},size={bytes}{populate}");
    let (dir, share) = match &machine.memory {
        GuestMemory::Private => return format!("memory-backend-ram,{what}").into(),
        GuestMemory::Recorded(dir) => (dir, "on"),
        GuestMemory::Restored(dir) => (dir, "off"),
    };
    let start = format!("memory-backend-file,{what},share={share},mem-path=");
    path_option(start, &memory_file(dir, id))
}

/// Returns a value that contains a path, with its commas doubled.
fn path_option(start: String, path: &Path) -> OsString {
    let escaped = path.to_string_lossy().replace(',', ",,");
    (start + &escaped).into()
}

fn distances(line: &mut CommandLine, scenario: &LabMachine) {
    let ids = 0..node_id_count(scenario);
    for from in ids.clone() {
        for to in ids.clone().filter(|&to| to != from) {
            let value = distance(scenario, from, to);
            line.add("-numa", format!("dist,src={from},dst={to},val={value}"));
        }
    }
}

fn distance(scenario: &LabMachine, from: u32, to: u32) -> u32 {
    let place = |id| scenario.nodes.iter().position(|node| node.id.0 == id);
    match (place(from), place(to)) {
        (Some(from), Some(to)) => scenario.distances[from][to],
        _ => DISTANCE_HOLE,
    }
}

/// `nr_cpus` keeps the kernel from counting empty slots as future CPUs, and their nodes as online.
fn boot(line: &mut CommandLine, machine: &QemuMachine) {
    let cpus = machine.scenario.cpu_count();
    line.add("-kernel", machine.kernel);
    line.add("-initrd", machine.initramfs);
    line.add("-append", format!("{KERNEL_ARGUMENTS} nr_cpus={cpus} {}", machine.append));
}

/// The console and the hypervisor's own messages go to one log; the other two are sockets.
fn chardevs(line: &mut CommandLine) {
    line.add("-chardev", "file,id=log,path=/dev/fd/2,append=on");
    line.add("-serial", "chardev:log");
    line.add("-chardev", "socket,id=port,fd=0");
    line.add("-device", "virtio-serial-pci");
    line.add("-device", format!("virtserialport,chardev=port,name={PORT_NAME}"));
    line.add("-chardev", "socket,id=monitor,fd=1");
    line.add("-mon", "chardev=monitor,mode=control");
    line.add("-device", "vmgenid,guid=auto");
}

/// The counter comes last, so that the rest equals an uncounted machine: both start from the same
/// snapshot.
fn counter_options(line: &mut CommandLine, counted: &CounterPlugin) {
    let mut plugin = path_option(String::new(), &counted.plugin);
    plugin.push(path_option(",counts=".to_owned(), &counted.file));
    line.add("-plugin", plugin);
    let bytes = counted.bytes;
    let start = format!("memory-backend-file,id=counts,size={bytes},share=on,mem-path=");
    line.add("-object", path_option(start, &counted.file));
    line.add("-device", "ivshmem-plain,memdev=counts,master=on");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a machine that does nothing special.
    fn plain(scenario: &LabMachine) -> QemuMachine<'_> {
        QemuMachine {
            scenario,
            kernel: Path::new("/k"),
            initramfs: Path::new("/i"),
            append: "",
            memory: GuestMemory::Private,
            populate: false,
            take_turns: false,
            counter: None,
        }
    }

    /// Returns the options of a machine, one per line, that start with one of the words.
    fn options(name: &str, memory: GuestMemory, words: &[&str]) -> String {
        let scenario = &LabMachine::find(name).unwrap();
        let machine = QemuMachine { append: "more=1", memory, ..plain(scenario) };
        let arguments = command_line(&machine).unwrap();
        let text = arguments.join(&OsString::from(" ")).into_string().unwrap();
        let lines = text.split(" -").filter(|line| words.iter().any(|w| line.starts_with(w)));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn two_nodes() {
        let told =
            options("two-nodes", GuestMemory::Private, &["m ", "smp", "obj", "numa", "append"]);
        assert_eq!(
            told,
            "m 4194304k\n\
             smp 2,maxcpus=2,sockets=2,cores=1,threads=1\n\
             object memory-backend-ram,id=ram0,size=2147483648\n\
             numa node,nodeid=0,memdev=ram0\n\
             object memory-backend-ram,id=ram1,size=2147483648\n\
             numa node,nodeid=1,memdev=ram1\n\
             numa cpu,node-id=0,socket-id=0,core-id=0,thread-id=0\n\
             numa cpu,node-id=1,socket-id=1,core-id=0,thread-id=0\n\
             numa dist,src=0,dst=1,val=21\n\
             numa dist,src=1,dst=0,val=21\n\
             append console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable nokaslr rdinit=/init \
             nr_cpus=2 more=1"
        );
    }

    #[test]
    fn a_hole_is_an_empty_slot() {
        let told =
            options("four-nodes-hole", GuestMemory::Private, &["smp", "numa node", "device max"]);
        assert_eq!(
            told,
            "smp 1,maxcpus=5,sockets=5,cores=1,threads=1\n\
             device max-x86_64-cpu,socket-id=1,core-id=0,thread-id=0\n\
             device max-x86_64-cpu,socket-id=3,core-id=0,thread-id=0\n\
             device max-x86_64-cpu,socket-id=4,core-id=0,thread-id=0\n\
             numa node,nodeid=0,memdev=ram0\n\
             numa node,nodeid=1,memdev=ram1\n\
             numa node,nodeid=2\n\
             numa node,nodeid=3,memdev=ram3\n\
             numa node,nodeid=4,memdev=ram4"
        );
    }

    #[test]
    fn distances_keep_their_direction() {
        let told =
            options("asymmetric", GuestMemory::Private, &["numa dist,src=0", "numa dist,src=2"]);
        assert_eq!(
            told,
            "numa dist,src=0,dst=1,val=20\nnuma dist,src=0,dst=2,val=30\n\
             numa dist,src=2,dst=0,val=35\nnuma dist,src=2,dst=1,val=25"
        );
    }

    /// Goal: a counted machine is the same machine with more options at the end.
    #[test]
    fn a_counter_comes_last() {
        let scenario = &LabMachine::find("two-nodes").unwrap();
        let counted = CounterPlugin { plugin: "/p,q".into(), file: "/c".into(), bytes: 1 << 20 };
        let plain = plain(scenario);
        let with = QemuMachine { counter: Some(&counted), ..plain.clone() };
        let (plain, with) = (command_line(&plain).unwrap(), command_line(&with).unwrap());
        assert_eq!(with[..plain.len()], plain);
        let more = with[plain.len()..].join(&OsString::from(" ")).into_string().unwrap();
        assert_eq!(
            more,
            "-plugin /p,,q,counts=/c \
             -object memory-backend-file,id=counts,size=1048576,share=on,mem-path=/c \
             -device ivshmem-plain,memdev=counts,master=on"
        );
    }

    /// Goal: a machine with preallocated memory differs in nothing else, nor does one whose CPUs
    /// take turns.
    #[test]
    fn memory_may_be_there_first() {
        let scenario = &LabMachine::find("two-nodes").unwrap();
        let told = |populate, take_turns| {
            let memory = GuestMemory::Restored("/d".into());
            let machine = QemuMachine { memory, populate, take_turns, ..plain(scenario) };
            command_line(&machine).unwrap().join(&OsString::from(" ")).into_string().unwrap()
        };
        let populated = told(true, false);
        assert_eq!(populated.matches(",prealloc=on,prealloc-threads=2").count(), 2, "of two nodes");
        assert_eq!(populated.replace(",prealloc=on,prealloc-threads=2", ""), told(false, false));
        let turns = told(false, true);
        assert_eq!(turns.replace("thread=single", "thread=multi"), told(false, false));
    }

    #[test]
    fn snapshots_are_written_once_and_read_after() {
        let dir = || PathBuf::from("/a,b");
        let words = ["object", "incoming"];
        let made = options("memoryless", GuestMemory::Recorded(dir()), &words);
        assert_eq!(
            made,
            "object memory-backend-file,id=ram0,size=1073741824,share=on,\
             mem-path=/a,,b/node0.ram\n\
             object memory-backend-file,id=ram2,size=1073741824,share=on,\
             mem-path=/a,,b/node2.ram"
        );
        let used = options("memoryless", GuestMemory::Restored(dir()), &words);
        assert_eq!(used, made.replace("share=on", "share=off") + "\nincoming defer");
    }
}
