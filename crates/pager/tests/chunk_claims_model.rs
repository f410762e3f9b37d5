//! Model check of the hand-over of chunks: the real `chunk_claims.rs` with the locks of loom, which
//! tries every interleaving of the threads (with at most [`PREEMPTIONS`] preemptions).
//!
//! The test adds a small model of the kernel: pages that are home, out of sight or missing; threads
//! that touch one that is not home and wait until they are woken; messages about these faults. A
//! thread that waits for ever is a deadlock, which loom reports by a panic.

#[allow(dead_code, reason = "no model uses all of it")]
#[path = "../src/region/chunk_claims.rs"]
mod chunk_claims;
#[path = "../src/region/chunk_table.rs"]
mod chunk_table;
#[allow(dead_code, reason = "no model uses all of it")]
#[path = "../src/region/pin_slots.rs"]
mod pin_slots;

/// One slot, as each that is looked at makes the model larger.
mod chunk {
    pub const PIN_SLOTS: usize = 1;
}

/// The locks of `chunk_claims.rs`.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
}

/// The signals of `chunk_claims.rs`, and the memory of `chunk_table.rs`.
mod sys {
    /// A stand-in: there are no signals in a model.
    pub struct NoBlockedSignals;

    pub fn block_signals_in_scope() -> NoBlockedSignals {
        NoBlockedSignals
    }

    pub struct MmapSlice<T>(Box<[T]>);

    impl<T: Default> MmapSlice<T> {
        pub fn of(count: usize) -> Self {
            Self((0..count).map(|_| T::default()).collect())
        }
    }

    impl<T> std::ops::Deref for MmapSlice<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T> std::ops::DerefMut for MmapSlice<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }
}

use chunk_claims::{ChunkClaims, ChunkContent, Claim, FaultClaim, RegionPin};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

const PREEMPTIONS: usize = 2;
/// All models have one chunk of two pages.
const PAGES: usize = 2;
const CHUNK: usize = 0;

/// Pages that a lazy migration left out; the state of a chunk.
type LazyPages = [bool; PAGES];

impl ChunkContent for LazyPages {
    fn is_in_sight(&self) -> bool {
        !self.contains(&true)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelPageState {
    Home,
    Out,
    Missing,
}

/// The order of a lane's last steps. Only one is right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeOrder {
    Right,
    ReleasedBeforeHome,
    NobodyWoken,
}

struct ModelPages {
    at: [ModelPageState; PAGES],
    /// How often each page was taken out.
    moves: [u32; PAGES],
    /// How often the threads that wait for each page were woken.
    woken: [u32; PAGES],
    /// Pages of the fault messages that the handler has not read.
    unread: Vec<usize>,
    ended: bool,
}

/// The kernel and the claims.
struct ClaimsModel {
    pages: Mutex<ModelPages>,
    changed: Condvar,
    chunk_claims: ChunkClaims<LazyPages>,
}

impl ClaimsModel {
    /// A world with pages in these states. Those that are out are recorded in the chunk's state.
    fn new(at: [ModelPageState; PAGES]) -> Arc<Self> {
        let pages =
            ModelPages { at, moves: [0; 2], woken: [0; 2], unread: Vec::new(), ended: false };
        let chunk_claims = ChunkClaims::new(1);
        let mut claim = chunk_claims.claim(CHUNK).expect("nobody has it");
        claim.state = at.map(|at| at == ModelPageState::Out);
        assert!(!chunk_claims.release(claim), "nobody waits for it");
        Arc::new(Self { pages: Mutex::new(pages), changed: Condvar::new(), chunk_claims })
    }

    /// Accesses a page as a thread does: waits until it is woken, and tries again.
    fn touch(&self, page: usize) {
        let mut pages = self.pages.lock().unwrap();
        while pages.at[page] != ModelPageState::Home {
            pages.unread.push(page);
            self.changed.notify_all();
            let woken = pages.woken[page];
            while pages.woken[page] == woken {
                pages = self.changed.wait(pages).unwrap();
            }
        }
    }

    /// Wakes threads. Unread messages of threads that are woken are dropped.
    fn wake(&self, which: &[usize]) {
        let mut pages = self.pages.lock().unwrap();
        which.iter().for_each(|&page| pages.woken[page] += 1);
        pages.unread.retain(|page| !which.contains(page));
        self.changed.notify_all();
    }

    /// Takes a page out; returns whether it was there.
    fn unmap(&self, page: usize) -> bool {
        let mut pages = self.pages.lock().unwrap();
        let there = pages.at[page] == ModelPageState::Home;
        if there {
            pages.at[page] = ModelPageState::Out;
            pages.moves[page] += 1;
        }
        there
    }

    fn map(&self, page: usize) {
        let at = std::mem::replace(&mut self.pages.lock().unwrap().at[page], ModelPageState::Home);
        assert_eq!(at, ModelPageState::Out, "what comes home was out");
        self.wake(&[page]);
    }

    /// Supplies a page of zeros like the kernel, which does not know which pages are out.
    fn supply_zeros(&self, page: usize) {
        let mut pages = self.pages.lock().unwrap();
        assert_ne!(pages.at[page], ModelPageState::Out, "zeros over a page that is out");
        pages.at[page] = ModelPageState::Home;
    }

    fn release(&self, claim: Claim<LazyPages>, order: WakeOrder) {
        if self.chunk_claims.release(claim) && order != WakeOrder::NobodyWoken {
            self.wake(&[0, 1]);
        }
    }

    fn return_lazy_pages(&self, claim: &mut Claim<LazyPages>) {
        for (page, out) in claim.state.iter_mut().enumerate() {
            if std::mem::take(out) {
                self.map(page);
            }
        }
    }

    fn is_pinned(&self) -> bool {
        let mut is_pinned = false;
        self.chunk_claims.for_each_pinned(&(0..1), |_| is_pinned = true);
        is_pinned
    }

    /// Moves page 0 as a lane does, unless it is pinned or the region is being dropped.
    fn migrate(&self, order: WakeOrder) {
        let Ok(mut claim) = self.chunk_claims.claim(CHUNK) else { return };
        self.return_lazy_pages(&mut claim);
        let out = !self.is_pinned() && self.unmap(0);
        if order == WakeOrder::ReleasedBeforeHome {
            self.release(claim, order);
            if out {
                self.map(0);
            }
            return;
        }
        if out {
            self.map(0);
        }
        self.release(claim, order);
    }

    /// Leaves page 0 out as a lane does.
    fn unmap_lazily(&self) {
        let Ok(mut claim) = self.chunk_claims.claim(CHUNK) else { return };
        self.return_lazy_pages(&mut claim);
        if !self.is_pinned() {
            claim.state[0] = self.unmap(0);
        }
        self.release(claim, WakeOrder::Right);
    }

    /// Moves page 0 as a thread of the program does: at once, or not at all.
    fn migrate_here(&self) {
        let Some(mut claim) = self.chunk_claims.try_claim(CHUNK) else { return };
        self.return_lazy_pages(&mut claim);
        if !self.is_pinned() && self.unmap(0) {
            self.map(0);
        }
        self.release(claim, WakeOrder::Right);
    }

    /// Pins page 0 as a thread of the program does.
    fn pin(&self) -> RegionPin {
        let pin = self.chunk_claims.pin(&(0..1));
        if !pin.is_settled && !self.chunk_claims.is_settled(CHUNK) {
            match self.chunk_claims.try_claim_to_return(CHUNK) {
                Some(mut claim) => {
                    self.return_lazy_pages(&mut claim);
                    self.release(claim, WakeOrder::Right);
                }
                None => self.return_all(),
            }
        }
        pin
    }

    /// Brings pages back as the extra lane does.
    fn return_all(&self) {
        let Ok(mut claim) = self.chunk_claims.claim_to_return(CHUNK) else { return };
        self.return_lazy_pages(&mut claim);
        self.release(claim, WakeOrder::Right);
    }

    /// Pauses as `Inner::pause` does.
    fn pause(&self) {
        self.chunk_claims.pause();
        for _ in self.chunk_claims.find_chunks(|lazy| lazy.contains(&true)) {
            self.return_all();
        }
    }

    /// Runs the fault handler until the world ends.
    fn handle_faults(&self) {
        loop {
            let mut pages = self.pages.lock().unwrap();
            while pages.unread.is_empty() && !pages.ended {
                pages = self.changed.wait(pages).unwrap();
            }
            let Some(page) = pages.unread.pop() else { return };
            drop(pages);
            let FaultClaim::Claimed(mut claim) = self.chunk_claims.claim_for_fault(CHUNK) else {
                continue;
            };
            match std::mem::take(&mut claim.state[page]) {
                true => self.map(page),
                false => self.supply_zeros(page),
            }
            self.release(claim, WakeOrder::Right);
            self.wake(&[page]);
        }
    }

    fn end(&self) {
        self.pages.lock().unwrap().ended = true;
        self.changed.notify_all();
    }

    fn moves(&self) -> u32 {
        self.pages.lock().unwrap().moves[0]
    }

    fn unmapped_pages(&self) -> usize {
        let at = self.pages.lock().unwrap().at;
        at.iter().filter(|&&at| at == ModelPageState::Out).count()
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// Starts a thread that runs `act` on the world.
fn spawn(world: &Arc<ClaimsModel>, act: fn(&ClaimsModel)) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || act(&world))
}

/// Checks a lane that moves page 0 beside threads that touch it and page 1, which is missing.
fn a_lane_and_faulting_threads(order: WakeOrder) {
    check(move || {
        let world = ClaimsModel::new([ModelPageState::Home, ModelPageState::Missing]);
        let handler = spawn(&world, ClaimsModel::handle_faults);
        let touchers = [spawn(&world, |world| world.touch(0)), spawn(&world, |w| w.touch(1))];
        world.migrate(order);
        touchers.into_iter().for_each(|toucher| toucher.join().unwrap());
        world.end();
        handler.join().unwrap();
        assert_eq!(world.unmapped_pages(), 0);
    });
}

/// Goal: every thread that touches a page in flight, or a missing one beside it, continues, and
/// never gets zeros for a page that is out.
#[test]
fn touchers_of_a_chunk_in_flight_go_on() {
    a_lane_and_faulting_threads(WakeOrder::Right);
}

/// Goal: the model can fail: if a chunk is released before its pages are home, the handler supplies
/// zeros over them.
#[test]
#[should_panic(expected = "zeros over a page that is out")]
fn releasing_before_pages_are_home_is_found() {
    a_lane_and_faulting_threads(WakeOrder::ReleasedBeforeHome);
}

/// Goal: the model can fail: without the wake-up after a release, a thread that touched a missing
/// page waits for ever. Runs in a process of its own, because loom does not survive a deadlock.
#[test]
fn waking_nobody_is_found() {
    const HERE: &str = "NODEWARD_DEADLOCK";
    if std::env::var_os(HERE).is_some() {
        return a_lane_and_faulting_threads(WakeOrder::NobodyWoken);
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = again.args(["waking_nobody_is_found", "--nocapture"]).env(HERE, "1").output();
    let ended = ended.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("deadlock"), "{said}");
}

/// Goal: a page that is left out comes back when touched, whichever thread else wants the chunk.
#[test]
fn what_is_left_out_comes_back_once() {
    check(|| {
        let world = ClaimsModel::new([ModelPageState::Out, ModelPageState::Missing]);
        let handler = spawn(&world, ClaimsModel::handle_faults);
        let toucher = spawn(&world, |world| world.touch(0));
        let lane = spawn(&world, |world| world.migrate(WakeOrder::Right));
        world.return_all();
        toucher.join().unwrap();
        lane.join().unwrap();
        world.end();
        handler.join().unwrap();
        assert_eq!(world.unmapped_pages(), 0);
    });
}

/// Goal: between pause and resume nothing is out of sight, as fork(2) needs; afterwards lanes
/// continue.
#[test]
fn nothing_is_out_during_a_pause() {
    check(|| {
        let world = ClaimsModel::new([ModelPageState::Out, ModelPageState::Missing]);
        let handler = spawn(&world, ClaimsModel::handle_faults);
        let lane = spawn(&world, |world| {
            world.unmap_lazily();
            world.migrate(WakeOrder::Right);
        });
        let toucher = spawn(&world, |world| world.touch(0));
        world.pause();
        assert_eq!(world.unmapped_pages(), 0, "the child would read zeros");
        world.chunk_claims.resume();
        lane.join().unwrap();
        toucher.join().unwrap();
        world.end();
        handler.join().unwrap();
    });
}

/// Goal: two threads that fork at the same time both find nothing out.
#[test]
fn pauses_add_up() {
    check(|| {
        let world = ClaimsModel::new([ModelPageState::Home, ModelPageState::Missing]);
        let fork = |world: &ClaimsModel| {
            world.pause();
            assert_eq!(world.unmapped_pages(), 0, "the child would read zeros");
            world.chunk_claims.resume();
        };
        let other = spawn(&world, fork);
        let lane = spawn(&world, ClaimsModel::unmap_lazily);
        fork(&world);
        other.join().unwrap();
        lane.join().unwrap();
    });
}

/// Goal: once a pin exists, the page stays where it is, even if lanes began before.
#[test]
fn a_pinned_page_stays() {
    check(|| {
        let world = ClaimsModel::new([ModelPageState::Home, ModelPageState::Missing]);
        let lanes = [
            spawn(&world, |world| world.migrate(WakeOrder::Right)),
            spawn(&world, ClaimsModel::unmap_lazily),
        ];
        let pin = world.pin();
        let moves = world.moves();
        assert_eq!(world.unmapped_pages(), 0, "a pinned page is in sight");
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        assert_eq!(world.moves(), moves, "a pinned page moved");
        world.chunk_claims.unpin(&pin, &(0..1));
        world.migrate(WakeOrder::Right);
        assert_eq!(world.moves(), moves + 1, "and moves again later");
    });
}

/// Goal: the same beside a thread of the program that moves pages itself.
#[test]
fn a_pinned_page_stays_for_callers_too() {
    check(|| {
        let world = ClaimsModel::new([ModelPageState::Home, ModelPageState::Missing]);
        let movers = [
            spawn(&world, ClaimsModel::migrate_here),
            spawn(&world, |world| {
                world.unmap_lazily();
                world.migrate_here();
            }),
        ];
        let pin = world.pin();
        let moves = world.moves();
        assert_eq!(world.unmapped_pages(), 0, "a pinned page is in sight");
        movers.into_iter().for_each(|mover| mover.join().unwrap());
        assert_eq!(world.moves(), moves, "a pinned page moved");
        world.chunk_claims.unpin(&pin, &(0..1));
    });
}

/// Goal: threads of the program that move pages themselves hold up neither faults nor fork(2), and
/// nothing is out while a child is made.
#[test]
fn callers_hold_up_nobody() {
    check(|| {
        let world = ClaimsModel::new([ModelPageState::Out, ModelPageState::Missing]);
        let handler = spawn(&world, ClaimsModel::handle_faults);
        let caller = spawn(&world, ClaimsModel::migrate_here);
        let toucher = spawn(&world, |world| world.touch(0));
        world.pause();
        assert_eq!(world.unmapped_pages(), 0, "the child would read zeros");
        world.chunk_claims.resume();
        caller.join().unwrap();
        toucher.join().unwrap();
        world.end();
        handler.join().unwrap();
    });
}

/// Goal: closing waits for the claims that exist and refuses new ones; it returns the pages that
/// were left out.
#[test]
fn closing_waits_for_claims() {
    check(|| {
        let world = ClaimsModel::new([ModelPageState::Home, ModelPageState::Missing]);
        let lane = spawn(&world, |world| world.migrate(WakeOrder::Right));
        let other = spawn(&world, ClaimsModel::return_all);
        assert_eq!(
            world.chunk_claims.close().len(),
            1,
            "the state of the only chunk: nobody has it"
        );
        let moves = world.moves();
        assert_eq!(world.unmapped_pages(), 0);
        assert!(
            world.chunk_claims.claim(CHUNK).is_err()
                && world.chunk_claims.claim_to_return(CHUNK).is_err()
        );
        assert!(matches!(world.chunk_claims.claim_for_fault(CHUNK), FaultClaim::Closing));
        lane.join().unwrap();
        other.join().unwrap();
        assert_eq!(world.moves(), moves, "nothing moves after the end");
    });
}
