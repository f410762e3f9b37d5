//! The simulated machine: CPUs that run tasks in virtual time.
//!
//! A CPU works in *turns*. A turn begins with the next task and its next operation. It ends when
//! the operation is done, the slice is over, or the CPU is interrupted. A memory-bound operation
//! runs at the rate that memory and links have when the turn begins, for [`TURN_NS`] at most.

use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::{MachineSpec, Scenario, WorkloadKind};

use super::task_program::TaskProgram;
use crate::arithmetic::mul_div;
use crate::cpu::{CpuTimeKind, Op, RunQueue, Task, TaskId, TaskState};
use crate::events::{EventQueue, SimEvent, TraceHash};
use crate::faults::{FaultModel, HotplugRecord};
use crate::hardware::{ActiveFlow, EPOCH_NS, Flow, MachineLayout, Traffic};
use crate::memory::{AddressSpace, PhysicalMemory, SpaceId};
use crate::migration::MoverState;
use crate::numa_balancing::NumaBalancing;
use crate::output::Recorder;
use crate::programs::{Barrier, StreamWindow, start_workloads};
use crate::scheduler::Sched;
use crate::simulation::{CachedResidency, MoveRecord};
use crate::statistics::{Counters, Latencies};

/// The longest turn. A thread learns of a changed rate or balance at most this late.
pub const TURN_NS: u64 = 4_000_000;

/// A time years after the end of any run, in place of infinity. Sums of hundreds of it do not
/// overflow.
pub const NEVER_NS: u64 = 1 << 55;

/// A CPU. Nearly all of it is needed in each turn, so it is kept in whole cache lines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Cpu {
    /// The task on it.
    pub running: Option<TaskId>,
    pub turn_number: u32,
    /// Whether other tasks come first as soon as the turn ends.
    pub need_resched: bool,
    /// The last task on it.
    pub last_task: Option<TaskId>,
    pub turn_began_ns: u64,
    /// The time at which it last became idle.
    pub idle_since_ns: u64,
    /// CPU time that its task has left before others run, in nanoseconds.
    pub slice_ns: u64,
    /// Time spent in interrupts that its task has not been charged for yet, in nanoseconds.
    pub pending_interrupt_ns: u64,
    /// Interrupt time at the beginning of the turn, in nanoseconds; it ends at `turn_began_ns`.
    pub turn_interrupt_ns: u64,
    /// Busy time, in nanoseconds.
    pub busy_ns: u64,
    /// Its run queue.
    pub run_queue: RunQueue,
    /// Its flows through memory in this turn.
    pub flows: Vec<ActiveFlow>,
    /// The operation of this turn; none between turns.
    pub turn_work: Option<TurnWork>,
    /// Spaces whose translations it was told to flush since they were used here.
    pub flushed_spaces: Vec<SpaceId>,
}

/// The operation of a turn.
#[derive(Clone, Copy, Debug)]
pub enum TurnWork {
    /// Time that passes: its purpose, and the speed of the core, of 1000.
    Busy(CpuTimeKind, u64),
    /// Lines: the time of each in picoseconds, local misses per 1000 misses, cache hits per 1000
    /// lines, and page-table walks per 1000 lines.
    Access { line_ps: u64, local_milli: u64, hit_milli: u64, walk_milli: u64 },
    /// Page faults on the lines of the turn that follows.
    Fault,
    /// Copied lines, and the time of each in picoseconds.
    Copy { line_ps: u64 },
}

/// A simulated machine and all that runs on it.
pub struct World {
    /// Its hardware.
    pub machine: MachineSpec,
    /// Counters so far.
    pub counters: Counters,
    /// Latencies of single operations.
    pub latencies: Latencies,
    pub(crate) layout: MachineLayout,
    pub(crate) now_ns: u64,
    pub(crate) events: EventQueue,
    pub(crate) rng: SplitMix64,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    /// The program of each task. `None` while the program chooses the next operation.
    pub(crate) programs: Vec<Option<Box<dyn TaskProgram>>>,
    pub(crate) spaces: Vec<AddressSpace>,
    pub(crate) memory: PhysicalMemory,
    pub(crate) traffic: Traffic,
    pub(crate) movers: MoverState,
    /// Pages moved by actions of the scenario.
    pub moves: Vec<MoveRecord>,
    /// Parts of the machine that actions took offline or brought back.
    pub hotplugs: Vec<HotplugRecord>,
    pub(crate) sched: Sched,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) streams: Vec<StreamWindow>,
    /// Placement of the memory that tasks go through, by task.
    pub(crate) residency_cache: Vec<CachedResidency>,
    /// The steps of [`World::steps`], without pipes.
    pub(crate) steps: u64,
    pub(crate) trace: TraceHash,
    pub(crate) scenario: Scenario,
    pub(crate) seed: u64,
    pub(crate) recorder: Recorder,
    /// Number of events after which waits for calls end.
    pub(crate) events_max: u64,
    pub(crate) fault_model: FaultModel,
    /// The kernel's NUMA balancing, if it is on.
    pub(crate) numa_balancing: Option<Box<NumaBalancing>>,
}

impl World {
    /// Creates a machine with its programs, at time 0.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let machine = scenario.machine.clone();
        let layout = MachineLayout::of(&machine);
        let memory = PhysicalMemory::new(&machine, &layout);
        let traffic = Traffic::new(&machine, &layout);
        let mover = MoverState::new(&machine, &layout);
        let sched = Sched::new(&machine, &layout, scenario);
        let cpus = (0..layout.cpus.len()).map(|_| Cpu::default()).collect();
        let mut world = Self {
            counters: Counters::default(),
            latencies: Latencies::default(),
            now_ns: 0,
            events: EventQueue::default(),
            rng: SplitMix64::new(seed),
            cpus,
            tasks: Vec::new(),
            programs: Vec::new(),
            spaces: Vec::new(),
            trace: TraceHash::default(),
            scenario: scenario.clone(),
            machine,
            layout,
            memory,
            traffic,
            seed,
            recorder: Recorder::new(scenario),
            events_max: u64::MAX,
            fault_model: FaultModel::new(scenario, seed),
            numa_balancing: scenario.numa_balancing.then(Box::default),
            movers: mover,
            moves: Vec::new(),
            hotplugs: Vec::new(),
            sched,
            barriers: Vec::new(),
            streams: Vec::new(),
            residency_cache: Vec::new(),
            steps: 0,
        };
        world.plan_samples();
        world.events.plan(EPOCH_NS, SimEvent::Traffic);
        world.plan_tick();
        world.plan_balance();
        start_workloads(&mut world);
        world.start_home_balancers();
        world.plan_actions();
        world
    }

    /// Processes all events that are due until a virtual time.
    pub fn run_until(&mut self, until_ns: u64) {
        while self.step(until_ns) {}
    }

    /// Processes up to `events` events that are due until a virtual time. Returns whether that was
    /// all of them. This lets a caller observe or stop the run at short intervals.
    pub fn run_events(&mut self, until_ns: u64, events: u32) -> bool {
        (0..events).any(|_| !self.step(until_ns))
    }

    /// Processes one event that is due until a virtual time. If there is none, advances to that
    /// time and returns `false`.
    pub(crate) fn step(&mut self, until_ns: u64) -> bool {
        let Some((at, event)) = self.events.pop_until(until_ns) else {
            self.now_ns = self.now_ns.max(until_ns);
            return false;
        };
        self.now_ns = at;
        self.counters.events += 1;
        self.dispatch(event);
        true
    }

    pub(crate) fn dispatch(&mut self, event: SimEvent) {
        match event {
            SimEvent::TurnEnd { cpu, turn } if self.cpus[cpu as usize].turn_number == turn => {
                self.trace.update(&[self.now_ns, u64::from(cpu)]);
                self.run_next_turn(cpu as usize);
            }
            SimEvent::TurnEnd { .. } => {}
            SimEvent::Wake(task) => self.wake(task),
            SimEvent::Balance { node } => self.load_balance(node as usize),
            SimEvent::Traffic => {
                self.traffic.update();
                self.events.plan(self.now_ns + EPOCH_NS, SimEvent::Traffic);
            }
            SimEvent::Sample => self.sample(),
            SimEvent::Action(index) => self.perform_action(index as usize),
            SimEvent::DmaDone(channel) => self.finish_dma_transfer(channel as usize),
            SimEvent::Tick => self.age_lists(),
        }
    }

    /// Adds a task with its program, and puts it into a run queue.
    pub(crate) fn start_task(&mut self, task: Task, program: Box<dyn TaskProgram>) -> TaskId {
        let id = self.tasks.len() as TaskId;
        if let Some(space) = task.space {
            self.spaces[space].tasks.push(id);
            self.spaces[space].leader.get_or_insert(id);
        }
        self.tasks.push(task);
        self.programs.push(Some(program));
        self.restrict_to_online(id);
        self.make_runnable(id);
        id
    }

    /// Ends the wait of a task. A task that is not waiting will not wait the next time.
    pub(crate) fn wake(&mut self, task: TaskId) {
        let entry = &mut self.tasks[task as usize];
        match entry.state {
            TaskState::Waiting => {
                if matches!(entry.op, Some(Op::Wait | Op::Sleep(_))) {
                    entry.op = None; // lines that met a page in flight go on
                }
                self.make_runnable(task);
            }
            TaskState::Ready | TaskState::Running => entry.wakeup_pending = true,
            TaskState::Ended => {}
        }
    }

    /// Plans the periodic balancing of each node, at different times.
    pub(crate) fn plan_balance(&mut self) {
        let balance = self.machine.params.balance_ns;
        let count = self.machine.nodes.len() as u64;
        for node in (0..count).filter(|&node| !self.layout.cpus_of_node[node as usize].is_empty()) {
            let first = balance + balance * node / count;
            self.events.plan(first, SimEvent::Balance { node: node as u32 });
        }
    }

    /// Returns whether the turn of a CPU can be cut short.
    pub(crate) fn is_preemptible(&self, cpu: usize) -> bool {
        match self.cpus[cpu].turn_work {
            Some(TurnWork::Busy(spent, _)) => spent == CpuTimeKind::User,
            // Kernel work is finished first.
            Some(TurnWork::Fault | TurnWork::Copy { .. }) => false,
            Some(TurnWork::Access { .. }) | None => true,
        }
    }

    /// Lets a CPU begin a new turn in `in_ns`.
    pub(crate) fn kick_cpu(&mut self, cpu: usize, in_ns: u64) {
        if self.is_preemptible(cpu) {
            self.plan_turn(cpu, in_ns);
        }
    }

    /// Lets other tasks run as soon as the task of a CPU can be stopped.
    pub(crate) fn resched_cpu(&mut self, cpu: usize) {
        self.cpus[cpu].need_resched = true;
        self.kick_cpu(cpu, 0);
    }

    /// Ends the turn of a task in user mode, and takes the CPU from it.
    pub(crate) fn preempt_user_turn(&mut self, cpu: usize) -> Option<TaskId> {
        let task = self.cpus[cpu].running?;
        if self.cpus[cpu].turn_work.is_none() || !self.is_preemptible(cpu) {
            return None;
        }
        self.end_turn(cpu);
        self.set_running(cpu, None);
        Some(task)
    }

    /// Returns the CPU time of a CPU's task since its turn began, in nanoseconds.
    pub(crate) fn turn_time_ns(&self, cpu: usize) -> u64 {
        let entry = &self.cpus[cpu];
        if entry.turn_work.is_some() { self.now_ns.saturating_sub(entry.turn_began_ns) } else { 0 }
    }

    pub(crate) fn plan_turn(&mut self, cpu: usize, in_ns: u64) {
        let entry = &mut self.cpus[cpu];
        entry.turn_number = entry.turn_number.wrapping_add(1);
        let event = SimEvent::TurnEnd { cpu: cpu as u32, turn: entry.turn_number };
        self.events.plan(self.now_ns + in_ns, event);
    }

    /// Takes time from the task that runs on a CPU.
    pub(crate) fn charge_interrupt(&mut self, cpu: usize, ns: u64) {
        if self.cpus[cpu].running.is_some() {
            self.observe_interrupt(cpu, ns);
            let stolen_ns = &mut self.cpus[cpu].pending_interrupt_ns;
            *stolen_ns = stolen_ns.saturating_add(ns).min(NEVER_NS);
        }
    }

    /// Registers a flow for the turn that begins on a CPU.
    pub(crate) fn begin_flow(&mut self, cpu: usize, flow: Flow) {
        let carried = self.traffic.begin(flow);
        self.cpus[cpu].flows.push(carried);
    }

    /// Ends a turn and begins the next one.
    pub(crate) fn run_next_turn(&mut self, cpu: usize) {
        self.end_turn(cpu);
        self.continue_or_deschedule(cpu);
        while self.cpus[cpu].running.is_none() {
            let next = self.pick_next_task(cpu).or_else(|| self.pull_task(cpu));
            let Some(task) = next else { return };
            self.switch_to(cpu, task);
            self.begin_turn(cpu, task);
        }
        self.push_queued_tasks(cpu);
    }

    /// Decides whether the task continues after its turn, and if so begins its next turn.
    pub(crate) fn continue_or_deschedule(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].running else { return };
        let others = self.cpus[cpu].run_queue.len() > 0;
        let called = std::mem::take(&mut self.cpus[cpu].need_resched);
        let over = self.cpus[cpu].slice_ns == 0 || called;
        // The task was rescheduled if it may not run here any longer.
        let allowed = &self.tasks[task as usize].allowed;
        let may_stay = !called || allowed.contains(cpu) && !self.is_nudged(task);
        if over && others || self.has_urgent(cpu) || !may_stay {
            self.set_running(cpu, None);
            self.tasks[task as usize].last_ran_ns = self.now_ns;
            self.put_prev_task(cpu, task);
        } else {
            if self.cpus[cpu].slice_ns == 0 {
                self.cpus[cpu].slice_ns = self.machine.params.slice_ns;
            }
            self.begin_turn(cpu, task);
        }
    }

    /// Returns whether an urgent task waits for a CPU whose own task is not urgent.
    pub(crate) fn has_urgent(&self, cpu: usize) -> bool {
        let is_urgent = |task: TaskId| self.tasks[task as usize].urgent;
        let running = self.cpus[cpu].running;
        !running.is_some_and(is_urgent) && self.cpus[cpu].run_queue.first().is_some_and(is_urgent)
    }

    pub(crate) fn switch_to(&mut self, cpu: usize, task: TaskId) {
        let slice = self.machine.params.slice_ns;
        self.set_running(cpu, Some(task));
        self.record_wake_latency(task);
        let entry = &mut self.cpus[cpu];
        entry.slice_ns = slice;
        entry.need_resched = false;
        if entry.last_task.replace(task) != Some(task) {
            entry.pending_interrupt_ns += self.machine.params.switch_ns;
            self.counters.switches += 1;
        }
        let entry = &mut self.tasks[task as usize];
        entry.state = TaskState::Running;
        entry.cpu = cpu;
        if let Some(space) = entry.space {
            self.record_tlb_cpu(task, space, cpu);
        }
    }

    /// Accounts for the work done since the turn began.
    pub(crate) fn end_turn(&mut self, cpu: usize) {
        self.observe_turn(cpu);
        let entry = &mut self.cpus[cpu];
        let (Some(doing), Some(id)) = (entry.turn_work.take(), entry.running) else { return };
        let ran = self.now_ns.saturating_sub(entry.turn_began_ns);
        let late = entry.turn_began_ns.saturating_sub(self.now_ns);
        let lead = entry.turn_interrupt_ns.saturating_sub(late);
        entry.pending_interrupt_ns += entry.turn_interrupt_ns - lead;
        entry.busy_ns += ran + lead;
        entry.slice_ns = entry.slice_ns.saturating_sub(ran + lead);
        self.counters.record_cpu_time(CpuTimeKind::Kernel, lead);
        for flow in entry.flows.drain(..) {
            self.traffic.end(flow);
        }
        let task = &mut self.tasks[id as usize];
        task.cpu_time_ns += ran;
        task.vruntime_ns += ran;
        entry.run_queue.advance_min_vruntime(task.vruntime_ns);
        let op = task.op.as_mut().expect("a task on a CPU does something");
        match (doing, op) {
            (TurnWork::Busy(spent, speed), Op::Busy(_, left)) => {
                self.counters.record_cpu_time(spent, ran);
                *left = left.saturating_sub(mul_div(ran, speed, 1000).max(1));
            }
            (
                TurnWork::Access { line_ps, local_milli, hit_milli, walk_milli },
                Op::Access(lines),
            ) => {
                self.counters.record_cpu_time(CpuTimeKind::User, ran);
                let done = (u128::from(ran) * 1000 / u128::from(line_ps)) as u64;
                let rest = if ran > 0 { (done + 1).min(lines.lines) } else { 0 };
                // A turn that lasted as long as its lines completed them all, despite rounding.
                let done = if rest == lines.lines { rest } else { done };
                lines.lines -= done;
                let (part, misses) = (lines.range, done * (1000 - hit_milli) / 1000);
                let written = (lines.pattern.writes_milli > 0).then_some(*lines);
                let local = misses * local_milli / 1000;
                let workload = task.workload;
                self.counters.record_lines(done, local_milli, hit_milli, walk_milli);
                self.recorder.record_lines(workload, [local, misses - local]);
                let kind = workload.map(|index| &self.scenario.workloads[index].kind);
                if !matches!(kind, Some(WorkloadKind::Compile { .. })) {
                    self.count_work(id, done); // those count lives
                }
                self.sample_accesses(cpu, &part, misses);
                if let Some(lines) = written {
                    self.record_writes(cpu, &part, self.turn_began_ns(cpu));
                    self.copy_on_write(cpu, &lines, done);
                }
            }
            (TurnWork::Copy { line_ps }, Op::Copy(copying)) => {
                self.counters.record_cpu_time(CpuTimeKind::Copy, ran);
                copying.lines -= (ran * 1000).div_ceil(line_ps).min(copying.lines);
            }
            (TurnWork::Fault, Op::Access(_)) => {
                self.counters.record_cpu_time(CpuTimeKind::Fault, ran);
            }
            (doing, op) => unreachable!("{doing:?} of {op:?}"),
        }
    }

    /// Begins the next operation of a task. The CPU has no task afterwards if the task waits or
    /// ends.
    pub(crate) fn begin_turn(&mut self, cpu: usize, task: TaskId) {
        let op = self.next_op(task);
        let slice = self.cpus[cpu].slice_ns.max(1);
        match op {
            Op::Busy(CpuTimeKind::User, ns) => {
                let speed = self.speed_milli(cpu);
                let turn = (ns.saturating_mul(1000) / speed).min(slice).min(TURN_NS);
                self.start_turn(cpu, TurnWork::Busy(CpuTimeKind::User, speed), turn);
            }
            Op::Busy(spent, ns) => self.start_turn(cpu, TurnWork::Busy(spent, 1000), ns),
            Op::Copy(copying) => self.begin_copy(cpu, copying, TURN_NS),
            Op::Access(lines) => self.begin_access(cpu, task, &lines, slice.min(TURN_NS)),
            Op::Wait | Op::Sleep(_) | Op::Exit => self.block_or_exit(cpu, task, op),
        }
    }

    pub(crate) fn start_turn(&mut self, cpu: usize, doing: TurnWork, ns: u64) {
        let entry = &mut self.cpus[cpu];
        entry.turn_work = Some(doing);
        entry.turn_interrupt_ns = std::mem::take(&mut entry.pending_interrupt_ns);
        entry.turn_began_ns = self.now_ns + entry.turn_interrupt_ns;
        let lead = entry.turn_interrupt_ns;
        self.plan_turn(cpu, lead + ns.clamp(1, NEVER_NS));
    }

    pub(crate) fn block_or_exit(&mut self, cpu: usize, task: TaskId, op: Op) {
        self.set_running(cpu, None);
        let entry = &mut self.tasks[task as usize];
        entry.last_ran_ns = self.now_ns;
        entry.state = TaskState::Waiting;
        match op {
            Op::Sleep(until) => self.events.plan(until.max(self.now_ns + 1), SimEvent::Wake(task)),
            Op::Exit => {
                entry.state = TaskState::Ended;
                if entry.space.is_some() {
                    self.cpus[cpu].run_queue.record_exit(entry.vruntime_ns);
                }
            }
            _ => {}
        }
    }
}
