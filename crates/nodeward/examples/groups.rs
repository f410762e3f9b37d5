//! A program in parts: each has threads and an array that only these use. It tells the agent
//! (`nodeward balance`) so, which then keeps each part together, on a node of its own if it can.
//! Without an agent it does the same work wherever it runs.

use std::error::Error;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use nodeward::{Group, GroupAgent, GroupFailure, GroupHome};

const PARTS: u64 = 2;
const THREADS: usize = 2; // of each part
const WORDS: usize = 1 << 18; // 2 MiB for each part

/// Runs all parts at once; returns the numbers of their groups.
pub fn run(agent: &GroupAgent) -> Result<Vec<u32>, GroupFailure> {
    let parts: Result<Vec<_>, _> = thread::scope(|scope| {
        let parts: Vec<_> =
            (0..PARTS).map(|part| scope.spawn(move || run_part(agent, part))).collect();
        parts.into_iter().map(|part| part.join().expect("no thread panics")).collect()
    });
    Ok(parts?.into_iter().flatten().collect())
}

/// Runs it with the agent that NODEWARD_SOCKET names, or that of the system.
pub fn main() -> Result<(), Box<dyn Error>> {
    run(&GroupAgent::default())?;
    Ok(())
}

/// Makes a group of a part's array; `None`, with a word, if there is no agent to ask.
fn group_of(
    agent: &GroupAgent,
    part: u64,
    words: &[AtomicU64],
) -> Result<Option<Group>, GroupFailure> {
    match agent.make(&format!("part-{part}"), &GroupHome::Auto) {
        Ok(group) => {
            group.add_slice(words)?;
            Ok(Some(group))
        }
        Err(error @ (GroupFailure::NoAgent { .. } | GroupFailure::NoAccess { .. })) => {
            println!("part {part} is not grouped: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Adds one to each word of its half of the part.
fn work(
    group: Option<&Group>,
    half: &[AtomicU64],
    all_there: &Barrier,
) -> Result<(), GroupFailure> {
    // Whoever is in the group before the work begins is moved before it, too.
    let joined = group.map_or(Ok(()), Group::add_current_thread);
    all_there.wait();
    half.iter().for_each(|word| _ = word.fetch_add(1, Relaxed));
    joined
}

/// Works on one part with all its threads; returns the number of its group.
fn run_part(agent: &GroupAgent, part: u64) -> Result<Option<u32>, GroupFailure> {
    let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(part)).collect();
    let group = group_of(agent, part, &words)?;
    let (shared, all_there) = (group.as_ref(), &Barrier::new(THREADS));
    thread::scope(|scope| {
        let halves = words.chunks(WORDS / THREADS);
        // All are started before one is waited for.
        let threads: Vec<_> =
            halves.map(|half| scope.spawn(move || work(shared, half, all_there))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    assert!(words.iter().all(|word| word.load(Relaxed) == part + 1));
    if let Some(group) = &group {
        match group.nodes()? {
            Some(nodes) => println!("part {part} belongs to nodes {nodes}"),
            None => println!("part {part} is group {}, no round has placed it yet", group.id()),
        }
    }
    Ok(group.as_ref().map(Group::id))
} // here the group ends
