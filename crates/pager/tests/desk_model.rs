//! Model check of the hand-over of chunks: the real `desk.rs` with the locks of loom, which tries
//! every interleaving of the threads (with at most [`PREEMPTIONS`] preemptions).
//!
//! The test adds a small model of the kernel: pages that are home, out of sight or missing; threads
//! that touch one that is not home and wait until they are woken; messages about these faults. A
//! thread that waits for ever is a deadlock, which loom reports by a panic.

#[path = "../src/chunk_table.rs"]
mod chunk_table;
#[allow(dead_code, reason = "no model uses all of it")]
#[path = "../src/desk.rs"]
mod desk;

/// The locks of `desk.rs`.
mod sync {
    pub use loom::sync::{Condvar, Mutex, MutexGuard};

    /// A stand-in: there are no signals in a model.
    pub struct NoSignals;

    pub fn hold_signals() -> NoSignals {
        NoSignals
    }
}

/// The memory of `chunk_table.rs`.
mod sys {
    pub struct Row<T>(Box<[T]>);

    impl<T: Default> Row<T> {
        pub fn of(count: usize) -> Self {
            Self((0..count).map(|_| T::default()).collect())
        }
    }

    impl<T> std::ops::Deref for Row<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T> std::ops::DerefMut for Row<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }
}

use desk::{Claim, Desk, Turn};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

const PREEMPTIONS: usize = 2;
/// All models have one chunk of two pages.
const PAGES: usize = 2;
const CHUNK: usize = 0;

/// Pages that a lazy migration left out; the note of a chunk.
type LeftOut = [bool; PAGES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Home,
    Out,
    Missing,
}

/// The order of a lane's last steps. Only one is right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Right,
    ReleasedBeforeHome,
    NobodyWoken,
}

struct Pages {
    at: [At; PAGES],
    /// How often each page was taken out.
    moves: [u32; PAGES],
    /// How often the threads that wait for each page were woken.
    woken: [u32; PAGES],
    /// Pages of the fault messages that the handler has not read.
    unread: Vec<usize>,
    ended: bool,
}

/// The kernel and the desk.
struct World {
    pages: Mutex<Pages>,
    changed: Condvar,
    desk: Desk<LeftOut>,
}

impl World {
    /// A world with pages in these states. Those that are out are recorded in the chunk's note.
    fn new(at: [At; PAGES]) -> Arc<Self> {
        let pages = Pages { at, moves: [0; 2], woken: [0; 2], unread: Vec::new(), ended: false };
        let desk = Desk::new(1);
        let mut claim = desk.claim(CHUNK).expect("nobody has it");
        claim.note = at.map(|at| at == At::Out);
        assert!(!desk.release(claim), "nobody waits for it");
        Arc::new(Self { pages: Mutex::new(pages), changed: Condvar::new(), desk })
    }

    /// Accesses a page as a thread does: waits until it is woken, and tries again.
    fn touch(&self, page: usize) {
        let mut pages = self.pages.lock().unwrap();
        while pages.at[page] != At::Home {
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
    fn take_out(&self, page: usize) -> bool {
        let mut pages = self.pages.lock().unwrap();
        let there = pages.at[page] == At::Home;
        if there {
            pages.at[page] = At::Out;
            pages.moves[page] += 1;
        }
        there
    }

    fn bring(&self, page: usize) {
        let at = std::mem::replace(&mut self.pages.lock().unwrap().at[page], At::Home);
        assert_eq!(at, At::Out, "what comes home was out");
        self.wake(&[page]);
    }

    /// Supplies a page of zeros like the kernel, which does not know which pages are out.
    fn supply_zeros(&self, page: usize) {
        let mut pages = self.pages.lock().unwrap();
        assert_ne!(pages.at[page], At::Out, "zeros over a page that is out");
        pages.at[page] = At::Home;
        drop(pages);
        self.wake(&[page]);
    }

    fn release(&self, claim: Claim<LeftOut>, order: Order) {
        if self.desk.release(claim) && order != Order::NobodyWoken {
            self.wake(&[0, 1]);
        }
    }

    fn return_left_out(&self, claim: &mut Claim<LeftOut>) {
        for (page, out) in claim.note.iter_mut().enumerate() {
            if std::mem::take(out) {
                self.bring(page);
            }
        }
    }

    fn is_pinned(&self) -> bool {
        let mut is_pinned = false;
        self.desk.pinned(&(0..1), |_| is_pinned = true);
        is_pinned
    }

    /// Moves page 0 as a lane does, unless it is pinned or the region is being dropped.
    fn migrate(&self, order: Order) {
        let Ok(mut claim) = self.desk.claim(CHUNK) else { return };
        self.return_left_out(&mut claim);
        let out = !self.is_pinned() && self.take_out(0);
        if order == Order::ReleasedBeforeHome {
            self.release(claim, order);
            if out {
                self.bring(0);
            }
            return;
        }
        if out {
            self.bring(0);
        }
        self.release(claim, order);
    }

    /// Leaves page 0 out as a lane does.
    fn leave_out(&self) {
        let Ok(mut claim) = self.desk.claim(CHUNK) else { return };
        self.return_left_out(&mut claim);
        if !self.is_pinned() {
            claim.note[0] = self.take_out(0);
        }
        self.release(claim, Order::Right);
    }

    /// Brings pages back as the extra lane does.
    fn bring_all_back(&self) {
        let Ok(mut claim) = self.desk.claim_to_return(CHUNK) else { return };
        self.return_left_out(&mut claim);
        self.release(claim, Order::Right);
    }

    /// Pauses as `Inner::pause` does.
    fn pause(&self) {
        self.desk.pause();
        for _ in self.desk.chunks_where(|left_out| left_out.contains(&true)) {
            self.bring_all_back();
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
            let Turn::Claimed(mut claim) = self.desk.claim_for_fault(CHUNK) else { continue };
            match std::mem::take(&mut claim.note[page]) {
                true => self.bring(page),
                false => self.supply_zeros(page),
            }
            self.release(claim, Order::Right);
        }
    }

    fn end(&self) {
        self.pages.lock().unwrap().ended = true;
        self.changed.notify_all();
    }

    fn moves(&self) -> u32 {
        self.pages.lock().unwrap().moves[0]
    }

    fn out(&self) -> usize {
        let at = self.pages.lock().unwrap().at;
        at.iter().filter(|&&at| at == At::Out).count()
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// Starts a thread that runs `act` on the world.
fn spawn(world: &Arc<World>, act: fn(&World)) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || act(&world))
}

/// Checks a lane that moves page 0 beside threads that touch it and page 1, which is missing.
fn a_lane_and_touchers(order: Order) {
    check(move || {
        let world = World::new([At::Home, At::Missing]);
        let handler = spawn(&world, World::handle_faults);
        let touchers = [spawn(&world, |world| world.touch(0)), spawn(&world, |w| w.touch(1))];
        world.migrate(order);
        touchers.into_iter().for_each(|toucher| toucher.join().unwrap());
        world.end();
        handler.join().unwrap();
        assert_eq!(world.out(), 0);
    });
}

/// Goal: every thread that touches a page in flight, or a missing one beside it, continues, and
/// never gets zeros for a page that is out.
#[test]
fn touchers_of_a_chunk_in_flight_go_on() {
    a_lane_and_touchers(Order::Right);
}

/// Goal: the model can fail: if a chunk is released before its pages are home, the handler supplies
/// zeros over them.
#[test]
#[should_panic(expected = "zeros over a page that is out")]
fn releasing_before_pages_are_home_is_found() {
    a_lane_and_touchers(Order::ReleasedBeforeHome);
}

/// Goal: the model can fail: without the wake-up after a release, a thread that touched a missing
/// page waits for ever. Runs in a process of its own, because loom does not survive a deadlock.
#[test]
fn waking_nobody_is_found() {
    const HERE: &str = "NODEWARD_DEADLOCK";
    if std::env::var_os(HERE).is_some() {
        return a_lane_and_touchers(Order::NobodyWoken);
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
        let world = World::new([At::Out, At::Missing]);
        let handler = spawn(&world, World::handle_faults);
        let toucher = spawn(&world, |world| world.touch(0));
        let lane = spawn(&world, |world| world.migrate(Order::Right));
        world.bring_all_back();
        toucher.join().unwrap();
        lane.join().unwrap();
        world.end();
        handler.join().unwrap();
        assert_eq!(world.out(), 0);
    });
}

/// Goal: between pause and resume nothing is out of sight, as fork(2) needs; afterwards lanes
/// continue.
#[test]
fn nothing_is_out_during_a_pause() {
    check(|| {
        let world = World::new([At::Out, At::Missing]);
        let handler = spawn(&world, World::handle_faults);
        let lane = spawn(&world, |world| {
            world.leave_out();
            world.migrate(Order::Right);
        });
        let toucher = spawn(&world, |world| world.touch(0));
        world.pause();
        assert_eq!(world.out(), 0, "the child would read zeros");
        world.desk.resume();
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
        let world = World::new([At::Home, At::Missing]);
        let fork = |world: &World| {
            world.pause();
            assert_eq!(world.out(), 0, "the child would read zeros");
            world.desk.resume();
        };
        let other = spawn(&world, fork);
        let lane = spawn(&world, World::leave_out);
        fork(&world);
        other.join().unwrap();
        lane.join().unwrap();
    });
}

/// Goal: once a pin exists, the page stays where it is, even if lanes began before.
#[test]
fn a_pinned_page_stays() {
    check(|| {
        let world = World::new([At::Home, At::Missing]);
        let lanes =
            [spawn(&world, |world| world.migrate(Order::Right)), spawn(&world, World::leave_out)];
        world.desk.pin(0..1);
        world.bring_all_back();
        let moves = world.moves();
        assert_eq!(world.out(), 0, "a pinned page is in sight");
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        assert_eq!(world.moves(), moves, "a pinned page moved");
        world.desk.unpin(&(0..1));
        world.migrate(Order::Right);
        assert_eq!(world.moves(), moves + 1, "and moves again later");
    });
}

/// Goal: closing waits for the claims that exist and refuses new ones; it returns the pages that
/// were left out.
#[test]
fn closing_waits_for_claims() {
    check(|| {
        let world = World::new([At::Home, At::Missing]);
        let lane = spawn(&world, |world| world.migrate(Order::Right));
        let other = spawn(&world, World::bring_all_back);
        assert_eq!(world.desk.close().len(), 512, "the notes of a GiB: nobody has one of them");
        let moves = world.moves();
        assert_eq!(world.out(), 0);
        assert!(world.desk.claim(CHUNK).is_err() && world.desk.claim_to_return(CHUNK).is_err());
        assert!(matches!(world.desk.claim_for_fault(CHUNK), Turn::Closing));
        lane.join().unwrap();
        other.join().unwrap();
        assert_eq!(world.moves(), moves, "nothing moves after the end");
    });
}
