//! Threads that live through all turns: allocators keep much per thread, and the cost of starting
//! anew would be measured otherwise.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::CpuId;

type Task<'env> = Box<dyn FnOnce() + Send + 'env>;

/// Threads that wait for tasks.
pub struct Crew<'env> {
    hands: Vec<Sender<Task<'env>>>,
}

/// Starts `threads` threads, each pinned to one of the CPUs, and ends them after `work`.
pub fn with_crew<'env, T>(
    machine: &'env Linux,
    cpus: &[CpuId],
    threads: u32,
    work: impl FnOnce(&Crew<'env>) -> T,
) -> T {
    thread::scope(|scope| {
        let start = |cpu: CpuId| {
            let (hand, tasks) = mpsc::channel::<Task<'env>>();
            scope.spawn(move || {
                machine.stay_on(cpu);
                tasks.into_iter().for_each(|task| task());
            });
            hand
        };
        let on = cpus.iter().cycle().take(threads as usize);
        work(&Crew { hands: on.copied().map(start).collect() })
    })
}

impl<'env> Crew<'env> {
    /// Runs a task on every thread; the results come in the order of completion.
    pub fn each<R: Send + 'env>(&self, task: impl Fn() -> R + Clone + Send + 'env) -> Receiver<R> {
        let (told, results) = mpsc::channel();
        for hand in &self.hands {
            give(hand, task.clone(), told.clone());
        }
        results
    }

    /// Runs a task on one thread.
    pub fn one<R: Send + 'env>(
        &self,
        number: usize,
        task: impl FnOnce() -> R + Send + 'env,
    ) -> Receiver<R> {
        let (told, result) = mpsc::channel();
        give(&self.hands[number], task, told);
        result
    }
}

fn give<'env, R: Send + 'env>(
    hand: &Sender<Task<'env>>,
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
    fn the_crew_stays() {
        let machine = Linux::open();
        let cpus: Vec<_> = machine.usable_cpus().unwrap().iter().collect();
        with_crew(&machine, &cpus, 3, |crew| {
            let turn = || {
                let ids: Vec<_> = crew.each(|| thread::current().id()).into_iter().collect();
                ids.iter().map(|id| format!("{id:?}")).collect::<BTreeSet<_>>()
            };
            let first = turn();
            assert_eq!(first.len(), 3);
            assert_eq!(turn(), first);
        });
    }
}
