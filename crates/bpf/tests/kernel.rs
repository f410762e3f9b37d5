//! Loads programs into the kernel of this machine, where that is permitted.

use std::path::Path;

use nodeward_bpf::migrations::MigrationCounter;
use nodeward_bpf::{Absence, Absent, Attachment, Probe, ProgramSet};

use permission::loaded;

mod permission;

const FAULTS: &[u8] = aya::include_bytes_aligned!("../objects/faults.o");

const NOWHERE: Probe = Probe {
    program: "nowhere",
    at: Attachment::Tracepoint("nodeward_nowhere"),
    tells: "what no kernel tells",
};
const OUTSIDE: Probe = Probe {
    program: "outside",
    at: Attachment::Tracepoint("mm_migrate_pages"),
    tells: "what may not be read",
};
static PROBES: [Probe; 2] = [NOWHERE, OUTSIDE];

/// Goal: a tracepoint that the kernel lacks and a program that it refuses disable themselves only,
/// each with its own reason, and the refusal keeps what the verifier said.
#[test]
fn what_the_kernel_lacks_or_refuses_is_named() {
    let Some(programs) = loaded(ProgramSet::load(FAULTS, &PROBES, &[], Path::new("/"))) else {
        return;
    };
    let [nowhere, outside] = programs.absent() else { panic!("{:?}", programs.absent()) };
    assert_eq!(nowhere.probe, &NOWHERE);
    assert!(matches!(nowhere.why, Absence::Unknown), "{nowhere:?}");
    assert_eq!(outside.probe, &OUTSIDE);
    let Absence::Refused { log, .. } = &outside.why else { panic!("{outside:?}") };
    assert!(log.contains("invalid mem access"), "{log}");
}

/// Goal: this kernel has the tracepoints of migrations and accepts the programs, and their maps can
/// be read.
#[test]
fn the_programs_of_migrations_run_on_this_kernel() {
    let Some(counter) = loaded(MigrationCounter::start(Path::new("/"), &[])) else { return };
    // Linux 5.10 does not tell for how long pages are held.
    let is_unknown = |absent: &Absent| matches!(absent.why, Absence::Unknown);
    assert!(counter.absent().iter().all(is_unknown), "{:?}", counter.absent());
    assert_eq!(counter.read().unwrap().lost.callers, 0);
}
