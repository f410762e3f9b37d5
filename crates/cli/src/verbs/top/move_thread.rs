//! The threads that plan and move, one at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nodeward_mover::MoveControl;

use super::inbox::Inbox;
use super::mover::{LastMove, MoveProgress, PlannedMove, TopMover};
use crate::top::{MoveStatus, Proposal, ScreenEvent, ScreenRequest};

/// Time between two looks at a move that is to end.
const TICK: Duration = Duration::from_millis(20);

/// The screen's side of the threads.
pub struct MoveThread {
    shared: Arc<MoveShared>,
    inbox: Inbox,
    /// Stops the plan under way.
    planning: Arc<MoveControl>,
    active: Option<ActiveMove>,
}

/// What the threads share.
struct MoveShared {
    mover: TopMover,
    /// The number of the last plan that was asked for; what others give is of no use any more.
    number: AtomicU64,
    planned: Mutex<Option<(u64, PlannedMove)>>,
    last: Mutex<Option<LastMove>>,
}

/// A move under way, or one that has ended.
struct ActiveMove {
    status: MoveStatus,
    progress: Arc<MoveProgress>,
    is_done: Arc<AtomicBool>,
    /// What it did.
    words: Arc<Mutex<Option<String>>>,
}

impl MoveThread {
    /// Creates it; nothing moves yet.
    pub fn new(mover: TopMover, inbox: Inbox) -> Self {
        let shared = MoveShared {
            mover,
            number: AtomicU64::new(0),
            planned: Mutex::new(None),
            last: Mutex::new(None),
        };
        Self { shared: Arc::new(shared), inbox, planning: Arc::default(), active: None }
    }

    /// Does what the screen wants.
    pub fn take(&mut self, request: ScreenRequest) {
        match request {
            ScreenRequest::Plan(order) => self.plan(move |mover, live| mover.plan(&order, live)),
            ScreenRequest::PlanUndo => self.plan_undo(),
            ScreenRequest::Carry(number) => self.carry(number),
            ScreenRequest::Forget => self.forget(),
            ScreenRequest::Cancel => {
                self.active.iter().for_each(|active| active.progress.stop());
            }
            ScreenRequest::Redraw | ScreenRequest::Quit => {}
        }
    }

    /// Returns whether something moves.
    pub fn is_at_work(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !active.is_done.load(Ordering::Acquire))
    }

    /// Returns how far the move is, while it is under way.
    pub fn status(&self) -> Option<MoveStatus> {
        let active = self.active.as_ref().filter(|_| self.is_at_work())?;
        let MoveStatus { pid, what, .. } = active.status.clone();
        Some(MoveStatus { pid, what, ..active.progress.status() })
    }

    /// Stops the move, and waits for its end for at most that long. Returns what it did, if one was
    /// under way.
    pub fn end(mut self, time: Duration) -> Option<String> {
        self.forget();
        if !self.is_at_work() {
            return None;
        }
        let active = self.active.take()?;
        active.progress.stop();
        let began = Instant::now();
        while !active.is_done.load(Ordering::Acquire) && began.elapsed() < time {
            thread::sleep(TICK);
        }
        let words = lock(&active.words).take();
        Some(words.unwrap_or_else(|| {
            format!("the move of {} has not ended; nodeward ledger shows it", active.status.what)
        }))
    }

    fn plan_undo(&mut self) {
        let last = *lock(&self.shared.last);
        match last {
            Some(last) => self.plan(move |mover, live| mover.plan_undo(last, live)),
            None => self.tell(ScreenEvent::Planned(Err(
                "nothing that this screen moved can be taken back; nodeward ledger lists moves"
                    .to_owned(),
            ))),
        }
    }

    fn tell(&self, event: ScreenEvent) {
        self.inbox.send(Ok(event));
    }

    /// Gives up the plan, or the making of it.
    fn forget(&mut self) {
        self.planning.stop();
        self.shared.number.fetch_add(1, Ordering::AcqRel);
        *lock(&self.shared.planned) = None;
    }

    fn plan(
        &mut self,
        make: impl FnOnce(&TopMover, &MoveControl) -> anyhow::Result<PlannedMove> + Send + 'static,
    ) {
        self.forget();
        self.planning = Arc::default();
        let (shared, inbox) = (Arc::clone(&self.shared), self.inbox.clone());
        let live = Arc::clone(&self.planning);
        let number = shared.number.load(Ordering::Acquire);
        let work = move || {
            let planned = make(&shared.mover, &live);
            let mut place = lock(&shared.planned);
            if shared.number.load(Ordering::Acquire) == number {
                let proposal = planned.map(|planned| {
                    let lines = planned.lines.clone();
                    *place = Some((number, planned));
                    Proposal { number, lines }
                });
                let proposal = proposal.map_err(|error| format!("{error:#}"));
                inbox.send(Ok(ScreenEvent::Planned(proposal)));
            }
        };
        self.spawn("nodeward-plan", work);
    }

    /// Begins the planned move of that number.
    fn carry(&mut self, number: u64) {
        let planned = lock(&self.shared.planned).take_if(|(planned, _)| *planned == number);
        let Some((_, planned)) = planned else { return };
        let status = MoveStatus {
            pid: Some(planned.pid),
            what: planned.whose.clone(),
            ..MoveStatus::default()
        };
        let active = ActiveMove {
            status,
            progress: Arc::new(planned.progress()),
            is_done: Arc::default(),
            words: Arc::default(),
        };
        let (shared, inbox) = (Arc::clone(&self.shared), self.inbox.clone());
        let progress = Arc::clone(&active.progress);
        let (is_done, told) = (Arc::clone(&active.is_done), Arc::clone(&active.words));
        self.active = Some(active);
        let work = move || {
            let words = match shared.mover.carry_out(&planned, &progress) {
                Ok(outcome) => {
                    *lock(&shared.last) = outcome.last;
                    outcome.words
                }
                Err(error) => format!("the move failed: {error:#}"),
            };
            *lock(&told) = Some(words.clone());
            // From now on nobody says that it goes on.
            is_done.store(true, Ordering::Release);
            inbox.send(Ok(ScreenEvent::Ended(words)));
        };
        if !self.spawn("nodeward-move", work) {
            self.active = None;
        }
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
        if let Err(error) = &spawned {
            self.tell(ScreenEvent::Planned(Err(format!("there is no room for a thread: {error}"))));
        }
        spawned.is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use nodeward_agent::client::Client;
    use nodeward_agent::wire::Order;
    use nodeward_linux::Linux;
    use nodeward_linux::test_wait::wait_for;
    use nodeward_model::{NodeId, NodePairs, Pid};

    use super::*;
    use crate::machines::SelectedMachine;
    use crate::settings::{MoveLayer, MoveSettings};
    use crate::verbs::by_agent::tests::with_agent;
    use crate::verbs::top::inbox::InboxReader;
    use crate::verbs::top::mover::plan_by_agent;

    fn next(inbox: &mut InboxReader) -> ScreenEvent {
        wait_for("a thread tells something", || inbox.take().pop_front()).unwrap()
    }

    /// Goal: an agent carries out what was planned and said yes to, and nothing else: 3000 pages of
    /// 4 KiB are 11.7 MiB. What is told at the end is what happened; without a ledger nothing can
    /// be taken back.
    #[test]
    fn an_agent_moves() {
        with_agent(|path, _| {
            let mover = TopMover {
                machine: Arc::new(SelectedMachine::Local(Linux::open())),
                settings: MoveSettings::resolve(MoveLayer::default()),
                agent: Some(path.to_owned()),
                exclusive: Arc::default(),
            };
            let (inbox, mut told) = Inbox::open().unwrap();
            let mut thread = MoveThread::new(mover, inbox);
            let (agent, us) = (path.to_owned(), Pid::of_this_process());
            thread.plan(move |_, _| {
                let pairs = NodePairs::from_lists(&[NodeId(0)], &[NodeId(1)]);
                plan_by_agent(&mut Client::connect(&agent)?, us, Order::between(&pairs))
            });
            let ScreenEvent::Planned(Ok(plan)) = next(&mut told) else { panic!("no plan") };
            assert_eq!(plan.lines[0], format!("Move 11.7 MiB of process {us}?"));
            thread.take(ScreenRequest::Carry(plan.number + 1));
            assert!(!thread.is_at_work());
            thread.take(ScreenRequest::Carry(plan.number));
            let ScreenEvent::Ended(words) = next(&mut told) else { panic!("no end") };
            assert!(words.starts_with(&format!("moved 11.7 MiB of process {us} in ")), "{words}");
            assert!(!words.contains("takes it back"), "{words}");
            assert_eq!(thread.end(Duration::ZERO), None);
        });
    }

    /// Goal: a plan that is made after somebody left is not told, and cannot be carried out.
    #[test]
    fn a_plan_that_is_given_up() {
        let mover = TopMover {
            machine: Arc::new(SelectedMachine::Local(Linux::open())),
            settings: MoveSettings::resolve(MoveLayer::default()),
            agent: None,
            exclusive: Arc::default(),
        };
        let (inbox, mut told) = Inbox::open().unwrap();
        let mut thread = MoveThread::new(mover, inbox);
        let (go_on, waits) = std::sync::mpsc::channel::<()>();
        let (end, ended) = std::sync::mpsc::channel();
        thread.plan(move |_, live| {
            waits.recv()?;
            end.send(live.is_stopped())?;
            anyhow::bail!("nobody reads this")
        });
        thread.take(ScreenRequest::Forget);
        go_on.send(()).unwrap();
        assert!(ended.recv().unwrap(), "it was asked to stop");
        thread.take(ScreenRequest::PlanUndo);
        let ScreenEvent::Planned(Err(why)) = next(&mut told) else { panic!("another event") };
        assert!(why.starts_with("nothing that this screen moved"), "{why}");
    }
}
