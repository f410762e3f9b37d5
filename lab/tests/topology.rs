//! The machine that a guest sees is the machine that the scenario describes.

use std::fmt::Write;
use std::time::Duration;

use nodeward_lab::scenario::{LabMachine, SMALL};
use nodeward_lab::{GuestKernel, GuestRun, is_every_kernel_wanted, open_for_test, scenario};

/// Prints, for each node online: its id, its CPUs, its distances, whether it has memory.
const SURVEY: &str = "cd /sys/devices/system/node; echo online $(cat online); \
    for id in $(ls | sed -n 's/^node\\([0-9]*\\)$/\\1/p' | sort -n); do \
    kb=$(sed -n 's/.*MemTotal: *\\([0-9]*\\) kB/\\1/p' node$id/meminfo); \
    echo $id cpus $(cat node$id/cpulist) distances $(cat node$id/distance) \
    memory $((kb > 0)); done";

/// Returns the expected output of the survey of a scenario's machine.
fn expected(scenario: &LabMachine) -> String {
    let ids: nodeward_model::Nodemask = scenario.nodes.iter().map(|node| node.id).collect();
    let mut text = format!("online {ids}\n");
    for (node, row) in scenario.nodes.iter().zip(&scenario.distances) {
        let cpus = node.cpus.to_string();
        let cpus = if cpus.is_empty() { String::new() } else { format!("{cpus} ") };
        let row: Vec<String> = row.iter().map(u32::to_string).collect();
        let memory = u8::from(node.memory_bytes > 0);
        let row = row.join(" ");
        writeln!(text, "{} cpus {cpus}distances {row} memory {memory}", node.id).unwrap();
    }
    text
}

fn check(kernel: GuestKernel, name: &str) {
    let Some(lab) = open_for_test(&kernel) else { return };
    let timeout = Duration::from_secs(300);
    // Most of these machines are used once: a snapshot would take longer than it saves.
    let survey = GuestRun::shell(scenario(name), SURVEY);
    let run = GuestRun { kernel, timeout, cold: true, take_turns: true, ..survey };
    let finished = lab.run(&run).unwrap();
    assert_eq!(String::from_utf8_lossy(&finished.stderr), "", "{name}");
    assert_eq!(String::from_utf8_lossy(&finished.stdout), expected(&run.scenario), "{name}");
    assert_eq!(finished.code, 0, "{name}");
}

/// The machines whose nodes Linux may number or describe in another way than others.
const ODD: [&str; 2] = ["cpuless", "four-nodes-hole"];

#[test]
fn every_scenario_is_what_linux_sees() {
    let names = if is_every_kernel_wanted() { &SMALL[..] } else { &ODD };
    for name in names {
        check(GuestKernel::V6_12, name);
    }
}

#[test]
fn two_nodes_on_every_other_kernel() {
    if !is_every_kernel_wanted() {
        return;
    }
    check(GuestKernel::V6_1, "two-nodes");
    check(GuestKernel::Newest, "two-nodes");
}

/// The hole and the node without CPUs depend on how Linux numbers nodes; other kernels have to
/// agree.
#[test]
fn odd_machines_on_other_kernels() {
    if !is_every_kernel_wanted() {
        return;
    }
    check(GuestKernel::V6_1, "cpuless");
    check(GuestKernel::Newest, "cpuless");
    check(GuestKernel::Newest, "four-nodes-hole");
}

/// It would hang; the lab refuses it at once.
#[test]
fn a_hole_is_refused_on_6_1() {
    let Some(lab) = open_for_test(&GuestKernel::V6_1) else { return };
    let run = GuestRun {
        kernel: GuestKernel::V6_1,
        ..GuestRun::shell(scenario("four-nodes-hole"), "true")
    };
    let why = lab.run(&run).unwrap_err().to_string();
    assert!(why.contains("use --kernel 6.12 or newest"), "{why}");
}
