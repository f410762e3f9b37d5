//! Processes and tasks that begin.

use nodeward_machine::ThreadRecord;
use nodeward_model::Pid;

use crate::cpu::{Op, Task};
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::memory::{AddressSpace, MemoryRegion};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// The pid of the first process.
const FIRST_PID: u32 = 1000;

impl World {
    /// Adds a process, without threads, in a memory cgroup.
    pub(crate) fn add_space(
        &mut self,
        name: String,
        regions: Vec<MemoryRegion>,
        group: usize,
    ) -> SpaceId {
        let space = self.spaces.len();
        // There are many short-lived processes; pids are reused, as everywhere.
        let number = FIRST_PID + (space as u64 % u64::from(Pid::LIMIT - FIRST_PID)) as u32;
        let pid = Pid::new(number).expect("a small number");
        self.spaces.push(AddressSpace::new(pid, name, regions, group));
        space
    }

    /// Adds a task with its program, and puts it into a run queue. The first thread of its process
    /// starts it.
    pub(crate) fn start_task(&mut self, task: Task, program: Box<dyn TaskProgram>) -> TaskId {
        let leader = task.space.and_then(|space| self.spaces[space].leader);
        self.start_task_from(leader, task, program)
    }

    /// The same, started by another thread.
    pub(crate) fn start_task_from(
        &mut self,
        starter: Option<TaskId>,
        task: Task,
        program: Box<dyn TaskProgram>,
    ) -> TaskId {
        let id = self.tasks.len() as TaskId;
        if let Some(space) = task.space {
            self.spaces[space].tasks.push(id);
            self.spaces[space].leader.get_or_insert(id);
        }
        self.tasks.push(task);
        self.programs.push(Some(program));
        let cpus = self.cpus.len();
        self.offline_cpus.restrict(id, &mut self.tasks[id as usize], cpus);
        self.make_runnable(id);
        self.record_start(id, starter);
        id
    }

    /// Records that a thread was started, if another one of its process did that.
    fn record_start(&mut self, task: TaskId, starter: Option<TaskId>) {
        let space = self.tasks[task as usize].space;
        if let (Some(space), Some(starter), false) = (space, starter, self.thread_log.is_empty()) {
            let (pid, tid) = (self.spaces[space].pid, self.tid(task));
            let starter = self.tid(starter);
            self.thread_log.push(ThreadRecord::Started { pid, tid, starter });
        }
    }

    /// Starts a kernel thread that may run on some CPUs, or on all.
    pub(crate) fn start_kernel_task(
        &mut self,
        cpus: Option<CpuIndexSet>,
        program: Box<dyn TaskProgram>,
    ) -> TaskId {
        let allowed = cpus.unwrap_or_else(|| CpuIndexSet::of(0..self.cpus.len()));
        self.start_task(Task::new(allowed), program)
    }

    /// Starts a thread that works for `ns` on one CPU, by index.
    pub(crate) fn start_work(&mut self, cpu: usize, spent: CpuTimeKind, ns: u64) -> TaskId {
        let program = SingleOp(Some(Op::Busy(spent, ns)));
        self.start_kernel_task(Some(CpuIndexSet::of([cpu])), Box::new(program))
    }
}

/// Program that does one operation and ends.
struct SingleOp(Option<Op>);

impl TaskProgram for SingleOp {
    fn next(&mut self, _: &mut World, _: TaskId) -> Op {
        self.0.take().unwrap_or(Op::Exit)
    }
}
