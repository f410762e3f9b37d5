//! Threads that live through all turns: allocators keep much per thread, and the cost of starting
//! anew would be measured otherwise.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::CpuId;

type BoxedTask<'env> = Box<dyn FnOnce() + Send + 'env>;

/// Threads that wait for tasks.
pub struct PinnedThreads<'env> {
    senders: Vec<Sender<BoxedTask<'env>>>,
}

/// Starts `threads` threads, each pinned to one of the CPUs, and ends them after `work`.
pub fn with_pinned_threads<'env, T>(
    machine: &'env Linux,
    cpus: &[CpuId],
    threads: u32,
    work: impl FnOnce(&PinnedThreads<'env>) -> T,
) -> T {
    thread::scope(|scope| {
        let start = |cpu: CpuId| {
            let (hand, tasks) = mpsc::channel::<BoxedTask<'env>>();
            scope.spawn(move || {
                machine.pin_current_thread(cpu);
                tasks.into_iter().for_each(|task| task());
            });
            hand
        };
        let on = cpus.iter().cycle().take(threads as usize);
        work(&PinnedThreads { senders: on.copied().map(start).collect() })
    })
}

impl<'env> PinnedThreads<'env> {
    /// Runs a task on every thread; the results come in the order of completion.
    pub fn run_on_all<R: Send + 'env>(
        &self,
        task: impl Fn() -> R + Clone + Send + 'env,
    ) -> Receiver<R> {
        let (told, results) = mpsc::channel();
        for hand in &self.senders {
            send_task(hand, task.clone(), told.clone());
        }
        results
    }

    /// Runs a task on one thread.
    pub fn run_on<R: Send + 'env>(
        &self,
        number: usize,
        task: impl FnOnce() -> R + Send + 'env,
    ) -> Receiver<R> {
        let (told, result) = mpsc::channel();
        send_task(&self.senders[number], task, told);
        result
    }
}

fn send_task<'env, R: Send + 'env>(
    hand: &Sender<BoxedTask<'env>>,
    task: impl FnOnce() -> R + Send + 'env,
    told: Sender<R>,
) {
    let task = move || {
        // The receiver is gone if something else failed.
        let _ = told.send(task());
    };
    // A thread is gone only if it panicked, and then the scope that started it panics, too.
    let _ = hand.send(Box::new(task));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Goal: every thread works, and the same threads work in the next turn.
    #[test]
    fn threads_stay() {
        let machine = Linux::open();
        let cpus: Vec<_> = machine.usable_cpus().unwrap().iter().collect();
        with_pinned_threads(&machine, &cpus, 3, |workers| {
            let turn = || {
                let ids: Vec<_> =
                    workers.run_on_all(|| thread::current().id()).into_iter().collect();
                ids.iter().map(|id| format!("{id:?}")).collect::<BTreeSet<_>>()
            };
            let first = turn();
            assert_eq!(first.len(), 3);
            assert_eq!(turn(), first);
        });
    }
}
