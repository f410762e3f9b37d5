//! Threads that stay through all turns: allocators keep much for each thread, and what ends with
//! it would be measured instead.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::CpuId;

type Task<'env> = Box<dyn FnOnce() + Send + 'env>;

/// Threads that wait for work.
pub struct Crew<'env> {
    hands: Vec<Sender<Task<'env>>>,
}

/// Starts so many threads, each of which stays on one of the CPUs, and ends them after `work`.
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
    /// Has every thread do this; the results come as they are there.
    pub fn each<R: Send + 'env>(&self, task: impl Fn() -> R + Clone + Send + 'env) -> Receiver<R> {
        let (told, results) = mpsc::channel();
        for hand in &self.hands {
            give(hand, task.clone(), told.clone());
        }
        results
    }

    /// Has one thread do this.
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
        // Nobody listens any more where something else failed.
        let _ = told.send(task());
    };
    // A thread that is gone panicked, and so does whoever started it.
    let _ = hand.send(Box::new(task));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Goal: every thread works, and they are the same ones in the next turn.
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
