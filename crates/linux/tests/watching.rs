//! Runs the bodies about samples and nudges that every machine must pass on this kernel: this
//! process is watched, and one of its threads is nudged.

use nodeward_linux::Linux;
use nodeward_linux::interference::TestThread;
use nodeward_machine::Machine;
use nodeward_machine::conformance::watch::{ALL, WatchFixture, two_cpu_sets};
use nodeward_model::Pid;

/// Goal: this kernel behaves as the simulated machine and the fake one. On one node the thread is
/// nudged from CPU to CPU.
#[test]
fn this_kernel_conforms() {
    let machine = Linux::open();
    let Some(sets) = two_cpu_sets(&machine) else {
        return eprintln!("skipped: this takes two CPUs");
    };
    let worker = TestThread::start(true).unwrap();
    let fixture = WatchFixture {
        machine: &machine,
        pid: Pid::new(std::process::id()).unwrap(),
        name: std::fs::read("/proc/self/comm").unwrap().trim_ascii_end().into(),
        busy_tid: worker.tid,
        cpu_sets: sets,
        non_file_bytes_min: machine.page_bytes(),
    };
    for (name, body) in ALL {
        println!("body {name}");
        body(&fixture);
    }
}
