//! Threads of the fake machine that tests start and end.

use nodeward_model::Pid;

use super::lock::lock;
use super::machine::FakeMachine;
use super::thread::FakeThread;
use crate::ThreadRecord;

impl FakeMachine {
    /// Starts a thread of a process, with the name, affinity and CPU of its starter; does nothing
    /// if there is no such starter.
    pub fn start_thread(&self, pid: Pid, starter: u32, tid: u32) {
        let mut is_there = false;
        self.update_process(pid, |process| {
            if let Some(thread) = process.threads.get(&starter) {
                let new = FakeThread { cpu_time_ns: 0, waited_ns: 0, ..thread.clone() };
                process.threads.insert(tid, new);
                is_there = true;
            }
        });
        if is_there {
            lock(&self.thread_log).push(ThreadRecord::Started { pid, tid, starter });
        }
    }

    /// Ends a thread of a process.
    pub fn end_thread(&self, pid: Pid, tid: u32) {
        self.update_process(pid, |process| _ = process.threads.remove(&tid));
        lock(&self.thread_log).push(ThreadRecord::Ended { pid, tid });
    }

    /// Drops the records that wait, and counts them as lost.
    pub fn lose_thread_records(&self) {
        let waiting = &mut lock(&self.thread_log).waiting;
        waiting.lost += std::mem::take(&mut waiting.records).len() as u64;
    }

    /// Forbids records of threads, with this advice, or permits them.
    pub fn deny_thread_records(&self, remedy: Option<&str>) {
        lock(&self.thread_log).denied = remedy.map(str::to_owned);
    }

    /// Whether records of threads are open now, and how often they were opened.
    pub fn thread_records_opened(&self) -> (bool, u64) {
        let log = lock(&self.thread_log);
        (log.is_open, log.opened)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nodeward_model::CpuId;

    use super::*;
    use crate::conformance::thread_records::{ALL, ThreadRecordFixture};
    use crate::fake::FakeProcess;

    /// Goal: the records of the fake machine pass the bodies for which they stand in.
    #[test]
    fn the_fake_records_conform() {
        let machine = FakeMachine::new(false);
        let pid = Pid::new(7).unwrap();
        let thread = FakeThread::new(CpuId(0), [CpuId(0)].into_iter().collect(), 1000);
        let process = FakeProcess { threads: [(7, thread)].into(), ..FakeProcess::default() };
        machine.spawn(pid, process);
        let next = Cell::new(8);
        let fixture = ThreadRecordFixture {
            machine: &machine,
            pid,
            starter: 7,
            start_chain: &|| {
                let [one, two] = [next.get(), next.get() + 1];
                next.set(one + 2);
                machine.start_thread(pid, 7, one);
                machine.start_thread(pid, one, two);
                [one, two].into_iter().rev().for_each(|tid| machine.end_thread(pid, tid));
                [one, two]
            },
        };
        for (name, body) in ALL {
            println!("{name}");
            body(&fixture);
        }
    }
}
