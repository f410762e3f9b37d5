//! Test bodies that need a process or a node in a state that not every machine can set up.

use nodeward_model::{Pid, Place};

use super::Stage;
use crate::{CallEnd, EntryStatus, Error, Life, Machine, MoveBatch, MoveOutcome, Process, Refusal};

/// A state of a process, its pages or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Some pages have an extra reference, neither the first nor the last one: [`Scene::held`].
    Pinned,
    /// Another process maps all of the pages too.
    Shared,
    /// The pages are huge pages of 2 MiB; the first begins at the start of the range.
    Huge,
    /// The other node has fewer free pages than the range has pages.
    Crowded,
    /// The process exits shortly after [`Scene::end_soon`].
    Mortal,
}

/// The reason why a machine cannot set up a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cannot(pub String);

/// A stage in some state. The state lasts as long as the value lives.
pub trait Scene {
    /// Returns the process and its pages: at least 64, all of them on the home node.
    fn stage(&self) -> Stage<'_>;

    /// Returns the addresses of the pages with an extra reference, in ascending order.
    fn held(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Makes the process exit shortly.
    fn end_soon(&self) {}
}

/// A factory of scenes.
pub trait Scenes {
    /// Starts a fresh process in a state.
    ///
    /// # Errors
    /// If this machine cannot set up the state. The body is then skipped, which does not count as
    /// passed.
    fn set(&self, state: State) -> Result<Box<dyn Scene + '_>, Cannot>;
}

/// A test body.
pub type SceneBody = fn(&dyn Scenes) -> Result<(), Cannot>;

/// All bodies of this module, by name.
pub const ALL: [(&str, SceneBody); 7] = [
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

impl Stage<'_> {
    fn all(&self) -> Vec<u64> {
        let step = usize::try_from(self.machine.page_bytes()).expect("a page is small");
        (self.range.start..self.range.end).step_by(step).collect()
    }

    fn call(&self, process: &dyn Process, addresses: &[u64], there: bool) -> MoveOutcome {
        let to = if there { self.away } else { self.home };
        let mut batch = MoveBatch::new(false);
        addresses.iter().for_each(|&address| batch.push(address, to));
        process.move_pages(&batch).expect("the call is made")
    }

    /// Returns the pages that are on the other node. Asserts that all others are at home and none
    /// is lost.
    fn on_away(&self, process: &dyn Process) -> Vec<u64> {
        let addresses = self.all();
        let places = process.locate(&addresses).expect("pages can be located");
        let pairs = addresses.into_iter().zip(places);
        let known = |&(address, place): &(u64, Place)| {
            let on = [Place::On(self.home), Place::On(self.away)];
            assert!(on.contains(&place), "page {address:x} is {place:?}");
            place == Place::On(self.away)
        };
        pairs.filter(known).map(|(address, _)| address).collect()
    }
}

/// Entries before a page that cannot move are moved and have a status. The page itself has no
/// status, and the entries after it are not attempted.
fn a_held_page_ends_the_call(scenes: &dyn Scenes) -> Result<(), Cannot> {
    let scene = scenes.set(State::Pinned)?;
    let stage = scene.stage();
    let process = stage.held();
    let (all, held) = (stage.all(), scene.held());
    let (first, last) = (all[0], all[all.len() - 1]);
    assert!(!held.is_empty() && !held.contains(&first) && !held.contains(&last), "{held:x?}");
    let mut batch = MoveBatch::new(false);
    for address in [first, held[0], last] {
        batch.push(address, stage.away);
        batch.separate();
    }
    let outcome = process.move_pages(&batch).expect("the call is made");
    assert_eq!(outcome.end, CallEnd::Aborted, "{outcome:?}");
    assert_eq!(outcome.status[0], EntryStatus::On(stage.away));
    // Entries: 0 the first page, 1 a separator, 2 the held page, 3 a separator, 4 the last page.
    assert_eq!([outcome.status[2], outcome.status[4]], [EntryStatus::Unwritten; 2]);
    assert_eq!(stage.on_away(&*process), [first]);
    Ok(())
}

/// Each held page stays when it is requested alone, and all other pages move in one call.
fn exactly_the_held_pages_stay(scenes: &dyn Scenes) -> Result<(), Cannot> {
    let scene = scenes.set(State::Pinned)?;
    let stage = scene.stage();
    let process = stage.held();
    let held = scene.held();
    for &address in &held {
        assert_eq!(stage.call(&*process, &[address], true).end, CallEnd::Aborted, "{address:x}");
    }
    let mut free = stage.all();
    free.retain(|address| !held.contains(address));
    assert_eq!(stage.call(&*process, &free, true).end, CallEnd::Complete);
    assert_eq!(stage.on_away(&*process), free);
    Ok(())
}

/// Pages that several processes map are refused as shared, and move if the batch may move them.
fn shared_pages_stay(scenes: &dyn Scenes) -> Result<(), Cannot> {
    let scene = scenes.set(State::Shared)?;
    let stage = scene.stage();
    let process = stage.held();
    let all = stage.all();
    let outcome = stage.call(&*process, &all, true);
    assert_eq!(outcome.end, CallEnd::Complete);
    let shared = EntryStatus::Refused(Refusal::Shared);
    assert!(outcome.status.iter().all(|&status| status == shared), "{outcome:?}");
    assert!(stage.on_away(&*process).is_empty());
    if stage.machine.capabilities().move_everyones {
        let mut batch = MoveBatch::new(true);
        all.iter().for_each(|&address| batch.push(address, stage.away));
        let outcome = process.move_pages(&batch).expect("the call is made");
        assert_eq!(outcome.end, CallEnd::Complete);
        assert_eq!(stage.on_away(&*process), all);
    }
    Ok(())
}

/// One address of a huge page, even in its middle, moves all pages of that folio and no other page.
fn a_huge_page_moves_whole(scenes: &dyn Scenes) -> Result<(), Cannot> {
    let scene = scenes.set(State::Huge)?;
    let stage = scene.stage();
    let process = stage.held();
    let start = stage.range.start;
    let outcome = stage.call(&*process, &[start + 5 * stage.machine.page_bytes()], true);
    assert_eq!((outcome.end, outcome.status[0]), (CallEnd::Complete, EntryStatus::On(stage.away)));
    let whole: Vec<u64> =
        stage.all().into_iter().filter(|&address| address < start + HUGE_BYTES).collect();
    assert_eq!(stage.on_away(&*process), whole);
    Ok(())
}

/// A huge page that is named twice moves once.
fn a_second_address_is_busy(scenes: &dyn Scenes) -> Result<(), Cannot> {
    let scene = scenes.set(State::Huge)?;
    let stage = scene.stage();
    let process = stage.held();
    let start = stage.range.start;
    let outcome = stage.call(&*process, &[start, start + stage.machine.page_bytes()], true);
    assert_eq!(outcome.end, CallEnd::Complete);
    let expected = [EntryStatus::On(stage.away), EntryStatus::Refused(Refusal::Busy)];
    assert_eq!(outcome.status, expected);
    assert_eq!(stage.on_away(&*process).len() as u64, HUGE_BYTES / stage.machine.page_bytes());
    Ok(())
}

/// A node that fills up ends the call; moved pages are on the destination, all others stay.
fn a_full_node_takes_what_it_can(scenes: &dyn Scenes) -> Result<(), Cannot> {
    let scene = scenes.set(State::Crowded)?;
    let stage = scene.stage();
    let process = stage.held();
    let all = stage.all();
    let outcome = stage.call(&*process, &all, true);
    assert_eq!(outcome.end, CallEnd::NoMemory);
    let arrived = stage.on_away(&*process).len();
    assert!(0 < arrived && arrived < all.len(), "{arrived} of {}", all.len());
    Ok(())
}

/// A call reports the exit of the process at any progress of the move, and so does every later
/// call.
fn a_process_that_ends_is_gone(scenes: &dyn Scenes) -> Result<(), Cannot> {
    let scene = scenes.set(State::Mortal)?;
    let stage = scene.stage();
    let process = stage.held();
    let all = stage.all();
    scene.end_soon();
    let mut there = false;
    let ended = (0..MOVES_MAX).any(|_| {
        there = !there;
        let mut batch = MoveBatch::new(false);
        let to = if there { stage.away } else { stage.home };
        all.iter().for_each(|&address| batch.push(address, to));
        match process.move_pages(&batch) {
            Ok(outcome) => outcome.end == CallEnd::Gone,
            Err(error) => error.is_gone(),
        }
    });
    assert!(ended, "it did not end");
    assert_gone(stage.machine, &*process, stage.pid);
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
    assert!(in_time(&|| process.life() != Life::Running), "it still runs");
    assert!(in_time(&|| process.mappings().is_err_and(|error| error.is_gone())));
    assert!(in_time(&|| process.locate(&[0]).is_err_and(|error| error.is_gone())));
    let nothing = MoveBatch::new(false);
    assert!(in_time(&|| process.move_pages(&nothing).is_err_and(|error| error.is_gone())));
    let hold = || matches!(machine.hold(pid), Err(Error::Gone(gone)) if gone == pid);
    assert!(in_time(&hold), "it can be held: {:?}", machine.hold(pid).err());
}

#[cfg(test)]
mod tests {
    use nodeward_model::{NodeId, Page, Range};

    use super::*;
    use crate::paper::{PAGE_BYTES, Paper, Sheet};

    const PAGES: u64 = 1024;

    /// A process of the fake machine in some state.
    struct OnPaper {
        machine: Paper,
        held: Vec<u64>,
    }

    impl Scene for OnPaper {
        fn stage(&self) -> Stage<'_> {
            Stage {
                machine: &self.machine,
                pid: pid(),
                range: Range::new(16 * PAGE_BYTES, (16 + PAGES) * PAGE_BYTES),
                home: NodeId(0),
                away: NodeId(1),
            }
        }

        fn held(&self) -> Vec<u64> {
            self.held.clone()
        }
    }

    fn pid() -> Pid {
        Pid::new(7).unwrap()
    }

    struct PaperScenes;

    impl Scenes for PaperScenes {
        fn set(&self, state: State) -> Result<Box<dyn Scene + '_>, Cannot> {
            let mut page = Page::on(NodeId(0));
            page.shared = state == State::Shared;
            let mut sheet = Sheet::of(&[page; PAGES as usize]);
            let held = [20, 40, 41].map(|page| page * PAGE_BYTES);
            match state {
                State::Pinned => sheet.pinned = held.map(|address| address / PAGE_BYTES).into(),
                State::Huge => sheet.pages.iter_mut().for_each(|(number, page)| {
                    page.folio_pages = if (number - 16) % 512 == 0 { 512 } else { 0 };
                }),
                State::Crowded => sheet.free = [(NodeId(1), PAGES - 1)].into(),
                State::Mortal => sheet.fate = Some((3, Life::Exited)),
                State::Shared => {}
            }
            let machine = Paper::new(true);
            machine.start(pid(), sheet);
            let held = if state == State::Pinned { held.into() } else { Vec::new() };
            Ok(Box::new(OnPaper { machine, held }))
        }
    }

    /// Goal: the fake machine passes the bodies that it is used to replace.
    #[test]
    fn paper_conforms() {
        for (name, body) in ALL {
            println!("{name}");
            assert_eq!(body(&PaperScenes), Ok(()));
        }
    }
}
