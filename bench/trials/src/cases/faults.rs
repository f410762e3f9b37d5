//! Pages that cannot move to the requested node.

use nodeward_model::SkipReason;
use rustix::process::Signal;

use crate::guest::{Cpuset, SOMEBODY, write};
use crate::load::Load;
use crate::nodeward::{Underway, move_load, move_load_as, reasons};
use crate::{Body, Ran};

pub const CASES: [(&str, Body); 8] = [
    ("destination_full", destination_full),
    ("pinned", pinned),
    ("shared_without_privilege", shared_without_privilege),
    ("shared_with_privilege", shared_with_privilege),
    ("cpuset_forbids", cpuset_forbids),
    ("outside_our_cpuset", outside_our_cpuset),
    ("stopped_target", stopped_target),
    ("interrupted", interrupted),
];

/// Goal: a node that fills up takes what it can, and the rest is reported. (Node 1 is small there.)
fn destination_full() -> Ran {
    let load = Load::start("--node 0 --size 128MiB --pause 1ms");
    let report = move_load(&load, &format!("0 1 --range {}", load.ready.range)).report(1);
    println!("destination full: {:?}", report.account);
    let left = report.account.skipped_for(SkipReason::NoMemory);
    assert_eq!(report.account.skipped, reasons([(SkipReason::NoMemory, left)]));
    assert!(left > 0 && report.account.moved > 0, "{report:?}");
    assert_eq!(report.account.selected(), load.ready.pages);
    assert_eq!(report.processes[0].after_pages[&0], left, "{report:?}");
    assert!(load.nodes_of_memory()[&0] >= left);
    huge_pages_have_no_room()?;
    load.done();
    Ok(())
}

/// On the node that is now full there is neither a pool nor memory to make a huge page from.
fn huge_pages_have_no_room() -> Ran {
    let pages = super::kinds_special::HUGE_PAGES;
    let load = super::kinds_special::hugetlb_load()?;
    let report = move_load(&load, "0 1 --only huge").report(3);
    assert_eq!(report.account.skipped, reasons([(SkipReason::NoHugePage, pages * 512)]));
    assert_eq!(load.nodes_of_memory(), [(0, pages * 512)].into());
    load.done();
    super::files_special::huge_pages_have_no_room()
}

/// Goal: exactly the pinned pages stay, however many, and all others move.
fn pinned() -> Ran {
    let load = Load::start("--node 0 --size 64MiB --pin 300");
    assert_eq!(load.ready.pinned, 300);
    let before = load.nodes_of_memory();
    let report = move_load(&load, "0 1 --only anonymous").report(1);
    assert_eq!(report.account.skipped, reasons([(SkipReason::Pinned, 300)]));
    let moved = before[&0] - 300;
    assert!(report.account.moved >= moved, "{report:?} of {before:?}");
    assert_eq!(load.nodes_of_memory()[&0], 300);
    load.done();
    Ok(())
}

/// Goal: pages that a child also maps stay without the privilege, each reported as shared.
fn shared_without_privilege() -> Ran {
    let load = Load::start_as(SOMEBODY, "--node 0 --size 8MiB --fork 1 --threads 0");
    let before = load.nodes_of_memory();
    let words = format!("0 1 --range {}", load.ready.range);
    let report = move_load_as(SOMEBODY, &load, &words).report(3);
    assert_eq!(report.account.skipped, reasons([(SkipReason::Shared, load.ready.pages)]));
    assert_eq!(load.nodes_of_memory(), before);
    load.done();
    Ok(())
}

/// Goal: with the privilege they move, for the child as well.
fn shared_with_privilege() -> Ran {
    let load = Load::start("--node 0 --size 8MiB --fork 1 --threads 0");
    let report = move_load(&load, &format!("0 1 --range {}", load.ready.range)).report(0);
    assert_eq!(report.account.moved, load.ready.pages);
    let child = crate::numa_maps::nodes_within(load.ready.children[0], &load.range());
    assert!(child.get(&1).is_some_and(|&pages| pages >= load.ready.pages), "{child:?}");
    assert_eq!(child.get(&0), None, "{child:?}");
    load.done();
    Ok(())
}

/// Goal: a destination outside the target's cpuset is reported as such, and nothing moves.
fn cpuset_forbids() -> Ran {
    let load = Load::start("--node 0 --size 8MiB");
    Cpuset::new("only-node-0", "0")?.take(load.pid());
    load.stop();
    let before = load.nodes();
    let report = move_load(&load, "0 1").report(3);
    assert_eq!(report.account.skipped, reasons([(SkipReason::NotAllowed, before[&0])]));
    assert_eq!(load.nodes(), before);
    load.signal(Signal::CONT);
    load.done();
    Ok(())
}

/// Goal: node strings are relative to our own cpuset, as for numactl; a node outside is bad input.
fn outside_our_cpuset() -> Ran {
    let load = Load::start("--node 0 --size 2MiB");
    let ours = Cpuset::new("ours-is-node-0", "0")?;
    ours.take(std::process::id());
    let finished = move_load(&load, "0 1");
    write("/sys/fs/cgroup/cgroup.procs", "0");
    finished.refused(2, &["TO is '1'", "cpuset.mems"]);
    load.done();
    Ok(())
}

/// Goal: a stopped process is moved like any other, and continues afterwards.
fn stopped_target() -> Ran {
    let load = Load::start("--node 0 --size 8MiB");
    load.stop();
    let before = load.nodes();
    let report = move_load(&load, "0 1").report(0);
    assert_eq!(report.account.moved, before[&0]);
    assert_eq!(load.nodes().get(&0), None);
    load.signal(Signal::CONT);
    load.done();
    Ok(())
}

/// Goal: Ctrl-C ends the move between two calls; done or not, every page is accounted for.
fn interrupted() -> Ran {
    for signal in [Signal::INT, Signal::TERM] {
        let load = Load::start("--node 0 --size 32MiB");
        let before = load.nodes_of_memory();
        let words = format!("0 1 --range {} --rate 2MiB/s", load.ready.range);
        let underway = Underway::start(&load, &words);
        load.wait_for_arrivals();
        underway.signal(signal);
        let report = underway.finish().report(130);
        assert!(report.interrupted);
        let left = report.account.skipped_for(SkipReason::Interrupted);
        assert_eq!(report.account.skipped, reasons([(SkipReason::Interrupted, left)]));
        assert!(report.account.moved > 0 && left > 0, "{report:?}");
        assert_eq!(report.account.selected(), load.ready.pages);
        assert_eq!(load.nodes_of_memory()[&0], left + before[&0] - load.ready.pages);
        load.done();
    }
    Ok(())
}
