//! The balancer's files: the ledger of moves, and the state from which the next one continues.

use std::sync::Arc;

use nodeward_balancer::{
    BalanceSettings, Balancer, Notice, Pin, RoundReport, STATE_VERSION, SavedState, Storage,
    read_state, state_file,
};
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{GroupHome, Name, NodeId, Page, ProcessFilter};
use nodeward_policy::placement::Home;
use nodeward_records::ledger::{LedgerStore, OperationState, StoreLimits};
use nodeward_records::state::StateFile;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::groups::{GroupCalls, call, key, part_of, range};
use crate::stage::*;

/// The files of a balancer in a directory.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn state(&self) -> StateFile {
        state_file(self.dir.path().join("balance.state"))
    }

    fn store(&self) -> LedgerStore {
        LedgerStore::new(self.dir.path().join("ledger"), StoreLimits::default())
    }

    fn storage(&self) -> Storage {
        Storage {
            state: Some(self.state()),
            ledger: Some(self.store()),
            unix_ms: || 1000,
            command: ["nodeward", "balance"].map(Name::from).into(),
            trouble_told: false,
        }
    }

    /// Creates a balancer that continues from these files.
    fn start(&self, fake: &Arc<FakeMachine>, settings: BalanceSettings) -> Balancer {
        let saved = read_state(&self.state()).unwrap();
        let machine = machine(fake);
        let mut balancer =
            Balancer::new(machine, &ProcessFilter::default(), settings, saved).unwrap();
        balancer.write_to(self.storage());
        balancer
    }
}

fn slow() -> BalanceSettings {
    BalanceSettings { process_budget_bytes_per_s: 4 << 20, ..BalanceSettings::default() }
}

/// Goal: a move over several rounds is one operation of the ledger, with its originator and its
/// reason.
#[test]
fn moves_are_in_the_ledger() {
    let (fake, place) = (with(fake_process([0, PAGES], 0, "0-3")), Place::new());
    let mut balancer = place.start(&fake, slow());
    rounds(&fake, &mut balancer, 20);
    drop(balancer);
    let [summary] = &place.store().list().unwrap()[..] else { panic!("one operation") };
    let outline = summary.outline.as_ref().unwrap();
    assert_eq!((outline.moved_pages, outline.open_pages), (PAGES, 0));
    assert_eq!(outline.header.processes[0].pid, pid(7));
    let why = outline.cause.as_ref().unwrap();
    assert_eq!((&*why.requested_by, &*why.reason), ("balance", "pays"));
    assert!(
        why.explanation.starts_with("4096 pages from node 1 to 0: saves "),
        "{}",
        why.explanation
    );
    let OperationState::Ended(end) = &outline.state else { panic!("{:?}", outline.state) };
    assert_eq!((end.account.moved, end.interrupted), (PAGES, false));
}

/// Goal: moves without effect are in no ledger and are not repeated for ever, though the memory
/// that cannot be moved grows all the time: by 2 MiB of 16 in the first second, to 13 times as much
/// in the end.
#[test]
fn moves_of_nothing_are_rare_and_in_no_ledger() {
    for pinned in [false, true] {
        let (fake, place) = (with(fake_process([0, 0], 0, "0-3")), Place::new());
        fake.update_process(pid(7), |fake_process| grow(fake_process, PAGES, pinned));
        let mut balancer = place.start(&fake, BalanceSettings::default());
        let mut tries = 0;
        for _ in 0..100 {
            let report = round(&fake, &mut balancer);
            assert_eq!(report.moved_pages, 0);
            let rows = report.processes.iter();
            tries += rows.filter(|row| row.done.outcome.is_some()).count();
            fake.update_process(pid(7), |fake_process| grow(fake_process, 512, pinned));
        }
        assert_eq!(place.store().list().unwrap().len(), 0, "pinned: {pinned}");
        // Five before it is given up, and as many each time when it has more than doubled since,
        // which it does log2(1 + 100 * 512 / 4096) = 3.75 times.
        assert!((1..=20).contains(&tries), "{tries}, pinned: {pinned}");
    }
}

/// Adds pages that stay on node 1, because they are pinned or shared.
fn grow(fake_process: &mut FakeProcess, pages: u64, pinned: bool) {
    let range = &mut fake_process.mappings[0].range;
    let first = range.end / 4096;
    range.end += pages * 4096;
    let page = Page { shared: !pinned, ..Page::on(NodeId(1)) };
    for number in first..first + pages {
        fake_process.pages.insert(number, page);
        if pinned {
            fake_process.pinned.insert(number);
        }
    }
}

/// Goal: after a kill in any round, the next balancer continues with the same numbers and homes,
/// and no page moves twice.
#[test]
fn a_killed_balancer_goes_on() {
    for killed_after in 1..16 {
        let (fake, place) = (with(fake_process([0, PAGES], 0, "0-3")), Place::new());
        let mut first = place.start(&fake, slow());
        let before = rounds(&fake, &mut first, killed_after);
        let saved = first.saved_state();
        // A kill runs no destructors.
        std::mem::forget(first);
        let mut second = place.start(&fake, slow());
        assert_eq!(second.saved_state(), saved, "after round {killed_after}");
        let after = rounds(&fake, &mut second, 60);
        assert_eq!(residency(&fake), [PAGES, 0], "after round {killed_after}");
        assert_eq!(moved(&before) + moved(&after), PAGES);
        let entity = |reports: &[RoundReport]| {
            let rows = reports.iter().flat_map(|report| &report.processes);
            rows.filter(|row| row.home.is_some()).map(|row| row.decision.entity).next_back()
        };
        if let Some(number) = entity(&before) {
            assert_eq!(entity(&after), Some(number), "after round {killed_after}");
        }
    }
}

/// Goal: the state of another boot is ignored, because its pids mean other processes; but no number
/// is given twice.
#[test]
fn another_boot_begins_anew() {
    let (fake, place) = (with(fake_process([PAGES, 0], 0, "0-7")), Place::new());
    let mut first = place.start(&fake, BalanceSettings::default());
    let before = rounds(&fake, &mut first, 5);
    let saved = SavedState { boot: "another".to_owned(), ..first.saved_state() };
    drop(first);
    place.state().write(&saved).unwrap();
    let mut second = place.start(&fake, BalanceSettings::default());
    let after = rounds(&fake, &mut second, 5);
    assert!(row(&after[4], 7).decision.entity > row(&before[4], 7).decision.entity);
}

/// Returns the fields of a value, without their content; numbers as keys are those of a map.
fn shape(value: &Value) -> Value {
    let name = |key: &str| match key.parse::<u64>() {
        Ok(_) => "#".to_owned(),
        Err(_) => key.to_owned(),
    };
    match value {
        Value::Object(fields) => fields.iter().map(|(key, it)| (name(key), shape(it))).collect(),
        Value::Array(items) => items.first().map(shape).into_iter().collect(),
        _ => Value::Null,
    }
}

/// Goal: the version changes when the fields of the saved state change. The file does not name
/// fields, so those of another version would be misread.
#[test]
fn a_version_has_one_shape() {
    let (fake, place) = (with(fake_process([0, PAGES], 0, "0-3")), Place::new());
    let mut balancer = place.start(&fake, slow());
    rounds(&fake, &mut balancer, 5);
    let backoff = json!({ "calm_ns": null, "left_ns": null, "times": null });
    let memory = json!({
        "doubt": { "paid": null, "unpaid": null },
        "given_up": null,
        "goes_on": null,
        "in_vain": null,
        "left": { "#": null },
        "planned": { "at_ns": null, "away": null, "fixed": null },
        "wait": backoff,
    });
    let load = json!({
        "deviation_ppm": null,
        "long_ppm": null,
        "ppm": null,
        "recent_ppm": null,
        "rounds": null,
    });
    let entity = json!({
        "away_work": { "node": null, "since": null },
        "hold": backoff,
        "home": { "node": null },
        "interleave": backoff,
        "load": load,
        "memory": memory,
        "why": null,
        "working": load,
    });
    let nodes = json!({ "by_key": {} });
    let homes = json!({
        "at_ns": null,
        "busy": nodes,
        "entities": { "#": entity },
        "rebalance": { "last": null, "pause": backoff },
        "recovered": nodes,
        "saturated": nodes,
        "segments": {},
        "short": nodes,
    });
    let known =
        json!([{ "entity": null, "parts": [], "pid": null, "pins": [], "started_ticks": null }]);
    let version_12 = json!({
        "boot": null,
        "called": { "groups": {}, "last": null, "programs": {} },
        "groups": {},
        "homes": homes,
        "next": null,
        "processes": known,
    });
    let saved = serde_json::to_value(balancer.saved_state()).unwrap();
    assert_eq!((STATE_VERSION, shape(&saved)), (12, version_12), "raise the version");
}

/// Goal: homes on several nodes and pinned threads, which hold masks, are read as they were
/// written.
#[test]
fn masks_are_kept() {
    let file = Place::new();
    let homes = vec![
        Home::Spread("0,2-3".parse().unwrap()),
        Home::Interleave { threads: NodeId(1), memory: "0-1".parse().unwrap() },
    ];
    file.state().write(&homes).unwrap();
    assert_eq!(file.state().read::<Vec<Home>>().unwrap(), Some(homes));
    let [before, now] = ["0-7,63-64", "4-5"].map(|cpus| cpus.parse().unwrap());
    let pin = Pin { tid: 5, before, now };
    file.state().write(&pin).unwrap();
    assert_eq!(file.state().read::<Pin>().unwrap(), Some(pin));
}

/// Goal: after a kill, the next balancer knows which threads the killed one pinned.
#[test]
fn pins_outlive_a_kill() {
    let (fake, place) = (with(fake_process([PAGES, 0], 4, "0-7")), Place::new());
    let pin = BalanceSettings { pin: true, ..BalanceSettings::default() };
    let mut first = place.start(&fake, pin.clone());
    rounds(&fake, &mut first, 5);
    let saved = first.saved_state();
    assert!(saved.processes.iter().any(|one| !one.pins.is_empty()), "{saved:?}");
    std::mem::forget(first);
    assert_eq!(place.start(&fake, pin).saved_state(), saved);
}

/// Goal: an unchanged state is not written again.
#[test]
fn the_state_is_written_when_it_changed() {
    let (fake, place) = (with(fake_process([PAGES, 0], 0, "0-7")), Place::new());
    let mut balancer = place.start(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 5);
    let saved = read_state(&place.state()).unwrap().unwrap();
    assert_eq!(saved, balancer.saved_state());
    assert_eq!(saved.processes.len(), 1);
}

/// Goal: a call about groups is saved before it is answered: killed after any of them, before the
/// first round or between rounds, the next balancer knows what they asked for, and asks for it.
#[test]
fn calls_outlive_a_kill() {
    let home = GroupHome::Nodes("1".parse().unwrap());
    let calls: [fn(&mut GroupCalls<'_>, GroupHome); 5] = [
        |groups, home| _ = groups.add_group("x", home).unwrap(),
        |groups, _| groups.add_memory(1, key(7), range(0..100)).unwrap(),
        |groups, _| _ = groups.add_group("y", GroupHome::Auto).unwrap(),
        |groups, _| groups.add_thread(2, key(7), 1).unwrap(),
        |groups, _| groups.delete(2).unwrap(),
    ];
    for (rounds_before, made) in (0..3).flat_map(|rounds| (1..=5).map(move |made| (rounds, made))) {
        // Process 9 is the balancer, which tells the boot before the first round.
        let (fake, place) = (
            Arc::new(FakeMachine::with_topology(true, "2n 4c 1t 4GiB").with_own_pid(pid(9))),
            Place::new(),
        );
        fake.spawn(pid(7), fake_process([PAGES, 0], 0, "0-3"));
        fake.spawn(pid(9), FakeProcess::default());
        let mut first = place.start(&fake, BalanceSettings::default());
        for made in &calls[..made] {
            rounds(&fake, &mut first, rounds_before);
            call(&first, |groups| made(groups, home.clone()));
        }
        let known = first.saved_state().called;
        drop(first); // which saves nothing
        let mut second = place.start(&fake, BalanceSettings::default());
        let told = (rounds_before, made);
        assert_eq!(second.saved_state().called, known, "{told:?}");
        rounds(&fake, &mut second, 8);
        let expected = if made > 1 { [0, 100] } else { [100, 0] };
        assert_eq!(part_of(&fake, 7, 0..100), expected, "{told:?}");
    }
}

/// Goal: changes that went to a file that was removed are saved whole by the next round, and calls
/// after it at once again.
#[test]
fn a_removed_file_is_written_anew() {
    let (fake, place) = (with(fake_process([PAGES, 0], 0, "0-3")), Place::new());
    let mut balancer = place.start(&fake, BalanceSettings::default());
    let saved = || read_state(&place.state()).unwrap().unwrap().called.iter().count();
    place.state().remove().unwrap();
    call(&balancer, |groups| groups.add_group("x", GroupHome::Auto).unwrap());
    assert!(read_state(&place.state()).unwrap().is_none());
    rounds(&fake, &mut balancer, 1);
    assert_eq!(saved(), 1);
    call(&balancer, |groups| groups.add_group("y", GroupHome::Auto).unwrap());
    assert_eq!(saved(), 2);
}

/// Goal: on a full disk memory still comes home; each failure gives one notice.
#[test]
fn a_full_disk_stops_nothing() {
    let (fake, place) = (fake(), Place::new());
    for number in [7, 8, 9] {
        fake.spawn(pid(number), fake_process([0, PAGES], 0, "0-3"));
    }
    // A file is where the directory should be: not even root can write there.
    let file = place.dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut balancer = balancer(&fake, slow());
    balancer.write_to(Storage {
        state: Some(state_file(file.join("balance.state"))),
        ledger: Some(LedgerStore::new(file.join("ledger"), StoreLimits::default())),
        ..place.storage()
    });
    let reports = rounds(&fake, &mut balancer, 60);
    assert_eq!(moved(&reports), 3 * PAGES);
    let news: Vec<_> = reports.iter().flat_map(|report| &report.news).collect();
    let of_ledger = |news: &&&Notice| matches!(news, Notice::Ledger { .. });
    let of_state = |news: &&&Notice| matches!(news, Notice::State { .. });
    assert_eq!(news.iter().filter(of_ledger).count(), 1, "{news:?}");
    assert_eq!((news.iter().filter(of_state).count(), news.len()), (1, 2), "{news:?}");
}

/// Goal: if the ledger's disk fills up during a move, a notice says so, and the move continues.
#[test]
fn a_full_ledger_stops_nothing() {
    let (fake, place) = (with(fake_process([0, PAGES], 0, "0-3")), Place::new());
    let mut balancer = balancer(&fake, slow());
    let limits = StoreLimits { operation_bytes: 400, ..StoreLimits::default() };
    let store = LedgerStore::new(place.dir.path().join("ledger"), limits);
    balancer.write_to(Storage { ledger: Some(store), state: None, ..place.storage() });
    let reports = rounds(&fake, &mut balancer, 60);
    assert_eq!(moved(&reports), PAGES);
    let news: Vec<_> = reports.iter().flat_map(|report| &report.news).collect();
    assert!(matches!(news[..], [Notice::Ledger { .. }]), "{news:?}");
}

/// Goal: memory that others migrate away from home, as the kernel does before memory goes offline,
/// is noticed by the count of migrations alone, and comes home again. Fewer pages than 1 MiB are no
/// reason to sample.
#[test]
fn what_others_migrate_comes_home() {
    let fake = with(fake_process([0, PAGES], 0, "0-3"));
    fake.update_counters(|counters| counters.migrated_pages = Some(0));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 10);
    assert_eq!(residency(&fake), [PAGES, 0]);
    let others_migrate = |pages: u64| {
        fake.update_counters(|counters| {
            counters.migrated_pages = counters.migrated_pages.map(|before| before + pages);
        });
    };
    others_migrate(255);
    assert!(rounds(&fake, &mut balancer, 10).iter().all(|report| report.looked == 0));
    fake.update_process(pid(7), |process| {
        process.pages.values_mut().for_each(|page| *page = Page::on(NodeId(1)));
    });
    assert_eq!(residency(&fake), [0, PAGES]);
    others_migrate(PAGES);
    rounds(&fake, &mut balancer, 10);
    assert_eq!(residency(&fake), [PAGES, 0]);
}
