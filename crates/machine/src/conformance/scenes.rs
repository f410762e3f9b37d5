//! Bodies that need a process, or a node, in a state that a machine can bring about or not.

use nodeward_model::{Pid, Place};

use super::Stage;
use crate::{CallEnd, EntryStatus, Error, Life, Machine, MoveBatch, MoveOutcome, Process, Refusal};

/// A state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody holds some of the pages, not the first and not the last: [`Scene::held`].
    Pinned,
    /// Another process maps all of the pages, too.
    Shared,
    /// The pages are huge pages of 2 MiB, which begin where the range does.
    Huge,
    /// The other node has less room than the range has pages.
    Crowded,
    /// The process ends a moment after [`Scene::end_soon`].
    Mortal,
}

/// Why a machine cannot bring something about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cannot(pub String);

/// A stage in some state, for as long as the value lives.
pub trait Scene {
    /// The process and its pages; at least 64, all of them on the home node.
    fn stage(&self) -> Stage<'_>;

    /// The addresses of the pages that somebody holds, in ascending order.
    fn held(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Lets the process end in a moment.
    fn end_soon(&self) {}
}

/// What sets scenes.
pub trait Scenes {
    /// A fresh process in some state.
    ///
    /// # Errors
    /// If this machine cannot bring that about; the body is skipped then, which is not to pass it.
    fn set(&self, state: State) -> Result<Box<dyn Scene + '_>, Cannot>;
}

/// A test body.
pub type SceneBody = fn(&dyn Scenes) -> Result<(), Cannot>;

/// Every such body, by name.
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
/// Milliseconds between a process without memory and one that has exited.
const ENDING_MS_MAX: u32 = 60_000;
/// Moves of a process that is to end; it ends long before.
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

    /// Those of the pages that are on the other node; all others are at home, and none is lost.
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

/// What stands before a page that cannot move is moved and told; the page itself has no status, and
/// what stands behind it is not tried.
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
    // 0: the first, 1: a separator, 2: the held one, 3: a separator, 4: the last.
    assert_eq!([outcome.status[2], outcome.status[4]], [EntryStatus::Unwritten; 2]);
    assert_eq!(stage.on_away(&*process), [first]);
    Ok(())
}

/// Those that are held stay, each asked for by itself, and all others move together.
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

/// Pages of several processes are refused, each for that reason, and move if they may.
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

/// One address, be it in the middle, is enough for all pages of the folio, and for no other.
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

/// A node that fills up ends the call; what arrived is there and the rest is where it was.
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

/// However far a move is when the process ends, the end is told, and so is that it is gone since.
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

/// Linux takes its memory away before it says that it has exited, and more follows later.
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

    /// A sheet of paper in some state.
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

    /// The machine on paper passes what it is used to stand for.
    #[test]
    fn paper_conforms() {
        for (name, body) in ALL {
            println!("{name}");
            assert_eq!(body(&PaperScenes), Ok(()));
        }
    }
}
