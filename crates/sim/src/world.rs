//! The simulated machine: CPUs that run tasks in virtual time.
//!
//! A CPU works in *turns*. A turn begins with the next task and its next operation. It ends when
//! the operation is done, the slice is over, or the CPU is interrupted. A memory-bound operation
//! runs at the rate that memory and links have when the turn begins, for [`TURN_NS`] at most.

mod asked;
mod ops;
mod watch;

use nodeward_policy::sampling::Stream;
use nodeward_scenario::{Kind, Machine, Scenario};

use crate::actions::MoveRecord;
use crate::counters::Counters;
use crate::events::{Event, Events};
use crate::faults::{FaultState, Hotplug};
use crate::latencies::Latencies;
use crate::layout::Layout;
use crate::lines::Seen;
use crate::memory::Memory;
use crate::mover::Movers;
use crate::numa_balancing::NumaBalancing;
use crate::programs::{self, Barrier, Flight};
use crate::scale::scale;
use crate::sched::{Line, Sched};
use crate::space::{Space, SpaceId};
use crate::task::{Op, Spent, State, Task, TaskId};
use crate::trace::TraceHash;
use crate::traffic::{Carried, EPOCH_NS, Flow, Traffic};

pub(crate) use watch::Watch;
pub use watch::{Moment, Picture};

/// The longest turn. A thread learns of a changed rate or balance at most this late.
pub(crate) const TURN_NS: u64 = 4_000_000;

/// A time years after the end of any run, in place of infinity. Sums of hundreds of it do not
/// overflow.
pub(crate) const FAR_NS: u64 = 1 << 55;

/// A CPU. Nearly all of it is needed in each turn, so it is kept in whole cache lines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Cpu {
    /// The task on it.
    pub running: Option<TaskId>,
    turn: u32,
    /// Whether other tasks come first as soon as the turn ends.
    reschedule: bool,
    /// The last task on it.
    last: Option<TaskId>,
    began_ns: u64,
    /// The time at which it last became idle.
    pub(crate) idle_since_ns: u64,
    /// CPU time that its task has left before others run, in nanoseconds.
    slice_ns: u64,
    /// Time spent in interrupts that its task has not been charged for yet, in nanoseconds.
    stolen_ns: u64,
    /// Interrupt time at the beginning of the turn, in nanoseconds; it ends at `began_ns`.
    lead_ns: u64,
    /// Busy time, in nanoseconds.
    pub busy_ns: u64,
    /// Its run queue.
    pub line: Line,
    /// Its flows through memory in this turn.
    pub(crate) flows: Vec<Carried>,
    /// The operation of this turn; none between turns.
    doing: Option<Doing>,
    /// Spaces whose translations it was told to flush since they were used here.
    pub(crate) cold: Vec<SpaceId>,
}

/// The operation of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    /// Time that passes: its purpose, and the speed of the core, of 1000.
    Busy(Spent, u64),
    /// Lines: the time of each in picoseconds, local misses per 1000 misses, cache hits per 1000
    /// lines, and page-table walks per 1000 lines.
    Lines { line_ps: u64, local_milli: u64, hit_milli: u64, walk_milli: u64 },
    /// Page faults on the lines of the turn that follows.
    Fault,
    /// Copied lines, and the time of each in picoseconds.
    Copy { line_ps: u64 },
}

/// A simulated machine and all that runs on it.
pub struct World {
    /// Its hardware.
    pub machine: Machine,
    /// Counters so far.
    pub counters: Counters,
    /// Latencies of single operations.
    pub latencies: Latencies,
    pub(crate) layout: Layout,
    pub(crate) now_ns: u64,
    pub(crate) events: Events,
    pub(crate) chance: Stream,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) spaces: Vec<Space>,
    pub(crate) memory: Memory,
    pub(crate) traffic: Traffic,
    pub(crate) mover: Movers,
    /// Pages moved by actions of the scenario.
    pub moves: Vec<MoveRecord>,
    /// Parts of the machine that actions took offline or brought back.
    pub hotplugs: Vec<Hotplug>,
    pub(crate) sched: Sched,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) flights: Vec<Flight>,
    /// Placement of the memory that tasks go through, by task.
    pub(crate) seen: Vec<Seen>,
    /// The steps of [`World::steps`], without pipes.
    pub(crate) steps: u64,
    trace: TraceHash,
    scenario: Scenario,
    pub(crate) seed: u64,
    pub(crate) watch: Watch,
    /// Number of events after which waits for calls end.
    pub(crate) events_max: u64,
    pub(crate) faults: FaultState,
    /// The kernel's NUMA balancing, if it is on.
    pub(crate) numa: Option<Box<NumaBalancing>>,
}

impl World {
    /// Creates a machine with its programs, at time 0.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let machine = scenario.machine.clone();
        let layout = Layout::of(&machine);
        let memory = Memory::new(&machine, &layout);
        let traffic = Traffic::new(&machine, &layout);
        let mover = Movers::new(&machine, &layout);
        let sched = Sched::new(&machine, &layout, scenario);
        let cpus = (0..layout.cpus.len()).map(|_| Cpu::default()).collect();
        let mut world = Self {
            counters: Counters::default(),
            latencies: Latencies::default(),
            now_ns: 0,
            events: Events::default(),
            chance: Stream::new(seed),
            cpus,
            tasks: Vec::new(),
            spaces: Vec::new(),
            trace: TraceHash::default(),
            scenario: scenario.clone(),
            machine,
            layout,
            memory,
            traffic,
            seed,
            watch: Watch::new(scenario),
            events_max: u64::MAX,
            faults: FaultState::new(scenario, seed),
            numa: scenario.numa_balancing.then(Box::default),
            mover,
            moves: Vec::new(),
            hotplugs: Vec::new(),
            sched,
            barriers: Vec::new(),
            flights: Vec::new(),
            seen: Vec::new(),
            steps: 0,
        };
        world.begin_watch();
        world.events.plan(EPOCH_NS, Event::Traffic);
        world.plan_tick();
        world.plan_balance();
        programs::start(&mut world);
        world.start_numad();
        world.plan_actions();
        world
    }

    /// Processes all events that are due until a virtual time.
    pub fn run_until(&mut self, until_ns: u64) {
        while self.step(until_ns) {}
    }

    /// Processes up to `events` events that are due until a virtual time. Returns whether that was
    /// all of them. This lets a caller observe or stop the run at short intervals.
    pub fn run_some(&mut self, until_ns: u64, events: u32) -> bool {
        (0..events).any(|_| !self.step(until_ns))
    }

    /// Processes one event that is due until a virtual time. If there is none, advances to that
    /// time and returns `false`.
    pub(crate) fn step(&mut self, until_ns: u64) -> bool {
        let Some((at, event)) = self.events.next(until_ns) else {
            self.now_ns = self.now_ns.max(until_ns);
            return false;
        };
        self.now_ns = at;
        self.counters.events += 1;
        self.happen(event);
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Cpu { cpu, turn } if self.cpus[cpu as usize].turn == turn => {
                self.trace.note(&[self.now_ns, u64::from(cpu)]);
                self.turn(cpu as usize);
            }
            Event::Cpu { .. } => {}
            Event::Wake(task) => self.wake(task),
            Event::Balance { node } => self.balance(node as usize),
            Event::Traffic => {
                self.traffic.look();
                self.events.plan(self.now_ns + EPOCH_NS, Event::Traffic);
            }
            Event::Sample => self.sample(),
            Event::Action(index) => self.act(index as usize),
            Event::Engine(channel) => self.channel_done(channel as usize),
            Event::Tick => self.tick(),
        }
    }

    /// Adds a task and puts it into a run queue.
    pub(crate) fn start_task(&mut self, task: Task) -> TaskId {
        let id = self.tasks.len() as TaskId;
        if let Some(space) = task.space {
            self.spaces[space].tasks.push(id);
            self.spaces[space].first_task.get_or_insert(id);
        }
        self.tasks.push(task);
        self.confine(id);
        self.ready(id);
        id
    }

    /// Ends the wait of a task. A task that is not waiting will not wait the next time.
    pub(crate) fn wake(&mut self, task: TaskId) {
        let entry = &mut self.tasks[task as usize];
        match entry.state {
            State::Waiting => {
                if matches!(entry.op, Some(Op::Wait | Op::Sleep(_))) {
                    entry.op = None; // lines that met a page in flight go on
                }
                self.ready(task);
            }
            State::Ready | State::Running => entry.woken = true,
            State::Ended => {}
        }
    }

    /// Plans the periodic balancing of each node, at different times.
    fn plan_balance(&mut self) {
        let balance = self.machine.params.balance_ns;
        let count = self.machine.nodes.len() as u64;
        for node in (0..count).filter(|&node| !self.layout.cpus_of_node[node as usize].is_empty()) {
            let first = balance + balance * node / count;
            self.events.plan(first, Event::Balance { node: node as u32 });
        }
    }

    /// Returns whether the turn of a CPU can be cut short.
    pub(crate) fn can_stop(&self, cpu: usize) -> bool {
        match self.cpus[cpu].doing {
            Some(Doing::Busy(spent, _)) => spent == Spent::User,
            // Kernel work is finished first.
            Some(Doing::Fault | Doing::Copy { .. }) => false,
            Some(Doing::Lines { .. }) | None => true,
        }
    }

    /// Lets a CPU begin a new turn in `in_ns`.
    pub(crate) fn interrupt(&mut self, cpu: usize, in_ns: u64) {
        if self.can_stop(cpu) {
            self.plan_turn(cpu, in_ns);
        }
    }

    /// Lets other tasks run as soon as the task of a CPU can be stopped.
    pub(crate) fn reschedule(&mut self, cpu: usize) {
        self.cpus[cpu].reschedule = true;
        self.interrupt(cpu, 0);
    }

    /// Ends the turn of a task in user mode, and takes the CPU from it.
    pub(crate) fn stop_turn(&mut self, cpu: usize) -> Option<TaskId> {
        let task = self.cpus[cpu].running?;
        if self.cpus[cpu].doing.is_none() || !self.can_stop(cpu) {
            return None;
        }
        self.end_turn(cpu);
        self.set_running(cpu, None);
        Some(task)
    }

    /// Returns the CPU time of a CPU's task since its turn began, in nanoseconds.
    pub(crate) fn ran_in_turn(&self, cpu: usize) -> u64 {
        let entry = &self.cpus[cpu];
        if entry.doing.is_some() { self.now_ns.saturating_sub(entry.began_ns) } else { 0 }
    }

    fn plan_turn(&mut self, cpu: usize, in_ns: u64) {
        let entry = &mut self.cpus[cpu];
        entry.turn = entry.turn.wrapping_add(1);
        let event = Event::Cpu { cpu: cpu as u32, turn: entry.turn };
        self.events.plan(self.now_ns + in_ns, event);
    }

    /// Takes time from the task that runs on a CPU.
    pub(crate) fn steal_time(&mut self, cpu: usize, ns: u64) {
        if self.cpus[cpu].running.is_some() {
            self.tell_interrupt(cpu, ns);
            let stolen_ns = &mut self.cpus[cpu].stolen_ns;
            *stolen_ns = stolen_ns.saturating_add(ns).min(FAR_NS);
        }
    }

    /// Registers a flow for the turn that begins on a CPU.
    pub(crate) fn begin_flow(&mut self, cpu: usize, flow: Flow) {
        let carried = self.traffic.begin(flow);
        self.cpus[cpu].flows.push(carried);
    }

    /// Counts the work of a task for its workload.
    pub(crate) fn done(&mut self, task: TaskId, count: u64) {
        let Some(index) = self.tasks[task as usize].workload else { return };
        if let Some(space) = self.tasks[task as usize].space {
            self.spaces[space].done += count;
        }
        let name = &self.scenario.workloads[index].name;
        match self.counters.done.get_mut(name) {
            Some(sum) => *sum += count,
            None => drop(self.counters.done.insert(name.clone(), count)),
        }
    }

    /// Ends a turn and begins the next one.
    fn turn(&mut self, cpu: usize) {
        self.end_turn(cpu);
        self.leave(cpu);
        while self.cpus[cpu].running.is_none() {
            let next = self.take_next(cpu).or_else(|| self.pull(cpu));
            let Some(task) = next else { return };
            self.enter(cpu, task);
            self.begin_turn(cpu, task);
        }
        self.share_line(cpu);
    }

    /// Decides whether the task continues after its turn, and if so begins its next turn.
    fn leave(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].running else { return };
        let others = self.cpus[cpu].line.len() > 0;
        let called = std::mem::take(&mut self.cpus[cpu].reschedule);
        let over = self.cpus[cpu].slice_ns == 0 || called;
        // The task was rescheduled if it may not run here any longer.
        let allowed = &self.tasks[task as usize].allowed;
        let may_stay = !called || allowed.contains(cpu) && !self.is_nudged(task);
        if over && others || self.has_urgent(cpu) || !may_stay {
            self.set_running(cpu, None);
            self.tasks[task as usize].ran_at_ns = self.now_ns;
            self.put_back(cpu, task);
        } else {
            if self.cpus[cpu].slice_ns == 0 {
                self.cpus[cpu].slice_ns = self.machine.params.slice_ns;
            }
            self.begin_turn(cpu, task);
        }
    }

    /// Returns whether an urgent task waits for a CPU whose own task is not urgent.
    fn has_urgent(&self, cpu: usize) -> bool {
        let is_urgent = |task: TaskId| self.tasks[task as usize].urgent;
        let running = self.cpus[cpu].running;
        !running.is_some_and(is_urgent) && self.cpus[cpu].line.first().is_some_and(is_urgent)
    }

    fn enter(&mut self, cpu: usize, task: TaskId) {
        let slice = self.machine.params.slice_ns;
        self.set_running(cpu, Some(task));
        self.note_enter(task);
        let entry = &mut self.cpus[cpu];
        entry.slice_ns = slice;
        entry.reschedule = false;
        if entry.last.replace(task) != Some(task) {
            entry.stolen_ns += self.machine.params.switch_ns;
            self.counters.switches += 1;
        }
        let entry = &mut self.tasks[task as usize];
        entry.state = State::Running;
        entry.cpu = cpu;
        if let Some(space) = entry.space {
            self.note_space(task, space, cpu);
        }
    }

    /// Accounts for the work done since the turn began.
    fn end_turn(&mut self, cpu: usize) {
        self.tell_turn(cpu);
        let entry = &mut self.cpus[cpu];
        let (Some(doing), Some(id)) = (entry.doing.take(), entry.running) else { return };
        let ran = self.now_ns.saturating_sub(entry.began_ns);
        let late = entry.began_ns.saturating_sub(self.now_ns);
        let lead = entry.lead_ns.saturating_sub(late);
        entry.stolen_ns += entry.lead_ns - lead;
        entry.busy_ns += ran + lead;
        entry.slice_ns = entry.slice_ns.saturating_sub(ran + lead);
        self.counters.spend(Spent::Kernel, lead);
        for flow in entry.flows.drain(..) {
            self.traffic.end(flow);
        }
        let task = &mut self.tasks[id as usize];
        task.ran_ns += ran;
        task.vruntime_ns += ran;
        entry.line.note_run(task.vruntime_ns);
        let op = task.op.as_mut().expect("a task on a CPU does something");
        match (doing, op) {
            (Doing::Busy(spent, speed), Op::Busy(_, left)) => {
                self.counters.spend(spent, ran);
                *left = left.saturating_sub(scale(ran, speed, 1000).max(1));
            }
            (Doing::Lines { line_ps, local_milli, hit_milli, walk_milli }, Op::Lines(lines)) => {
                self.counters.spend(Spent::User, ran);
                let done = (u128::from(ran) * 1000 / u128::from(line_ps)) as u64;
                let rest = if ran > 0 { (done + 1).min(lines.lines) } else { 0 };
                // A turn that lasted as long as its lines completed them all, despite rounding.
                let done = if rest == lines.lines { rest } else { done };
                lines.lines -= done;
                let (part, misses) = (lines.part, done * (1000 - hit_milli) / 1000);
                let written = (lines.access.writes_milli > 0).then_some(*lines);
                let local = misses * local_milli / 1000;
                let workload = task.workload;
                self.counters.note_lines(done, local_milli, hit_milli, walk_milli);
                self.watch.note_lines(workload, [local, misses - local]);
                let kind = workload.map(|index| &self.scenario.workloads[index].kind);
                if !matches!(kind, Some(Kind::Compile { .. })) {
                    self.done(id, done); // those count lives
                }
                self.count_accesses(cpu, &part, misses);
                if let Some(lines) = written {
                    self.note_writes(cpu, &part, self.turn_began_ns(cpu));
                    self.copy_on_write(cpu, &lines, done);
                }
            }
            (Doing::Copy { line_ps }, Op::Copy(copying)) => {
                self.counters.spend(Spent::Copy, ran);
                copying.lines -= (ran * 1000).div_ceil(line_ps).min(copying.lines);
            }
            (Doing::Fault, Op::Lines(_)) => self.counters.spend(Spent::Fault, ran),
            (doing, op) => unreachable!("{doing:?} of {op:?}"),
        }
    }

    /// Begins the next operation of a task. The CPU has no task afterwards if the task waits or
    /// ends.
    fn begin_turn(&mut self, cpu: usize, task: TaskId) {
        let op = self.next_op(task);
        let slice = self.cpus[cpu].slice_ns.max(1);
        match op {
            Op::Busy(Spent::User, ns) => {
                let speed = self.speed_milli(cpu);
                let turn = (ns.saturating_mul(1000) / speed).min(slice).min(TURN_NS);
                self.begin(cpu, Doing::Busy(Spent::User, speed), turn);
            }
            Op::Busy(spent, ns) => self.begin(cpu, Doing::Busy(spent, 1000), ns),
            Op::Copy(copying) => self.begin_copy(cpu, copying, TURN_NS),
            Op::Lines(lines) => self.begin_lines(cpu, task, &lines, slice.min(TURN_NS)),
            Op::Wait | Op::Sleep(_) | Op::Exit => self.stand_down(cpu, task, op),
        }
    }

    pub(crate) fn begin(&mut self, cpu: usize, doing: Doing, ns: u64) {
        let entry = &mut self.cpus[cpu];
        entry.doing = Some(doing);
        entry.lead_ns = std::mem::take(&mut entry.stolen_ns);
        entry.began_ns = self.now_ns + entry.lead_ns;
        let lead = entry.lead_ns;
        self.plan_turn(cpu, lead + ns.clamp(1, FAR_NS));
    }

    pub(crate) fn stand_down(&mut self, cpu: usize, task: TaskId, op: Op) {
        self.set_running(cpu, None);
        let entry = &mut self.tasks[task as usize];
        entry.ran_at_ns = self.now_ns;
        entry.state = State::Waiting;
        match op {
            Op::Sleep(until) => self.events.plan(until.max(self.now_ns + 1), Event::Wake(task)),
            Op::Exit => {
                entry.state = State::Ended;
                if entry.space.is_some() {
                    self.cpus[cpu].line.note_end(entry.vruntime_ns);
                }
            }
            _ => {}
        }
    }
}
