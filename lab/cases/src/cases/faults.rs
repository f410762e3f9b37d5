//! Pages that cannot move to the requested node.

use nodeward_model::SkipReason;
use rustix::process::Signal;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{Cpuset, UNPRIVILEGED_USER, write};
use crate::load::LoadProcess;
use crate::nodeward::{MoveJson, RunningMove, move_load, move_load_as, skip_counts};

pub const CASES: [(&str, CaseFn); 8] = [
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
fn destination_full() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 128MiB --pause 1ms");
    let report =
        move_load(&load, &format!("0 1 --range {}", load.ready.range)).report_after_exit(1);
    println!("destination full: {:?}", report.account);
    let left = report.account.skipped_for(SkipReason::NoMemory);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::NoMemory, left)]));
    assert!(left > 0 && report.account.moved > 0, "{report:?}");
    assert_eq!(report.account.selected(), load.ready.pages);
    assert_eq!(report.processes[0].after()[&0], left, "{report:?}");
    assert!(load.memory_by_node()[&0] >= left);
    huge_pages_have_no_room()?;
    load.end();
    Ok(())
}

/// On the node that is now full there is no pool, and hardly memory to make a huge page from.
fn huge_pages_have_no_room() -> CaseOutcome {
    let pages = super::kinds_special::HUGE_PAGES;
    let load = super::kinds_special::hugetlb_load()?;
    let output = move_load(&load, "0 1 --only huge");
    let report: MoveJson = output.json();
    let by_node = load.memory_by_node();
    super::files_special::check_huge_pages_left(&report.account, &output, &by_node);
    assert_eq!(report.account.selected(), pages * 512);
    load.end();
    super::files_special::huge_pages_have_no_room()
}

/// Goal: exactly the pinned pages stay, however many, and all others move; of a mapping that is
/// pinned as a whole, here 256 pages, only the first 64 are tried if that is wanted.
fn pinned() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 16MiB --pin 300");
    assert_eq!(load.ready.pinned, 300);
    let before = load.memory_by_node();
    let report = move_load(&load, "0 1 --only anonymous").report_after_exit(1);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::Pinned, 300)]));
    let moved = before[&0] - 300;
    assert!(report.account.moved >= moved, "{report:?} of {before:?}");
    assert_eq!(load.memory_by_node()[&0], 300);
    load.end();
    let load = LoadProcess::start("--node 0 --size 1MiB --threads 0 --pin 256");
    let words = format!("0 1 --range {} --skip-pinned", load.ready.range);
    let report = move_load(&load, &words).report_after_exit(3);
    let expected = [(SkipReason::Pinned, 64), (SkipReason::PinnedUntried, 192)];
    assert_eq!(report.account.skipped, skip_counts(expected));
    load.end();
    Ok(())
}

/// Goal: pages that a child also maps stay without the privilege, each reported as shared.
fn shared_without_privilege() -> CaseOutcome {
    let load =
        LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --size 8MiB --fork 1 --threads 0");
    let before = load.memory_by_node();
    let words = format!("0 1 --range {}", load.ready.range);
    let report = move_load_as(UNPRIVILEGED_USER, &load, &words).report_after_exit(3);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::Shared, load.ready.pages)]));
    assert_eq!(load.memory_by_node(), before);
    load.end();
    Ok(())
}

/// Goal: with the privilege they move, for the child as well.
fn shared_with_privilege() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB --fork 1 --threads 0");
    let report =
        move_load(&load, &format!("0 1 --range {}", load.ready.range)).report_after_exit(0);
    assert_eq!(report.account.moved, load.ready.pages);
    let child = crate::numa_maps::pages_within(load.ready.children[0], &load.range());
    assert!(child.get(&1).is_some_and(|&pages| pages >= load.ready.pages), "{child:?}");
    assert_eq!(child.get(&0), None, "{child:?}");
    load.end();
    Ok(())
}

/// Goal: a destination outside the target's cpuset is reported as such, and nothing moves.
fn cpuset_forbids() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB");
    Cpuset::new("only-node-0", "0")?.add_process(load.pid());
    load.stop();
    let before = load.pages_by_node();
    // Linux 5.10 leaves cached pages of the program where they are when a process is put into a
    // cpuset. They are on the destination then, so something is done.
    let code = if before.contains_key(&1) { 1 } else { 3 };
    let report = move_load(&load, "0 1").report_after_exit(code);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::NotAllowed, before[&0])]));
    assert_eq!(load.pages_by_node(), before);
    load.signal(Signal::CONT);
    load.end();
    Ok(())
}

/// Goal: node strings are relative to our own cpuset, as for numactl; a node outside is bad input.
fn outside_our_cpuset() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 2MiB");
    let ours = Cpuset::new("ours-is-node-0", "0")?;
    ours.add_process(std::process::id());
    let finished = move_load(&load, "0 1");
    write("/sys/fs/cgroup/cgroup.procs", "0");
    finished.assert_refused(2, &["TO is '1'", "cpuset.mems"]);
    load.end();
    Ok(())
}

/// Goal: a stopped process is moved like any other, and continues afterwards.
fn stopped_target() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB");
    load.stop();
    let before = load.pages_by_node();
    let report = move_load(&load, "0 1").report_after_exit(0);
    assert_eq!(report.account.moved, before[&0]);
    assert_eq!(load.pages_by_node().get(&0), None);
    load.signal(Signal::CONT);
    load.end();
    Ok(())
}

/// Goal: Ctrl-C ends the move between two calls; done or not, every page is accounted for.
fn interrupted() -> CaseOutcome {
    for signal in [Signal::INT, Signal::TERM] {
        let load = LoadProcess::start("--node 0 --size 32MiB");
        let before = load.memory_by_node();
        let words = format!("0 1 --range {} --rate 2MiB/s", load.ready.range);
        let underway = RunningMove::start(&load, &words);
        load.wait_for_arrivals();
        underway.signal(signal);
        let report = underway.finish().report_after_exit(130);
        assert!(report.interrupted);
        let left = report.account.skipped_for(SkipReason::Interrupted);
        assert_eq!(report.account.skipped, skip_counts([(SkipReason::Interrupted, left)]));
        assert!(report.account.moved > 0 && left > 0, "{report:?}");
        assert_eq!(report.account.selected(), load.ready.pages);
        assert_eq!(load.memory_by_node()[&0], left + before[&0] - load.ready.pages);
        load.end();
    }
    Ok(())
}
