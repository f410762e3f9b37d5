//! Test bodies that need a process or a node in a state that not every machine can set up.

use nodeward_model::{PageLocation, Pid};

use super::MoveFixture;
use crate::{
    CallEnd, EntryRefusal, EntryStatus, Error, Liveness, Machine, MovePagesCall, MovePagesOutcome,
    Process,
};

/// A state of a process, its pages or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Some pages have an extra reference, neither the first nor the last one:
    /// [`PreparedProcess::pinned_addresses`].
    Pinned,
    /// Another process maps all of the pages too.
    Shared,
    /// The pages are huge pages of 2 MiB; the first begins at the start of the range.
    Huge,
    /// The other node has fewer free pages than the range has pages.
    NodeNearlyFull,
    /// The process exits shortly after [`PreparedProcess::exit_soon`].
    Exiting,
}

/// The reason why a machine cannot set up a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotPrepare(pub String);

/// A process in some state. The state lasts as long as the value lives.
pub trait PreparedProcess {
    /// Returns the process and its pages: at least 64, all of them on the source node.
    fn fixture(&self) -> MoveFixture<'_>;

    /// Returns the addresses of the pages with an extra reference, in ascending order.
    fn pinned_addresses(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Makes the process exit shortly.
    fn exit_soon(&self) {}
}

/// Starts processes in these states.
pub trait ProcessPreparer {
    /// Starts a fresh process in a state.
    ///
    /// # Errors
    /// If this machine cannot set up the state. The body is then skipped, which does not count as
    /// passed.
    fn prepare(&self, state: Condition) -> Result<Box<dyn PreparedProcess + '_>, CannotPrepare>;
}

/// A test body.
pub type ConditionTest = fn(&dyn ProcessPreparer) -> Result<(), CannotPrepare>;

/// All bodies of this module, by name.
pub const ALL: [(&str, ConditionTest); 7] = [
    ("a_held_page_ends_the_call_and_stays", a_held_page_ends_the_call),
    ("exactly_the_held_pages_stay", exactly_the_held_pages_stay),
    ("shared_pages_stay_unless_everyones_move", shared_pages_stay),
    ("a_huge_page_moves_whole_by_any_address", a_huge_page_moves_whole),
    ("a_second_address_of_a_huge_page_is_busy", a_second_address_is_busy),
    ("a_full_node_takes_what_it_can", a_full_node_takes_what_it_can),
    ("a_process_that_ends_in_a_move_is_gone", a_process_that_ends_is_gone),
];

const HUGE_BYTES: u64 = 2 << 20;
/// Limit on the milliseconds between the loss of a process's memory and its exit.
const ENDING_MS_MAX: u32 = 60_000;
/// Limit on the moves of a process that is about to exit; it exits long before.
const MOVES_MAX: usize = 100_000;

impl MoveFixture<'_> {
    fn all_addresses(&self) -> Vec<u64> {
        let step = usize::try_from(self.machine.page_bytes()).expect("a page is small");
        (self.range.start..self.range.end).step_by(step).collect()
    }

    fn move_addresses(
        &self,
        process: &dyn Process,
        addresses: &[u64],
        there: bool,
    ) -> MovePagesOutcome {
        let to = if there { self.destination } else { self.source };
        let mut batch = MovePagesCall::new(false);
        addresses.iter().for_each(|&address| batch.push(address, to));
        process.move_pages(&batch).expect("the call is made")
    }

    /// Returns the pages that are on the other node. Asserts that all others are on the source node
    /// and none is lost.
    fn addresses_on_destination(&self, process: &dyn Process) -> Vec<u64> {
        let addresses = self.all_addresses();
        let places = process.locate(&addresses).expect("pages can be located");
        let pairs = addresses.into_iter().zip(places);
        let known = |&(address, place): &(u64, PageLocation)| {
            let on = [PageLocation::On(self.source), PageLocation::On(self.destination)];
            assert!(on.contains(&place), "page {address:x} is {place:?}");
            place == PageLocation::On(self.destination)
        };
        pairs.filter(known).map(|(address, _)| address).collect()
    }
}

/// Entries before a page that cannot move are moved and have a status. The page itself has no
/// status, and the entries after it are not attempted.
fn a_held_page_ends_the_call(preparer: &dyn ProcessPreparer) -> Result<(), CannotPrepare> {
    let prepared = preparer.prepare(Condition::Pinned)?;
    let fixture = prepared.fixture();
    let process = fixture.open_process();
    let (all, held) = (fixture.all_addresses(), prepared.pinned_addresses());
    let (first, last) = (all[0], all[all.len() - 1]);
    assert!(!held.is_empty() && !held.contains(&first) && !held.contains(&last), "{held:x?}");
    let mut batch = MovePagesCall::new(false);
    for address in [first, held[0], last] {
        batch.push(address, fixture.destination);
        batch.end_run();
    }
    let outcome = process.move_pages(&batch).expect("the call is made");
    assert_eq!(outcome.end, CallEnd::Aborted, "{outcome:?}");
    assert_eq!(outcome.status[0], EntryStatus::On(fixture.destination));
    // Entries: 0 the first page, 1 a separator, 2 the held page, 3 a separator, 4 the last page.
    assert_eq!([outcome.status[2], outcome.status[4]], [EntryStatus::Unwritten; 2]);
    assert_eq!(fixture.addresses_on_destination(&*process), [first]);
    Ok(())
}

/// Each held page stays when it is requested alone, and all other pages move in one call.
fn exactly_the_held_pages_stay(preparer: &dyn ProcessPreparer) -> Result<(), CannotPrepare> {
    let prepared = preparer.prepare(Condition::Pinned)?;
    let fixture = prepared.fixture();
    let process = fixture.open_process();
    let held = prepared.pinned_addresses();
    for &address in &held {
        assert_eq!(
            fixture.move_addresses(&*process, &[address], true).end,
            CallEnd::Aborted,
            "{address:x}"
        );
    }
    let mut free = fixture.all_addresses();
    free.retain(|address| !held.contains(address));
    assert_eq!(fixture.move_addresses(&*process, &free, true).end, CallEnd::Complete);
    assert_eq!(fixture.addresses_on_destination(&*process), free);
    Ok(())
}

/// Pages that several processes map are refused as shared, and move if the batch may move them.
fn shared_pages_stay(preparer: &dyn ProcessPreparer) -> Result<(), CannotPrepare> {
    let prepared = preparer.prepare(Condition::Shared)?;
    let fixture = prepared.fixture();
    let process = fixture.open_process();
    let all = fixture.all_addresses();
    let outcome = fixture.move_addresses(&*process, &all, true);
    assert_eq!(outcome.end, CallEnd::Complete);
    let shared = EntryStatus::Refused(EntryRefusal::Shared);
    assert!(outcome.status.iter().all(|&status| status == shared), "{outcome:?}");
    assert!(fixture.addresses_on_destination(&*process).is_empty());
    if fixture.machine.capabilities().move_shared {
        let mut batch = MovePagesCall::new(true);
        all.iter().for_each(|&address| batch.push(address, fixture.destination));
        let outcome = process.move_pages(&batch).expect("the call is made");
        assert_eq!(outcome.end, CallEnd::Complete);
        assert_eq!(fixture.addresses_on_destination(&*process), all);
    }
    Ok(())
}

/// One address of a huge page, even in its middle, moves all pages of that folio and no other page.
fn a_huge_page_moves_whole(preparer: &dyn ProcessPreparer) -> Result<(), CannotPrepare> {
    let prepared = preparer.prepare(Condition::Huge)?;
    let fixture = prepared.fixture();
    let process = fixture.open_process();
    let start = fixture.range.start;
    let outcome =
        fixture.move_addresses(&*process, &[start + 5 * fixture.machine.page_bytes()], true);
    assert_eq!(
        (outcome.end, outcome.status[0]),
        (CallEnd::Complete, EntryStatus::On(fixture.destination))
    );
    let whole: Vec<u64> = fixture
        .all_addresses()
        .into_iter()
        .filter(|&address| address < start + HUGE_BYTES)
        .collect();
    assert_eq!(fixture.addresses_on_destination(&*process), whole);
    Ok(())
}

/// A huge page that is named twice moves once.
fn a_second_address_is_busy(preparer: &dyn ProcessPreparer) -> Result<(), CannotPrepare> {
    let prepared = preparer.prepare(Condition::Huge)?;
    let fixture = prepared.fixture();
    let process = fixture.open_process();
    let start = fixture.range.start;
    let outcome =
        fixture.move_addresses(&*process, &[start, start + fixture.machine.page_bytes()], true);
    assert_eq!(outcome.end, CallEnd::Complete);
    let expected = [EntryStatus::On(fixture.destination), EntryStatus::Refused(EntryRefusal::Busy)];
    assert_eq!(outcome.status, expected);
    assert_eq!(
        fixture.addresses_on_destination(&*process).len() as u64,
        HUGE_BYTES / fixture.machine.page_bytes()
    );
    Ok(())
}

/// A node that fills up ends the call; moved pages are on the destination, all others stay.
fn a_full_node_takes_what_it_can(preparer: &dyn ProcessPreparer) -> Result<(), CannotPrepare> {
    let prepared = preparer.prepare(Condition::NodeNearlyFull)?;
    let fixture = prepared.fixture();
    let process = fixture.open_process();
    let all = fixture.all_addresses();
    let outcome = fixture.move_addresses(&*process, &all, true);
    assert_eq!(outcome.end, CallEnd::NoMemory);
    let arrived = fixture.addresses_on_destination(&*process).len();
    assert!(0 < arrived && arrived < all.len(), "{arrived} of {}", all.len());
    Ok(())
}

/// A call reports the exit of the process at any progress of the move, and so does every later
/// call.
fn a_process_that_ends_is_gone(preparer: &dyn ProcessPreparer) -> Result<(), CannotPrepare> {
    let prepared = preparer.prepare(Condition::Exiting)?;
    let fixture = prepared.fixture();
    let process = fixture.open_process();
    let all = fixture.all_addresses();
    prepared.exit_soon();
    let mut there = false;
    let ended = (0..MOVES_MAX).any(|_| {
        there = !there;
        let mut batch = MovePagesCall::new(false);
        let to = if there { fixture.destination } else { fixture.source };
        all.iter().for_each(|&address| batch.push(address, to));
        match process.move_pages(&batch) {
            Ok(outcome) => outcome.end == CallEnd::Gone,
            Err(error) => error.is_gone(),
        }
    });
    assert!(ended, "it did not end");
    assert_gone(fixture.machine, &*process, fixture.pid);
    Ok(())
}

/// Linux frees the memory of a process before it reports the exit; the other signs follow later.
fn assert_gone(machine: &dyn Machine, process: &dyn Process, pid: Pid) {
    let in_time = |told: &dyn Fn() -> bool| {
        (0..ENDING_MS_MAX).any(|_| {
            machine.sleep_ns(1_000_000);
            told()
        })
    };
    assert!(in_time(&|| process.liveness() != Liveness::Running), "it still runs");
    assert!(in_time(&|| process.mappings().is_err_and(|error| error.is_gone())));
    assert!(in_time(&|| process.locate(&[0]).is_err_and(|error| error.is_gone())));
    let nothing = MovePagesCall::new(false);
    assert!(in_time(&|| process.move_pages(&nothing).is_err_and(|error| error.is_gone())));
    let hold = || matches!(machine.open_process(pid), Err(Error::Gone(gone)) if gone == pid);
    assert!(in_time(&hold), "it can be held: {:?}", machine.open_process(pid).err());
}

#[cfg(test)]
mod tests {
    use nodeward_model::{NodeId, Page, Range};

    use super::*;
    use crate::fake::{FakeMachine, FakeProcess, PAGE_BYTES};

    const PAGES: u64 = 1024;

    /// A process of the fake machine in some state.
    struct FakePreparedProcess {
        machine: FakeMachine,
        held: Vec<u64>,
    }

    impl PreparedProcess for FakePreparedProcess {
        fn fixture(&self) -> MoveFixture<'_> {
            MoveFixture {
                machine: &self.machine,
                pid: pid(),
                range: Range::new(16 * PAGE_BYTES, (16 + PAGES) * PAGE_BYTES),
                source: NodeId(0),
                destination: NodeId(1),
            }
        }

        fn pinned_addresses(&self) -> Vec<u64> {
            self.held.clone()
        }
    }

    fn pid() -> Pid {
        Pid::new(7).unwrap()
    }

    struct FakePreparer;

    impl ProcessPreparer for FakePreparer {
        fn prepare(
            &self,
            state: Condition,
        ) -> Result<Box<dyn PreparedProcess + '_>, CannotPrepare> {
            let mut page = Page::on(NodeId(0));
            page.shared = state == Condition::Shared;
            let mut process = FakeProcess::with_pages(&[page; PAGES as usize]);
            let held = [20, 40, 41].map(|page| page * PAGE_BYTES);
            match state {
                Condition::Pinned => {
                    process.pinned = held.map(|address| address / PAGE_BYTES).into();
                }
                Condition::Huge => process.pages.iter_mut().for_each(|(number, page)| {
                    page.folio_pages = if (number - 16) % 512 == 0 { 512 } else { 0 };
                }),
                Condition::NodeNearlyFull => process.free_pages = [(NodeId(1), PAGES - 1)].into(),
                Condition::Exiting => process.end_at_call = Some((3, Liveness::Exited)),
                Condition::Shared => {}
            }
            let machine = FakeMachine::new(true);
            machine.spawn(pid(), process);
            let held = if state == Condition::Pinned { held.into() } else { Vec::new() };
            Ok(Box::new(FakePreparedProcess { machine, held }))
        }
    }

    /// Goal: the fake machine passes the bodies that it is used to replace.
    #[test]
    fn the_fake_machine_conforms() {
        for (name, body) in ALL {
            println!("{name}");
            assert_eq!(body(&FakePreparer), Ok(()));
        }
    }
}
