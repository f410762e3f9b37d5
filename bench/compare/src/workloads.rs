//! The workloads, as data. The machine is `two-nodes`: two nodes of one CPU and 2 GiB each.
//!
//! Tasks have four threads, twice as many as CPUs, in processes that use one CPU each and have at
//! least 400 MB each: numad ignores smaller ones.

use nodeward_model::NodeId;
use nodeward_runner::TaskSpec;

/// Memory of each process in a sequence of short ones.
const SHORT_SIZE: &str = "8MiB";
/// Number of short processes that equal one pass.
const SHORT_PER_PASS: u64 = 4;
/// More memory than a node has.
const LARGE_BYTES: u64 = 2304 << 20;

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct LabWorkload {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description, in a sentence.
    pub about: &'static str,
    tasks: fn(WorkloadSize) -> Vec<TaskSpec>,
}

#[derive(Clone, Copy)]
struct WorkloadSize {
    bytes: u64,
    passes: u64,
}

impl LabWorkload {
    /// Returns its tasks, with this memory per process and number of passes. Workloads that go
    /// through more or less memory per pass than the first one make correspondingly fewer or more
    /// passes. Each task is counted in a slot of its own.
    pub fn tasks(&self, bytes: u64, passes: u64) -> Vec<TaskSpec> {
        let mut tasks = (self.tasks)(WorkloadSize { bytes, passes });
        for (slot, task) in (1..).zip(&mut tasks) {
            task.command.extend(words(&format!("--slot {slot}")));
        }
        tasks
    }
}

/// All workloads.
pub fn workloads() -> Vec<LabWorkload> {
    vec![
        LabWorkload {
            name: "crossed",
            about: "two processes of two streams, the memory of each on the other's node",
            tasks: |size| vec![stream(size, 0, "1"), stream(size, 1, "0")],
        },
        LabWorkload {
            name: "one-side",
            about: "two processes of two streams, all memory on node 0",
            tasks: |size| vec![stream(size, 0, "0"), stream(size, 1, "0")],
        },
        LabWorkload {
            name: "split",
            about: "two processes of two streams, the memory of each half on either node",
            tasks: |size| vec![stream(size, 0, "0,1"), stream(size, 1, "0,1")],
        },
        LabWorkload {
            name: "shared",
            about: "one process of four threads that all read all of its memory",
            tasks: shared,
        },
        LabWorkload {
            name: "sides",
            about: "two processes of two streams at home, which work in turns of 2 s",
            tasks: sides,
        },
        LabWorkload {
            name: "short",
            about: "four rows of short tasks, one after the other in each",
            tasks: short,
        },
        LabWorkload {
            name: "large",
            about: "one process of two streams that is larger than a node",
            tasks: large,
        },
        LabWorkload {
            name: "crowded",
            about: "six processes of a stream that leave little room, half of each on either node",
            tasks: crowded,
        },
        LabWorkload {
            name: "wide",
            about: "one process wider than a node: four threads with pages scattered all over its \
                    memory, which lies on node 0",
            tasks: wide,
        },
        LabWorkload {
            name: "bound",
            about: "one process wider than a node whose four threads stay on their CPUs: pages of \
                    each are scattered all over its memory, which lies half on either node (2004)",
            tasks: bound,
        },
        LabWorkload {
            name: "parts",
            about: "one process wider than a node whose four threads stay on their CPUs: each has \
                    its own part of the memory, all of which lies on node 0",
            tasks: |size| parts(size, "share"),
        },
        LabWorkload {
            name: "parts-read",
            about: "the same, but the threads only read",
            tasks: |size| parts(size, "read-share"),
        },
    ]
}

/// Returns a process of two streams that begins on a node. By hand its threads and its memory stay
/// there.
fn stream(size: WorkloadSize, starts_on: u32, nodes: &str) -> TaskSpec {
    let WorkloadSize { bytes, passes } = size;
    let line = format!("--size {bytes} --threads 2 --passes {passes} --nodes {nodes} --wait");
    TaskSpec { start_node: Some(NodeId(starts_on)), ..task(&line, &format!("--homes {starts_on}")) }
}

fn sides(size: WorkloadSize) -> Vec<TaskSpec> {
    let side = |node: u32, odd: &str| {
        let mut task = stream(size, node, &node.to_string());
        task.command.extend(words(&format!("--turn 2s {odd}")));
        task
    };
    vec![side(0, ""), side(1, "--odd")]
}

/// Each thread goes through all memory: four times the memory per pass, where the streams of two
/// processes go through twice that of one.
fn shared(WorkloadSize { bytes, passes }: WorkloadSize) -> Vec<TaskSpec> {
    let passes = passes.div_ceil(2);
    let line =
        format!("--size {bytes} --threads 4 --passes {passes} --part all --nodes 0,1 --wait");
    vec![task(&line, "--homes 0,1")]
}

/// As much memory as two processes of the others have, so that a pass is as long. Its accesses are
/// also counted by frame: these counts can replace those of a machine's own counters.
fn wide(WorkloadSize { bytes, passes }: WorkloadSize) -> Vec<TaskSpec> {
    let bytes = bytes * 2;
    let line =
        format!("--size {bytes} --threads 4 --passes {passes} --part scattered --nodes 0 --wait");
    let line = line + " --by-frame";
    vec![task(&line, "--homes 0,1")]
}

/// The program of Menyhart's page migration: threads that bind themselves, and memory interleaved
/// over the nodes. By hand each thread also has its pages on its node.
fn bound(WorkloadSize { bytes, passes }: WorkloadSize) -> Vec<TaskSpec> {
    let bytes = bytes * 2;
    let line = format!("--size {bytes} --threads 4 --passes {passes} --part scattered --wait");
    let line = line + " --nodes 0,1 --stay 0,1 --by-frame";
    vec![task(&line, "--homes 0,1")]
}

/// By hand the part of each thread comes from its node.
fn parts(WorkloadSize { bytes, passes }: WorkloadSize, part: &str) -> Vec<TaskSpec> {
    let bytes = bytes * 2;
    let line = format!("--size {bytes} --threads 4 --passes {passes} --part {part} --wait");
    let line = line + " --nodes 0 --stay 0,1 --by-frame";
    vec![task(&line, "--homes 0,1")]
}

fn large(WorkloadSize { bytes, passes }: WorkloadSize) -> Vec<TaskSpec> {
    let passes = (passes * bytes * 2).div_ceil(LARGE_BYTES);
    let line = format!("--size {LARGE_BYTES} --threads 2 --passes {passes} --nodes 0,1 --wait");
    vec![task(&line, "--homes 0,1")]
}

/// Three processes fill most of a node. A third of the passes of two processes is as much work.
fn crowded(WorkloadSize { bytes, passes }: WorkloadSize) -> Vec<TaskSpec> {
    let passes = passes.div_ceil(3);
    let line = format!("--size {bytes} --threads 1 --passes {passes} --nodes 0,1 --wait");
    let process = |number: u32| TaskSpec {
        start_node: Some(NodeId(number % 2)),
        ..task(&line, &format!("--homes {}", number % 2))
    };
    (0..6).map(process).collect()
}

/// Short processes, which cannot be placed by hand.
fn short(WorkloadSize { passes, .. }: WorkloadSize) -> Vec<TaskSpec> {
    let in_a_row = u32::try_from(passes * SHORT_PER_PASS).unwrap_or(u32::MAX);
    let row = TaskSpec {
        sequential_processes: in_a_row,
        ..task(&format!("--size {SHORT_SIZE} --passes 4"), "")
    };
    vec![row; 4]
}

fn task(line: &str, by_hand: &str) -> TaskSpec {
    let command = words(&format!("nodeward-stream {line}"));
    TaskSpec {
        command,
        start_node: None,
        manual_arguments: words(by_hand),
        sequential_processes: 0,
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(task: &TaskSpec, option: &str) -> u64 {
        let at = task.command.iter().position(|word| word == option).unwrap();
        task.command[at + 1].parse().unwrap()
    }

    fn work(task: &TaskSpec) -> u64 {
        value(task, "--size") * value(task, "--passes")
    }

    /// Goal: every workload has two to six threads, and a number of passes over its memory that
    /// gives the same amount of work.
    #[test]
    fn workloads_are_alike_in_size() {
        for workload in workloads().iter().filter(|workload| workload.name != "short") {
            let tasks = workload.tasks(512 << 20, 16);
            let threads: u64 = tasks.iter().map(|task| value(task, "--threads")).sum();
            assert!((2..=6).contains(&threads), "{}", workload.name);
            let work: u64 = tasks.iter().map(work).sum();
            let times = if workload.name == "shared" { 4 } else { 1 };
            // Two processes of 512 MiB, 16 passes: 16 GiB. Passes are whole, so it may be more: by
            // one over 2304 MiB, or by a third of one (5.3 are 6) over six times 512 MiB.
            let whole = 16 << 30;
            assert!((whole..whole + LARGE_BYTES).contains(&(work * times)), "{}", workload.name);
        }
    }

    /// Goal: a task that is placed by hand stays where it begins.
    #[test]
    fn hands_place_where_tasks_begin() {
        for name in ["crossed", "one-side", "split", "sides", "crowded"] {
            let workload = workloads().into_iter().find(|w| w.name == name).unwrap();
            for task in workload.tasks(1 << 20, 1) {
                let home = task.start_node.unwrap().to_string();
                assert_eq!(task.manual_arguments, ["--homes", &home], "{name}");
            }
        }
    }
}
